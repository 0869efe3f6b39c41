"""What the program prints as JSON is what `perfmodel schema` describes: no key more, none less, every value of its type."""

import json
from pathlib import Path

import pytest

from perfmodel.cli.app import run
from perfmodel.cli.json_schema import OBJECTS
from perfmodel.core.documents import converted
from perfmodel.families.problem_list import ListedProblem
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.validation.commands import _show

ROOT = Path(__file__).parents[3]
RECORDS = ["--measurements", str(ROOT / "validation" / "data" / "h200.jsonl.gz")]
TRANSPOSE = [
    *("analyze", str(ROOT / "examples" / "transpose.cu"), "--kernel", "transpose", "--grid", "8,8", "--block", "32,8"),
    *("--arg", "f32[65536]", "--arg", "f32[65536]=0", "--arg", "i32=256", "--source"),
]


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("predict", ["predict", "conv1d", "--gpu", "h200"]),
        ("rank", ["rank", "conv1d", "--gpu", "h200", "--fidelity", "analytic"]),
        ("gpus", ["gpus"]),
        ("gpu", ["gpus", "p100-pcie-12gb"]),
        ("families", ["families"]),
        ("network", ["network", "mobilenet_v1", "--gpu", "h200", "--fidelity", "analytic"]),
        ("fit", ["fit", "conv1d", "--gpu", "h200", *RECORDS, "--sample", "40"]),
        ("validate", ["validate", "conv1d", "--gpu", "h200", *RECORDS, "--sample", "20"]),
        pytest.param("analyze", [*TRANSPOSE, "--gpu", "h200"], marks=pytest.mark.compiler),
    ],
)
def test_objects_are_as_described(
    name: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--output", str(tmp_path / "fit.toml")] if name == "fit" else []
    assert run([*command, *output, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    converted(OBJECTS[name], printed, name)
    assert run(["schema", name]) == 0
    described = json.loads(capsys.readouterr().out)
    top = described["$defs"][described["$ref"].rsplit("/", 1)[1]]
    assert set(top["required"]) <= printed.keys() <= top["properties"].keys()
    assert top["additionalProperties"] is False


def test_records_of_a_problem_are_as_described(capsys: pytest.CaptureFixture[str]) -> None:
    _show(
        ListedProblem(name="default", family=FAMILY.name, problem=TiledConv2d()),
        ROOT / "validation" / "data" / "h200-problem.jsonl.gz",
        as_json=True,
    )
    assert converted(OBJECTS["measure"], json.loads(capsys.readouterr().out), "measure").records


def test_all_are_listed_and_an_unknown_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]} == OBJECTS.keys()
    assert run(["schema", "ranks"]) == 2
    assert "unknown schema 'ranks'; nearest: rank" in capsys.readouterr().err
