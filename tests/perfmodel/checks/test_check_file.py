from pathlib import Path

import pytest

from perfmodel.checks.check_file import read_check_file
from perfmodel.errors import InputError
from perfmodel.launch.launch import L2State

LAUNCH = '[[launch]]\nfile = "k.cu"\nkernel = "k"\ngrid = 4\nblock = [32, 2]\narguments = ["f32[64]=@in.npy", 3]\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text("__global__ void k(float *x, int n) {}\n")
    return tmp_path / "perf.toml"


def test_launches_take_what_stands_above_them(path: Path) -> None:
    path.write_text(
        'gpus = ["h200", "rtx-4090"]\ndefines = { A = 1, B = 2 }\ninclude = ["inc"]\nl2 = "warm"\n'
        + LAUNCH
        + 'defines = { B = 3 }\ninclude = ["more"]\n'
        + LAUNCH
        + 'name = "second"\ngpus = ["t4"]\nl2 = "cold"\nfail_on = "time=1%"\n'
    )
    file = read_check_file(path)
    assert [launch.title for launch in file.launches] == ["k on h200", "k on rtx-4090", "second on t4"]
    first, _, last = file.launches
    assert first.defines == (("A", 1), ("B", 3))
    assert first.include == (path.parent / "inc", path.parent / "more")
    assert (first.grid, first.block) == ((4,), (32, 2))
    assert first.arguments == (f"f32[64]=@{path.parent}/in.npy", 3)  # paths begin at the file
    assert (first.l2, last.l2) == (L2State.WARM, L2State.COLD)
    assert [limit.text for limit in first.limits] == ["time=5%", "spill=0"]
    assert [limit.text for limit in last.limits] == ["time=1%"]
    assert file.baseline == path.parent / "perf.baseline.json"
    assert [limit.text for limit in read_check_file(path, "spill=8").launches[2].limits] == ["spill=8"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", r"launch is missing; give a table \[\[launch\]\] for each"),
        (LAUNCH, r"launch\[0\]: gpus is missing"),
        ('gpus = ["h2000"]\n' + LAUNCH, r"launch\[0\]: unknown GPU 'h2000'; nearest: h200"),
        ('gpus = ["h200"]\n' + LAUNCH + "grid_x = 3\n", "unknown key 'grid_x'; nearest: grid"),
        ('gpus = ["h200"]\n' + LAUNCH + LAUNCH, "2 launches are called 'k'"),
        ('gpus = ["h200"]\n' + LAUNCH.replace("k.cu", "kk.cu"), "file 'kk.cu' does not exist; nearest: k.cu"),
        ('gpus = ["h200"]\nfail_on = "tim=1%"\n' + LAUNCH, r"fail_on 'tim=1%': unknown quantity 'tim'; nearest: time"),
        ('gpus = ["h200"]\nfail_on = "x=1%"\n' + LAUNCH, r"'x'; accepted: time, spill, .*, … \(\d+ in all\)$"),
        ('gpus = ["h200"]\n' + LAUNCH.replace("grid = 4", "grid = 0"), r"grid = 0"),
        ("gpus = [", "perf.toml: is not TOML: Invalid value"),
    ],
)
def test_what_is_wrong_is_named(path: Path, text: str, named: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_check_file(path)
