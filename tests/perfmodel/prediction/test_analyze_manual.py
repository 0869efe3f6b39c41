"""What the manual's page shows is accepted."""

import re
from pathlib import Path

from perfmodel.families.user.space_file import parse_space
from perfmodel.launch.argument_text import parse_argument

PAGE = (Path(__file__).parents[3] / "docs" / "analyze.md").read_text(encoding="utf-8")


def test_the_space_of_the_manual_is_a_space() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    space = parse_space(text, "manual", Path())
    names = space.names({"BLOCK_X": 16, "BLOCK_Y": 4, "TILE": 2, "KIND": "float"})
    assert names["PITCH"] == 16 * 2 + 4 + 1
    assert [part.integer(names) for part in space.grid] == [4096 // 32, 4096 // 4, 1]
    assert all(constraint.value(names) in (0, 1) for constraint in space.constraints)


def test_the_arguments_of_the_manual_are_arguments() -> None:
    table = PAGE[PAGE.index("| spec | meaning |") : PAGE.index("A texture takes options")]
    rows = [line for line in table.split("\n") if line.startswith("|")][2:]
    assert rows
    for row in rows:
        specs = re.findall(r"`([^`]+)`", row.split("|")[1])
        assert [parse_argument(spec).text for spec in specs] == specs != []
