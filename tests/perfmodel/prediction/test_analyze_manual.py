"""What the manual's page shows is accepted."""

import re
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.families.user.space_file import parse_space
from perfmodel.launch.argument_spec import parse_argument
from perfmodel.sources.host_code import device_code
from perfmodel.sources.includes import _MAX_DEPTH

PAGE = (Path(__file__).parents[3] / "docs" / "analyze.md").read_text(encoding="utf-8")


def test_the_space_of_the_manual_is_a_space() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    space = parse_space(text, "manual", Path())
    names = space.names({"BLOCK_X": 16, "BLOCK_Y": 4, "TILE": 2, "KIND": "float"})
    assert names["PITCH"] == 16 * 2 + 4 + 1
    assert [part.integer(names) for part in space.grid] == [4096 // 32, 4096 // 4, 1]
    assert all(constraint.value(names) in (0, 1) for constraint in space.constraints)


def test_the_arguments_of_the_manual_are_arguments() -> None:
    table = PAGE[PAGE.index("| spec | meaning |") : PAGE.index("Types: `f16")]
    specs = [
        spec
        for row in table.split("\n")[2:]
        for spec in re.findall(r"`([^`]+)`", row.partition("|")[2].partition("|")[0])
    ]
    assert len(specs) == 8
    for spec in specs:
        assert parse_argument(spec).text == spec


@pytest.mark.parametrize(
    ("said", "source"),
    [
        (
            "branches of `#if` that do not each hold",
            "__global__ void k() {\n#if A\n if (x) {\n#else\n {\n#endif\n }\n}\n",
        ),
        ("comments that never end", "int a;\n/* never\n"),
        ("launches from device code", "__global__ void a() { a<<<1, 1>>>(); }\n"),
    ],
)
def test_what_the_manual_says_is_refused_is_refused_with_its_line(said: str, source: str) -> None:
    assert said in PAGE
    with pytest.raises(InputError, match=r"^k\.cu:\d+: "):
        device_code(source, "k.cu")


def test_the_depth_of_headers_is_that_of_the_manual() -> None:
    assert f"headers nested more than {_MAX_DEPTH} deep" in PAGE
