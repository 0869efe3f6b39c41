"""What a request cannot read: files that a name, an include, a link or a macro leads to outside the folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from perfmodel.errors import InputError
from perfmodel.service.commands_of import command_of
from perfmodel.service.requests import AnalyzeRequest, PredictRequest, RankRequest

from .landlock import needs_landlock


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "root").resolve()
    (folder / "inc").mkdir(parents=True)
    (folder / "k.cu").write_text('#include "inc/own.cuh"\n#include <vector>\n__global__ void k(float *x) {}\n')
    (folder / "inc" / "own.cuh").write_text("// ours\n")
    (folder / "run.py").write_text("print('hello')\n")
    (tmp_path / "secret.cuh").write_text("int secret;\n")
    (folder / "link.cuh").symlink_to(tmp_path / "secret.cuh")
    (folder / "script.cu").symlink_to(folder / "run.py")
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
    ("changes", "message"),
    [
        ({"file": "../secret.cuh"}, "outside the folder"),
        ({"file": "/etc/passwd"}, "outside the folder"),
        ({"file": "link.cuh"}, "outside the folder"),
        ({"file": "run.py"}, "runs no Python file"),
        ({"include": [".."]}, "outside the folder"),
        ({"gpu": "../own.toml"}, "outside the folder"),
        ({"gpu": "--help"}, "no name of a GPU"),
        ({"file": "script.cu"}, "runs no Python file"),
        ({"source": "int x;"}, "one of them is needed"),
    ],
)
def test_no_name_leads_outside(root: Path, tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        command_of(analyze(**changes), root, tmp_path)


def test_a_space_has_no_options_of_the_compiler(root: Path, tmp_path: Path) -> None:
    space = 'kernel = "k"\ngrid = [1]\nblock = [32]\narguments = ["f32[32]"]\n[tune]\nN = [1]\n'
    (root / "space.toml").write_text(space)
    request = RankRequest(gpu="T4", file="k.cu", space="space.toml")
    assert "--space=space.toml" in command_of(request, root, tmp_path)
    (root / "space.toml").write_text(f"options = ['-DN=1']\n{space}")
    with pytest.raises(InputError, match=r"space space.toml: the service takes no options of the compiler"):
        command_of(request, root, tmp_path)


def confined(code: str, root: Path, *more: str) -> str:
    """What a confined process prints."""
    begin = "import sys; from pathlib import Path; from perfmodel.service.confinement import confine\n"
    command = [sys.executable, "-c", f"{begin}confine([Path(sys.argv[1])])\n{code}", str(root), *more]
    environment = os.environ | {"PERFMODEL_CACHE": str(root / "cache"), "TMPDIR": str(root)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment).stdout


@needs_landlock
def test_neither_the_process_nor_what_it_starts_opens_anything_else(root: Path, tmp_path: Path) -> None:
    code = (
        "import os, subprocess\n"
        "print(len(open(sys.argv[1] + '/k.cu').read()) > 0)\n"
        "for what in (lambda: open(sys.argv[2]), lambda: os.listdir(os.path.dirname(sys.argv[2]))):\n"
        "    try: what()\n"
        "    except PermissionError as error: print(error.strerror)\n"
        "print(subprocess.run(['cat', sys.argv[2]], stderr=-3).returncode)\n"
    )
    assert confined(code, root, str(tmp_path / "secret.cuh")).split("\n") == [
        "True",
        *["Permission denied"] * 2,
        "1",
        "",
    ]


@needs_landlock
@pytest.mark.compiler
@pytest.mark.parametrize(
    "arguments",
    [
        ["bad.cu", "--kernel", "k"],  # an include whose name a macro computes
        ["flags/k.cu", "--kernel", "k"],  # the project's own flags
        ["k.cu", "--kernel", 'k<1>\n#include "SECRET"\n'],  # a name that becomes part of the source
        ["k.cu", "--kernel", "k", "--arg", "f32[]=@SECRET"],
    ],
)
def test_no_compiler_reads_outside(root: Path, tmp_path: Path, arguments: list[str]) -> None:
    secret, kernel = str(tmp_path / "secret.cuh"), "__global__ void k(float *x) {}\n"
    (root / "bad.cu").write_text(f'#define F "{secret}"\n#include F\n{kernel}')
    (root / "flags").mkdir()
    (root / "flags" / "k.cu").write_text(kernel)
    entry = {"directory": ".", "file": "k.cu", "command": f"nvcc -include {secret} -c k.cu"}
    (root / "flags" / "compile_commands.json").write_bytes(msgspec.json.encode([entry]))
    words = [word.replace("SECRET", secret) for word in arguments]
    words += ["--gpu", "h200", "--grid", "1", "--block", "32", *([] if "--arg" in words else ["--arg", "f32[32]"])]
    code = (
        "import os, contextlib; os.chdir(sys.argv[1]); from perfmodel.cli.app import run\n"
        "with contextlib.redirect_stderr(sys.stdout): print(run(sys.argv[2:]))"
    )
    said = confined(code, root, "analyze", *words)
    assert "ermission denied" in said
    assert said.endswith("\n2\n")
    assert "int secret" not in said
