"""A user's own file over its own space: ranked like a family, and like the family that it is a copy of."""

from importlib import resources
from pathlib import Path

import pytest

import perfmodel
from perfmodel.compiler import disk_cache
from perfmodel.core.json_values import plain
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.profiling import Depth, configuration_profile, remembered_profile
from perfmodel.families.user import family as user
from perfmodel.families.user.family import UserProblem, user_family, user_problem
from perfmodel.prediction.ranking import Ranking, rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles import executed_profile
from perfmodel.profiles.kernel_profile import Fidelity

pytestmark = pytest.mark.compiler

TILED = """
kernel = "tiled_conv2d"
grid = ["ceil_div(IMAGE_WIDTH, BLOCK_SIZE_X * TILE_SIZE_X)", "ceil_div(IMAGE_HEIGHT, BLOCK_SIZE_Y * TILE_SIZE_Y)"]
block = ["BLOCK_SIZE_X", "BLOCK_SIZE_Y"]
constraints = ["BLOCK_SIZE_X * BLOCK_SIZE_Y >= 32"]
arguments = [
    "f32[IMAGE_WIDTH * IMAGE_HEIGHT]",
    "f32[(IMAGE_WIDTH + FILTER_WIDTH - 1) * (IMAGE_HEIGHT + FILTER_HEIGHT - 1)]",
]
sizes = { IMAGE_WIDTH = 200, IMAGE_HEIGHT = 192, FILTER_WIDTH = 3, FILTER_HEIGHT = 3, READ_ONLY = 0, USE_SHMEM = 1 }
macros = { ROW_LENGTH = "BLOCK_SIZE_X * TILE_SIZE_X + FILTER_WIDTH - 1" }
contents = { filter = "f32[FILTER_WIDTH * FILTER_HEIGHT]" }

[tune]
BLOCK_SIZE_X = [16, 32]
BLOCK_SIZE_Y = [1, 4]
TILE_SIZE_X = [1, 2]
TILE_SIZE_Y = [1]
"""

SMALL = """
__global__ void scale(float *x, int n)
{
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK)
        x[i % (n / STRIDE) * STRIDE + i / (n / STRIDE)] *= 2.0f;
}
int main() { scale<<<1, BLOCK>>>(nullptr, 0); }
"""
SMALL_SPACE = """
kernel = "scale"
grid = "GRID"
block = "BLOCK"
arguments = ["f32[4096]", "i32=4096"]
constraints = ["GRID * BLOCK <= 4096"]
tune = { BLOCK = [64, 128], STRIDE = [1, 32], GRID = [16, 64] }
"""


def problem_of(folder: Path, source: str, space: str) -> UserProblem:
    (folder / "own.cu").write_text(source)
    (folder / "own.toml").write_text(space)
    return user_problem(folder / "own.cu", folder / "own.toml")


def ranked(problem: object, gpu: str = "rtx-3090") -> Ranking:
    return rank_problem(problem, scenario_of(gpu), Fidelity.COMPILED, top=100)


def test_a_copy_of_the_tiled_kernel_is_ranked_like_the_family(tmp_path: Path) -> None:
    source = resources.files("perfmodel.kernels").joinpath("tiled_conv2d.cu").read_text(encoding="utf-8")
    own = ranked(problem_of(tmp_path, source, TILED), "h200")
    assert own.candidates == 2 * 2 * 2
    assert own.rejected == {"constraint BLOCK_SIZE_X * BLOCK_SIZE_Y >= 32": 2}  # 16 x 1, two tiles
    configurations = [
        perfmodel.TiledConv2dConfiguration(**{name.lower(): v for name, v in plain(found.configuration).items()})
        for found in own.top
    ]
    problem = perfmodel.TiledConv2d(height=192, width=200, filter_height=3, filter_width=3)
    built_in = perfmodel.predict_many(problem, configurations, gpu="h200", fidelity="simulated")
    for name in ("global_load_requests", "global_load_sectors", "shared_load_wavefronts", "barriers", "fp32_fma"):
        executed = [float(getattr(found.counts, name)) for found in own.top]
        assert [float(getattr(found.counts, name)) for found in built_in] == executed, name
    alike = 0
    for ours, theirs in zip(built_in, own.top, strict=True):
        same = ours.counts.warp_instructions == theirs.counts.warp_instructions  # two have other integer instructions
        alike += same
        assert ours.time.predicted_s == pytest.approx(theirs.time.predicted_s, rel=0.01 if same else 0.1)
    assert alike >= 4


def test_every_candidate_is_executed_and_strides_cost_time(tmp_path: Path) -> None:
    found = ranked(problem_of(tmp_path, SMALL, SMALL_SPACE))
    assert found.fidelity is Fidelity.SIMULATED
    assert found.candidates == 8
    assert found.rejected == {"constraint GRID * BLOCK <= 4096": 2}  # 64 * 128 = 8192, two strides
    assert len(found.top) == 6
    for place in found.top:
        strided = plain(place.configuration)["STRIDE"] == 32
        assert place.counts.global_load_requests == 4096 / 32
        assert place.counts.global_load_sectors == 4096 / 32 * (32 if strided else 4)
    times = {tuple(plain(place.configuration).values()): place.time.predicted_s for place in found.top}
    assert list(plain(found.best.configuration)) == ["BLOCK", "STRIDE", "GRID"]
    for block, stride, grid in times:
        # nearly all of the time is the launch, and later trips find the lines
        assert stride == 1 or times[block, 1, grid] < 1.03 * times[block, stride, grid]


def test_what_was_executed_is_not_executed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    problem = problem_of(tmp_path, SMALL, SMALL_SPACE)
    family = problem.family
    gpu = scenario_of("rtx-3090").gpu
    configuration = family.space(problem, gpu).products[0].batch(0, 1).configuration(0)
    first = configuration_profile(family, problem, configuration, gpu, Depth.CACHES)
    kept = [key for key in disk_cache._store(tmp_path / "cache").iterkeys() if str(key).startswith("profile-")]
    assert len(kept) == 1
    remembered = remembered_profile(family, problem, configuration, gpu, Depth.CACHES)
    assert repr(remembered) == repr(first)  # an unknown number is NaN, which equals nothing
    again = disk_cache.fetch(str(kept[0]))
    assert again is not None
    assert b"global_load_requests" in again


def test_a_space_that_was_edited_is_executed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as many elements under the same file names and macros: half as many requests, whatever is remembered."""
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    before = ranked(problem_of(tmp_path, SMALL, SMALL_SPACE)).best
    edited = SMALL_SPACE.replace('"f32[4096]", "i32=4096"', '"f32[2048]", "i32=2048"')
    after = ranked(problem_of(tmp_path, SMALL, edited)).best
    assert before.counts.global_load_requests == 4096 / 32
    assert after.counts.global_load_requests == 2048 / 32


def test_machine_code_that_configurations_have_in_common_is_executed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    executed, execute = [], executed_profile._execute
    monkeypatch.setattr(executed_profile, "_execute", lambda asked: executed.append(asked) or execute(asked))
    source = "__global__ void k(float *x) { if (STEP > 8) x[threadIdx.x] = 1.0f; else x[threadIdx.x] *= 2.0f; }\n"
    space = """
    kernel = "k"
    grid = 1
    block = 32
    arguments = ["f32[32]"]
    tune = { STEP = [2, 4, 16] }
    """
    problem = problem_of(tmp_path, source, space)
    family, gpu = user_family(problem), scenario_of("rtx-3090").gpu
    batch = family.space(problem, gpu).products[0].batch(0, 3)
    found = [configuration_profile(family, problem, batch.configuration(n), gpu, Depth.CACHES) for n in range(3)]
    assert len(executed) == 2
    assert repr(found[0]) == repr(found[1])
    configuration_profile(family, problem, batch.configuration(0), scenario_of("rtx-a4000").gpu, Depth.CACHES)
    assert len(executed) == 2  # the same code, other caches


def test_texts_are_choices_and_idle_combinations_stand_once(tmp_path: Path) -> None:
    source = "__global__ void k(TYPE *x) { x[threadIdx.x] = PITCH; }\n"
    space = """
    kernel = "k"
    grid = 1
    block = 32
    arguments = ["f64[32]"]
    tune = { TYPE = ["float", "double"], PAD = [0, 1], SHARED = [0, 1] }
    macros = { PITCH = "32 + PAD if SHARED else 32" }
    """
    problem = problem_of(tmp_path, source, space)
    gpu = scenario_of("rtx-3090").gpu
    batch = next(problem.family.space(problem, gpu).chunks())
    redundant = problem.family.redundant(problem, batch, gpu)
    assert len(batch) == 8
    assert redundant.sum() == 4  # for each type: no padding, and padding without shared memory, twice the same
    first = batch.configuration(0)
    assert plain(first) == {"TYPE": "float", "PAD": 0, "SHARED": 0}
    assert Batch.of([first]).configuration(0) == first


def test_of_very_many_combinations_those_that_meet_the_constraints_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user, "MAX_CANDIDATES", 3)
    space = SMALL_SPACE.replace("GRID = [16, 64]", "GRID = [16, 32, 64]")
    problem, gpu = problem_of(tmp_path, SMALL, space), scenario_of("rtx-3090").gpu
    drawn = problem.family.space(problem, gpu)
    assert (len(drawn), drawn.drawn_from) == (3, 10)  # 2 x 2 x 3 but GRID=64 of BLOCK=128
    batch = drawn.batch()
    assert len({batch.configuration(index) for index in range(3)}) == 3
    assert (batch["GRID"] * batch["BLOCK"] <= 4096).all()
    with pytest.raises(InputError, match="10 configurations meet the constraints: too many to execute; executions=N"):
        perfmodel.rank(problem, gpu=gpu)
    found = perfmodel.rank(problem, gpu=gpu, executions=2)
    assert found.candidates == 3
    assert found.notes == ("3 configurations, drawn from the 10 that meet the constraints",)


def test_a_configuration_that_does_not_compile_is_left_out_and_noted(tmp_path: Path) -> None:
    space = SMALL_SPACE.replace("STRIDE = [1, 32]", 'STRIDE = [1, "nothing"]').replace("GRID = [16, 64]", "GRID = [16]")
    found = ranked(problem_of(tmp_path, SMALL, space))
    assert len(found.top) == 2
    assert len(found.notes) == 2
    assert 'identifier "nothing" is undefined' in found.notes[0]


def test_a_tuned_name_without_effect_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tune\.UNUSED has no effect"):
        problem_of(tmp_path, SMALL, SMALL_SPACE.replace("BLOCK = [64, 128]", "BLOCK = [64, 128], UNUSED = [1]"))


def test_nothing_can_be_said_without_compiling(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="own has no closed forms"):
        rank_problem(problem_of(tmp_path, SMALL, SMALL_SPACE), scenario_of("h200"), Fidelity.ANALYTIC)


def test_a_changed_space_is_read_again(tmp_path: Path) -> None:
    first = problem_of(tmp_path, SMALL, SMALL_SPACE).family
    second = problem_of(tmp_path, SMALL, SMALL_SPACE.replace("[16, 64]", "[16, 32, 64]")).family
    assert first is not second
    assert user_family(UserProblem(file=str(tmp_path / "own.cu"), space=str(tmp_path / "own.toml"))) is second


def test_a_configuration_that_does_wrong_is_left_out_and_noted(tmp_path: Path) -> None:
    """Several at once, so that workers execute them and send the fault."""
    source = "__global__ void k(float *x) { x[threadIdx.x + FAR * 100000] = 1.0f; if (FAR == 2) __trap(); }\n"
    space = """
    kernel = "k"
    grid = 1
    block = "BLOCK"
    arguments = ["f32[64]"]
    tune = { FAR = [0, 1], BLOCK = [32, 64] }
    """
    found = ranked(problem_of(tmp_path, source, space))
    assert [plain(one.configuration)["FAR"] for one in found.top] == [0, 0]
    assert len([note for note in found.notes if "out-of-bounds access" in note]) == 2


def test_a_grid_without_blocks_is_rejected(tmp_path: Path) -> None:
    """Warnings are errors here: no time is worked out of no blocks."""
    found = ranked(problem_of(tmp_path, SMALL, SMALL_SPACE.replace("GRID = [16, 64]", "GRID = [-1, 0, 16]")))
    assert found.rejected == {"grid x": found.candidates * 2 // 3}
    assert {plain(one.configuration)["GRID"] for one in found.top} == {16}
