"""What Kernel Tuner is called with is read as it stands: scripts, restrictions as texts and functions, cache files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.cli.app import run
from perfmodel.core.json_values import plain
from perfmodel.errors import InputError
from perfmodel.families.user.family import call_problem, script_problem
from perfmodel.families.user.tuning_call import TuningCall
from perfmodel.prediction.scenario import scenario_of

pytestmark = pytest.mark.compiler

SOURCE = """
__constant__ float factor[1];
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = i; k < n; k += gridDim.x * blockDim.x)
        x[k] *= factor[0];
}
"""
N = 2**15
SCRIPT = f"""
import sys
import numpy as np
import kernel_tuner
from kernel_tuner import tune_kernel
from kernel_tuner.file_utils import store_output_file
from kernel_tuner.observers.nvml import NVMLObserver

answer = kernel_tuner.run_kernel("scale", "scale.cu", 1, [np.ones(4)], {{}})
x = np.random.rand({N}).astype(np.float32)
results, env = tune_kernel(
    "scale", "scale.cu", ({N},), [x, np.int32(x.size)],
    dict(block_size_x=[32 * k for k in range(1, 9)], per_thread=[1, int(sys.argv[1]) if len(sys.argv) > 1 else 4]),
    ["block_size_x", "per_thread"],
    restrictions=[lambda block_size_x, per_thread: block_size_x * per_thread < 1024, "block_size_x != 32"],
    cmem_args={{"factor": np.float32([2.0])}}, observers=[NVMLObserver(["nvml_power"])], verbose=True,
)
raise RuntimeError("a script ends where it calls tune_kernel")
"""
# of 8 sizes 256 * 4 is too large; each of 1 and 4 loses the size 32
VALID = 16 - 1 - 2


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "scale.cu").write_text(SOURCE)
    drawing = "import library_of_drawings as drawings; drawings.set_theme('white')"  # which is not installed
    (tmp_path / "tune.py").write_text(drawing + SCRIPT)
    return tmp_path / "tune.py"


def call(**changed: Any) -> TuningCall:
    given: dict[str, Any] = {
        "kernel_name": "scale",
        "kernel_source": SOURCE,
        "problem_size": N,
        "arguments": [np.ones(N, np.float32), np.int32(N)],
        "tune_params": {"block_size_x": [64, 128], "rows": [1, 2]},
    }
    return TuningCall(**given | changed)


def launches(problem: Any) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Grid, block and dynamic shared bytes of each allowed configuration by its values."""
    gpu = scenario_of("h200").gpu
    batch = problem.family.space(problem, gpu).batch()
    allowed = ~np.logical_or.reduce([check.rejected for check in problem.family.checks(problem, batch, gpu)])
    launch = problem.family.launch(problem, batch, gpu)
    return {
        tuple(plain(batch.configuration(k)).values()): (
            launch.at(k).grid,
            launch.at(k).block,
            launch.at(k).dynamic_shared_bytes,
        )
        for k in np.flatnonzero(allowed).tolist()
    }


def test_a_script_is_ranked_as_it_stands(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rank", str(script), "--gpu", "rtx-3090", "--top", "100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problem"] == {"file": str(script), "space": "tune_kernel"}
    assert found["candidates"] == 16
    assert found["rejected"] == {"constraint restriction_in_line_15": 1, "constraint block_size_x != 32": 2}
    assert len(found["top"]) == VALID
    assert all(one["counts"]["global_load_sectors"] == N * 4 / 32 for one in found["top"])
    assert all(one["exact"] for one in found["top"])


def test_a_script_finds_its_arguments_and_gives_a_launch_for_each_configuration(script: Path) -> None:
    found = launches(script_problem(script, ["2"]))
    assert len(found) == 14  # 256 * 2 = 512
    assert found[96, 2] == ((171, 1, 1), (96, 1, 1), 0)  # 32768 / 192, rounded up


def test_functions_are_asked_about_what_the_restrictions_allow() -> None:
    found = launches(
        call_problem(
            call(
                problem_size=lambda p: (N // p["rows"], 7),
                restrictions=[(lambda size, rows: size * rows < 256, ["block_size_x", "rows"])],
                grid_div_x=lambda p: {64: 64, 128: 128}[p["block_size_x"] * p["rows"]],
                grid_div_y=["rows", 2],
                block_size_names=["block_size_x", "rows"],
                smem_args={"size": lambda p: 4 * p["block_size_x"]},
            )
        )
    )
    assert found == {
        (64, 1): ((512, 4, 1), (64, 1, 1), 256),  # 32768 / 64; 7 / (1 * 2), rounded up
        (64, 2): ((128, 2, 1), (64, 2, 1), 256),  # 16384 / 128; 7 / (2 * 2)
        (128, 1): ((256, 4, 1), (128, 1, 1), 512),
    }


def test_sizes_that_are_not_tuned_are_kernel_tuners() -> None:
    source = SOURCE.replace("i = ", "i = block_size_y * GRID + grid_size_x + WORD + ")
    problem = call_problem(
        call(
            kernel_source=source,
            problem_size=("rows * 100", 3),
            tune_params={"rows": [1, 8], "BLOCK_SIZE_Z": [2]},
            defines={"GRID": lambda rows: rows + 1, "WORD": "0x10"},
            compiler_options=["-DX=1"],
        )
    )
    assert launches(problem) == {(1, 2): ((100, 3, 1), (256, 1, 2), 0), (8, 2): ((800, 3, 1), (256, 1, 2), 0)}
    gpu = scenario_of("h200").gpu
    second = problem.family.space(problem, gpu).batch().configuration(1)
    request = problem.family.compile_request(problem, second, gpu)
    assert dict(request.defines) == {"block_size_y": 1, "GRID": 9, "WORD": "0x10", "grid_size_x": 800}
    assert "-DX=1" in request.options


def test_arguments_hold_what_the_script_gave(tmp_path: Path) -> None:
    values = [
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        np.full(4, -7),
        np.array([True]),
        np.complex64([1 + 2j]),
        5,
    ]
    problem = call_problem(call(arguments=values, cmem_args={"factor": np.float32([0.5, 0.25])}))
    texts = [spec.text for spec in problem.family._space.arguments]
    assert texts[0].startswith("f32[6]=@")
    assert texts[1:3] == ["i64[4]=-7", "u8[1]=1"]
    assert texts[3].startswith("f32[2]=@")
    assert texts[4] == "5"
    assert np.load(texts[0].partition("@")[2]).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_profile_is_kept_under_the_contents_of_its_arrays() -> None:
    """Two calls have the same identity if and only if their arrays are the same, wherever these are kept."""

    def identity(last: float) -> Any:
        problem = call_problem(call(arguments=[np.array([1.0, last], np.float32), np.int32(2)]))
        configuration = problem.family.configuration_type(block_size_x=64, rows=1)
        return problem.family.profile_identity(problem, configuration)

    assert identity(2.0) == identity(2.0)
    assert identity(2.0) != identity(3.0)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"texmem_args": {"t": 1}}, "texmem_args: texture references were removed in CUDA 12"),
        ({"lang": "OpenCL"}, "lang='OpenCL': kernels in CUDA C++ are executed"),
        ({"kernel_source": "none.cu"}, "kernel_source 'none.cu' is no file"),
        ({"kernel_source": lambda p: ""}, "kernel_source of type function: a file or the text of the kernel is needed"),
        ({"restrictions": [3]}, "restriction 3 of type int: a text or a function is needed"),
        ({"restrictions": ["block_size_x in (1, 2)"]}, "expression 'block_size_x in (1, 2)' has a"),
        ({"restrictions": ["block < 3"]}, "unknown name 'block'"),
        ({"restrictions": lambda p: p["none"]}, "fails for {'block_size_x': 64, 'rows': 1}: KeyError: 'none'"),
        ({"arguments": ["text"]}, "argument0 str 'text': NumPy arrays and scalars of C types are needed"),
        ({"tune_params": {}}, "tune_params must name parameters with their values"),
        (
            {"tune_params": {"a": range(400), "b": range(400)}, "restrictions": lambda p: True},
            "160,000 combinations; functions are called for at most 100,000",
        ),
        ({"tune_params": {"a": [(1, 2)]}}, "tune_params a must be a number or a text, not (1, 2)"),
    ],
)
def test_what_is_not_read_is_named(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        call_problem(call(**changed))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import kernel_tuner\n", "tune.py: it does not call tune_kernel"),
        (
            "import nothing_of_the_kind\nraise ValueError(1 + nothing_of_the_kind.x)\n",
            "tune.py: line 2: ValueError: <absent nothing_of_the_kind.x>",
        ),
        ("import sys\nsys.exit(3)\n", "tune.py: it ends with status 3 before it calls tune_kernel"),
        (
            "from kernel_tuner import tune_kernel\ntune_kernel('k', 'k.cu')\n",
            "tune_kernel is called without problem_size",
        ),
    ],
)
def test_a_script_that_does_not_get_there_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "tune.py").write_text(text)
    with pytest.raises(InputError) as caught:
        script_problem(tmp_path / "tune.py")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_script_has_no_second_space(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rank", str(script), "--gpu", "h200", "--space", "x.toml"]) == 2
    assert "tune.py has its own space" in capsys.readouterr().err


def cache_of(problem: Any, gpu: str, path: Path) -> int:
    """A Kernel Tuner cache file in which every configuration takes twice its predicted time; how many there are."""
    found = pm.rank(problem, gpu=gpu, top=1000)
    entries = {}
    for one in found.top:
        values = plain(one.configuration)
        times = {"time": 2e3 * one.time.predicted_s, "times": [2e3 * one.time.predicted_s], "compile_time": 1.0}
        entries[",".join(map(str, values.values()))] = values | times | {"timestamp": "2026-01-01 00:00:00+00:00"}
    entries["32,1"] = {"block_size_x": 32, "per_thread": 1, "time": "InvalidConfig"}
    names = list(plain(found.best.configuration))
    params = {name: sorted({entry[name] for entry in entries.values()}) for name in names}
    head = {"device_name": gpu, "kernel_name": "scale", "problem_size": [N], "tune_params_keys": names}
    path.write_text(json.dumps(head | {"tune_params": params, "objective": "time", "cache": entries}))
    return len(found.top)


def test_a_cache_file_is_validated_against_and_fitted_to(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.json"
    words = ["4", "-x"]  # the script's own arguments
    script.write_text(f"import sys\nassert sys.argv[1:] == {words}\n{script.read_text()}")
    count = cache_of(script_problem(script, words), "rtx-3090", cache)
    assert count == VALID
    measured = [str(script), "--gpu", "rtx-3090", "--measurements", str(cache)]
    assert run(["validate", *measured, "--json", "--", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == count
    assert found["fidelity"] == "simulated"
    assert found["scale"] == pytest.approx(2.0)
    assert found["mape_scaled"] == pytest.approx(0.0, abs=1e-9)
    assert found["kendall_tau"] == pytest.approx(1.0)
    assert run(["fit", *measured, "--output", str(tmp_path / "own.toml"), "--json", "--", *words]) == 0
    assert json.loads(capsys.readouterr().out)["datasets"]["rtx-3090-1"]["runs"] == count
    assert run(["report", *measured, "--output", str(tmp_path / "page.html"), "--", *words]) == 0
    assert "scale" in (tmp_path / "page.html").read_text()


def test_a_space_file_is_validated_like_a_script(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache.json"
    cache_of(script_problem(script), "rtx-3090", cache)
    (tmp_path / "scale.toml").write_text(f"""
        kernel = "scale"
        grid = "ceil_div({N}, block_size_x * per_thread)"
        block = "block_size_x"
        arguments = ["f32[{N}]", "i32={N}"]
        contents = {{ factor = "f32[1]=2" }}
        tune = {{ block_size_x = [64, 128], per_thread = [1, 4] }}
    """)
    words = [str(tmp_path / "scale.cu"), "--space", str(tmp_path / "scale.toml"), "--gpu", "rtx-3090"]
    assert (
        run(["validate", *words, "--measurements", str(cache), "--filter", "block_size_x in [64, 128]", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert (found["n"], found["scale"]) == (4, pytest.approx(2.0, rel=1e-3))


def test_measurements_of_a_kernel_that_does_not_compile_are_told_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { x[0] = missing; }\n")
    (tmp_path / "k.toml").write_text(
        'kernel = "k"\ngrid = 1\nblock = "B"\narguments = ["f32[1]"]\ntune = { B = [32, 64] }\n'
    )
    entries = {f"{b}": {"B": b, "time": 1.0} for b in (32, 64)}
    head = {"device_name": "x", "problem_size": [1], "tune_params": {"B": [32, 64]}, "cache": entries}
    (tmp_path / "cache.json").write_text(json.dumps(head))
    words = [
        str(tmp_path / "k.cu"),
        "--space",
        str(tmp_path / "k.toml"),
        "--measurements",
        str(tmp_path / "cache.json"),
    ]
    assert run(["validate", *words, "--gpu", "h200"]) == 2
    assert 'k.cu:1: identifier "missing" is undefined' in capsys.readouterr().err
