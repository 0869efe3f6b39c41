"""What a request cannot read: files that a name, an include, a link or a macro leads to outside the folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perfmodel.errors import InputError
from perfmodel.service.commands_of import command_of
from perfmodel.service.requests import TOOLS, AnalyzeRequest, PredictRequest, RankRequest, input_schema, output_schema


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "root").resolve()
    (folder / "inc").mkdir(parents=True)
    (folder / "k.cu").write_text('#include "inc/own.cuh"\n#include <vector>\n__global__ void k(float *x) {}\n')
    (folder / "inc" / "own.cuh").write_text("// ours\n")
    (folder / "run.py").write_text("print('hello')\n")
    (tmp_path / "secret.cuh").write_text("int secret;\n")
    (folder / "link.cuh").symlink_to(tmp_path / "secret.cuh")
    return folder


def analyze(**changes: object) -> AnalyzeRequest:
    given = {"gpu": "h200", "kernel": "k", "grid": [1], "block": [32], "arguments": ["f32[32]"], "file": "k.cu"}
    return msgspec.convert({**given, **changes}, AnalyzeRequest)


def test_a_request_becomes_the_command_that_a_user_would_type(root: Path, tmp_path: Path) -> None:
    request = analyze(
        defines={"N": 4}, include=["inc"], shared_bytes=64, lines=True, grid=[4, 2], arguments=["f32[9]", 3]
    )
    assert command_of(request, root, tmp_path) == [
        *("analyze", "k.cu", "--kernel=k", "--grid=4,2", "--block=32", "--arg=f32[9]", "--arg=3", "--define=N=4"),
        *(f"--include={root / 'inc'}", "--shared=64", "--source", "--gpu=h200", "--l2=cold", "--json"),
    ]
    rank = RankRequest(gpu="T4", family="conv1d", problem={"filter_width": 3}, top=2)
    assert command_of(rank, root, tmp_path)[:3] == ["rank", "conv1d", "--filter-width=3"]
    predict = PredictRequest(gpu="T4", family="conv1d", configuration={"variant": "tiled", "x": None})
    assert command_of(predict, root, tmp_path)[2:4] == ["--set=variant=tiled", "--set=x=none"]


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"',
        '#include "../secret.cuh"',
        "#include <../secret.cuh>",
        '#include "link.cuh"',
        '#  include "inc/../../secret.cuh"',
        '#inc\\\nlude "/etc/passwd"',
        '#/* */include "/etc/passwd"',
        '%:include "/etc/passwd"',
        '#define F "/etc/passwd"\n#include F',
        '#embed "/etc/passwd"',
        '#include_next "/etc/passwd"',
    ],
)
def test_no_include_leads_outside(root: Path, tmp_path: Path, source: str) -> None:
    (root / "bad.cu").write_text(f"{source}\n__global__ void k(float *x) {{}}\n")
    with pytest.raises(InputError, match=r"outside the folder that the service may read|reads no file whose name"):
        command_of(analyze(file="bad.cu"), root, tmp_path)


def test_a_header_of_the_folder_is_looked_through_too(root: Path, tmp_path: Path) -> None:
    (root / "inc" / "own.cuh").write_text('#include "../../secret.cuh"\n')
    with pytest.raises(InputError, match="outside the folder"):
        command_of(analyze(), root, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"file": "../secret.cuh"}, "outside the folder"),
        ({"file": "/etc/passwd"}, "outside the folder"),
        ({"file": "link.cuh"}, "outside the folder"),
        ({"file": "run.py"}, "runs no Python file"),
        ({"include": [".."]}, "outside the folder"),
        ({"gpu": "../own.toml"}, "outside the folder"),
        ({"gpu": "--help"}, "no name of a GPU"),
        ({"arguments": ["f32[]=@../in.npy"]}, "outside the folder"),
        ({"arguments": ["struct=f32=1,u8[]=@/etc/passwd"]}, "outside the folder"),
        ({"source": "int x;"}, "one of them is needed"),
    ],
)
def test_no_name_leads_outside(root: Path, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        command_of(analyze(**changes), root, tmp_path)


def test_the_process_opens_nothing_else(root: Path, tmp_path: Path) -> None:
    """Even where a name got through: the folder for temporary files, in which the tests lie, is another one here."""
    code = (
        "import sys, os, tempfile; from pathlib import Path; from perfmodel.service.confinement import confine\n"
        "tempfile.tempdir = sys.argv[1]; os.environ['PERFMODEL_CACHE'] = sys.argv[1]; confine(Path(sys.argv[1]))\n"
        "print(len(open(sys.argv[1] + '/k.cu').read()) > 0)\n"
        "for what in (lambda: open(sys.argv[2]), lambda: os.listdir(os.path.dirname(sys.argv[2]))):\n"
        "    try: what()\n"
        "    except PermissionError as error: print(error.strerror)\n"
    )
    command = [sys.executable, "-c", code, str(root), str(tmp_path / "secret.cuh")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["True", *["is outside the folder that the service may read"] * 2]


@pytest.mark.parametrize("tool", TOOLS)
def test_schemas_are_objects_with_descriptions(tool: str) -> None:
    taken = input_schema(tool)
    assert taken["type"] == "object"
    assert taken["additionalProperties"] is False
    given = output_schema(tool)
    assert given is None or given["type"] == "object"
