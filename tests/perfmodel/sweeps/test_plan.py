"""What a file for ``perfmodel sweep`` means, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.pointwise_conv2d import PointwiseConv2d
from perfmodel.families.user.family import UserProblem
from perfmodel.launch.launch import L2State
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.sweeps.plan import SweepPlan, read_sweep_file

ROOT = Path(__file__).parents[3]
SIZES = "{ in_channels = [2, 4], out_channels = 8, length = [16, 32] }"
FAMILY = f'[[kernel]]\nfamily = "conv1d"\nproblem = {SIZES}\n'
USER = '[[kernel]]\nfile = "k.cu"\nspace = "k.toml"\n'
SPACE = 'kernel = "k"\ngrid = 1\nblock = "B"\narguments = ["f32[64]"]\n[tune]\nB = [32, 64]\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { if (threadIdx.x < B) x[threadIdx.x] = 1.0f; }")
    (tmp_path / "k.toml").write_text(SPACE)
    return tmp_path / "sweep.toml"


def test_lists_are_every_combination_and_paths_begin_at_the_file(path: Path) -> None:
    path.write_text(
        'gpus = ["h200", "t4", "h200"]\nfidelity = "simulated"\nl2 = "warm"\nbest = 4\n' + FAMILY * 2 + USER
    )
    plan = read_sweep_file(path)
    assert plan.problems[:4] == tuple(
        Conv1d(in_channels=channels, out_channels=8, length=length) for channels in (2, 4) for length in (16, 32)
    )
    assert plan.problems[4:] == (UserProblem(file=str(path.parent / "k.cu"), space=str(path.parent / "k.toml")),)
    assert (plan.gpus, plan.fidelity, plan.l2, plan.best) == (("h200", "t4"), Fidelity.SIMULATED, L2State.WARM, 4)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", r"kernel is missing; give a table \[\[kernel\]\] for each"),
        (FAMILY, "gpus is missing; give a list"),
        ("gpus = [", r"sweep\.toml: is not TOML: Invalid value"),
        ('gpus = ["h20"]\n' + FAMILY, r"sweep\.toml: gpus: unknown GPU 'h20'; nearest: h200"),
        ('gpus = ["h200"]\nfidelty = "analytic"\n' + FAMILY, "unknown key 'fidelty'; nearest: fidelity"),
        ('gpus = ["h200"]\nfidelity = "exact"\n' + FAMILY, "fidelity = 'exact' must be one of analytic, compiled"),
        ('gpus = ["h200"]\nbest = 0\n' + FAMILY, "best = 0 must be an integer >= 1"),
        ('gpus = ["h200"]\n[[kernel]]\nfamily = "conv1"\n', r"kernel\[0\]: unknown family 'conv1'"),
        ('gpus = ["h200"]\n[[kernel]]\nspace = "k.toml"\n', r"kernel\[0\]: needs either family or file"),
        ('gpus = ["h200"]\n[[kernel]]\nfile = "k.cu"\n', "k.cu needs space"),
        ('gpus = ["h200"]\n' + USER.replace("k.cu", "q.cu"), r"kernel\[0\]: file 'q.cu' does not exist; nearest: k.cu"),
        ('gpus = ["h200"]\n' + FAMILY.replace("length", "lenght"), "unknown field 'lenght' of conv1d; nearest: length"),
        ('gpus = ["h200"]\n' + FAMILY.replace("conv1d", "direct_conv2d"), "unknown field 'length' of direct_conv2d"),
        (
            'gpus = ["h200"]\n[[kernel]]\nfamily = "direct_conv2d"\n',
            "needs height, which direct_conv2d has no default for",
        ),
        ('gpus = ["h200"]\n' + FAMILY.replace("[2, 4]", "[2, 0]"), "in_channels=0"),
        ('gpus = ["h200"]\n' + FAMILY.replace("= 8", '= "8"'), "out_channels='8'"),
        ('gpus = ["h200"]\n' + USER + FAMILY.splitlines()[2] + "\n", "problem goes with family"),
    ],
)
def test_what_is_wrong_is_named(path: Path, text: str, named: str) -> None:
    path.write_text(text)
    with pytest.raises(InputError, match=named) as raised:
        read_sweep_file(path)
    assert "\n" not in str(raised.value)


def test_the_manual_shows_the_example() -> None:
    example = (ROOT / "examples" / "sweep.toml").read_text(encoding="utf-8")
    shown = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    assert example.endswith(shown)
    plan = read_sweep_file(ROOT / "examples" / "sweep.toml")
    assert [type(problem) for problem in plan.problems] == [PointwiseConv2d, PointwiseConv2d, UserProblem]


def test_a_plan_without_problems_or_gpus_is_refused() -> None:
    with pytest.raises(InputError, match="at least one problem and one GPU"):
        SweepPlan(problems=(), gpus=("h200",))
    with pytest.raises(InputError, match="problems=3 must be a tuple or list"):
        SweepPlan(problems=3, gpus=("h200",))  # type: ignore[arg-type]


def test_a_kernel_without_closed_forms_is_simulated(path: Path) -> None:
    path.write_text('gpus = ["h200"]\n' + USER)
    plan = read_sweep_file(path)
    assert plan.fidelity_for(plan.problems[0]) is Fidelity.SIMULATED
    analytic = SweepPlan(problems=plan.problems, gpus=("h200",), fidelity="analytic")
    with pytest.raises(InputError, match="k has no closed forms"):
        analytic.fidelity_for(plan.problems[0])
