"""Whatever stands where a source, a program or a word of the command line should: one line, status 2, at once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from perfmodel.cli.app import run
from perfmodel.compiler.assembler import assemble

pytestmark = pytest.mark.compiler
PTX = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd1, [out];
    cvta.to.global.u64 %rd2, %rd1;
    ld.param.u32 %r1, [n];
    st.global.u32 [%rd2], %r1;
    ret;
}
"""
LAUNCH = ("--gpu", "h200", "--grid", "4096", "--block", "256", "--arg", "i32[64]=0", "--arg", "i32=4")
NOISE = random.Random(7).randbytes(4000)


def cubin() -> bytes:
    return assemble(PTX, "sm_90").cubin


def host_program() -> bytes:
    return Path("/bin/sh").read_bytes()


FILES: dict[str, Callable[[], bytes]] = {
    "empty.ptx": lambda: b"",
    "empty.cubin": lambda: b"",
    "noise.cu": lambda: NOISE,
    "noise.cubin": lambda: b"\x7fELF" + NOISE,
    "noise.fatbin": lambda: b"\x50\xed\x55\xba" + NOISE,
    "noise.a": lambda: b"!<arch>\n" + NOISE,
    "short.cubin": lambda: cubin()[:1200],
    "cut.cubin": lambda: cubin()[:-200],
    "host.exe": host_program,
    "newer.ptx": lambda: PTX.replace("8.0", "99.0").encode(),
    "unknown.ptx": lambda: PTX.replace("sm_90", "sm_999").encode(),
    "cut.ptx": lambda: PTX[:-60].encode(),
    "wide.cu": lambda: "__global__ void k(int *out, int n) { }".encode("utf-16"),
}


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that wrong input gives."""
    assert run(list(words)) == 2, words
    told = capsys.readouterr()
    assert told.out == "", words
    lines = [line for line in told.err.splitlines() if line.strip()]
    assert len(lines) == 1, (words, told.err)
    assert lines[0].startswith("perfmodel: error: "), words
    assert "Traceback" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_no_source_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(FILES[name]())
    file.chmod(0o700)
    assert "nvcc fatal" not in refusal(capsys, "run", str(file), "--gpu", "h200")
    assert name in refusal(capsys, "run", "--exe", str(file), "--gpu", "h200")
    if name != "empty.cubin":  # no text at all is C++ without a kernel, which the compiler is asked about
        told = refusal(capsys, "analyze", str(file), *LAUNCH)
        assert str(tmp_path) not in told.replace(str(file), "")


@pytest.mark.parametrize("words", [("analyze",), ("run",), ("run", "--exe")])
def test_what_is_no_file_is_refused_and_not_waited_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    pipe, folder, loop = (tmp_path / name for name in ("pipe.cu", "folder.cu", "loop.cu"))
    os.mkfifo(pipe)
    folder.mkdir()
    loop.symlink_to(loop)
    rest = LAUNCH if words == ("analyze",) else ("--gpu", "h200")
    assert "no regular file" in refusal(capsys, *words, str(pipe), *rest)
    assert "Is a directory" in refusal(capsys, *words, str(folder), *rest)
    assert "loop.cu" in refusal(capsys, *words, str(loop), *rest)
    assert "absent.cu" in refusal(capsys, *words, str(tmp_path / "absent.cu"), *rest)


def test_markdown_around_the_code_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "fenced.cu"
    file.write_text("\n```cuda\n__global__ void k(int *out, int n) { }\n```\n")
    told = refusal(capsys, "analyze", str(file), *LAUNCH)
    assert told.endswith("fenced.cu:2: Markdown around the code (```cuda); delete the lines that begin with ```")


@pytest.mark.skipif(os.geteuid() == 0, reason="a privileged user reads everything")
def test_a_file_without_permission_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "own.cu"
    file.write_text("__global__ void k(int *out, int n) { }")
    file.chmod(0)
    assert "Permission denied" in refusal(capsys, "analyze", str(file), *LAUNCH)


def mutated(words: list[str], draw: random.Random) -> list[str]:
    """A command line with one word left out, repeated, replaced, cut or spoilt."""
    words, place = list(words), draw.randrange(1, len(words))
    strange = (
        "",
        "-1",
        "0",
        "nan",
        "1e999",
        "x" * 300,
        "f32[",
        "i32=",
        "=@",
        "\u20ac",
        "1,2,3,4",
        "--",
        "null",
        "[]",
        "9" * 30,
    )
    kind = draw.randrange(5)
    if kind == 0:
        del words[place]
    elif kind == 1:
        words.insert(place, words[draw.randrange(1, len(words))])
    elif kind == 2:
        words[place] = draw.choice(strange)
    elif kind == 3:
        words[place] = words[place][: draw.randrange(len(words[place]) + 1)]
    else:
        at = draw.randrange(len(words[place]) + 1)
        words[place] = words[place][:at] + draw.choice("[]=,:.@-+*/x0 \u00b5") + words[place][at:]
    return words


def test_two_hundred_wrong_command_lines_are_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is still right gives its result; nothing else than these two comes out."""
    (tmp_path / "k.cubin").write_bytes(cubin())
    monkeypatch.chdir(tmp_path)
    plain = [
        "analyze",
        "k.cubin",
        "--kernel",
        "k",
        *LAUNCH,
        "--shared",
        "0",
        "--seed",
        "3",
        "--max-seconds",
        "20",
        "--l2",
        "warm",
    ]
    draw, refused = random.Random(21), 0
    for _ in range(200):
        words = mutated(plain, draw)
        status = run(words)
        told = capsys.readouterr()
        if status == 0:
            continue
        assert status == 2, words
        lines = [line for line in told.err.splitlines() if line.strip()]
        assert len(lines) == 1, (words, told.err)
        assert lines[0].startswith("perfmodel: error: "), words
        refused += 1
    assert refused > 100


def test_kernels_of_a_file_are_named_before_the_launch_is_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, two = tmp_path / "one.cu", tmp_path / "two.cu"
    one.write_text("namespace ns { __global__ void scale(float *x) { x[threadIdx.x] *= 2; } }")
    two.write_text(one.read_text() + "__global__ void shift(float *x) { x[threadIdx.x] += 2; }")
    several = "two.cu has several kernels; name one by --kernel (kernel in Python): shift(float*); ns::scale(float*)"
    assert several in refusal(capsys, "analyze", str(two), "--gpu", "h200")
    assert several in refusal(capsys, "analyze", str(two), "--gpu", "h200", "--grid", "4")
    assert "that ns::scale is launched with by --grid" in refusal(capsys, "analyze", str(one), "--gpu", "h200")
    assert "block is missing: ns::scale does" in refusal(capsys, "analyze", str(one), "--gpu", "h200", "--grid", "4")
