"""Whole programs: what they compute and print is what a GPU would give; what they do wrong or lack is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfmodel.cli.app import run
from perfmodel.cli.json_schema import OBJECTS
from perfmodel.core.documents import converted
from perfmodel.errors import SimulationError
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.programs.build import built_program
from perfmodel.programs.launches import Launches, LaunchGroup

pytestmark = pytest.mark.compiler

HERE = Path(__file__).parent
FAILURES = HERE / "failures.cu"


def test_a_program_gets_right_results_from_every_part_of_the_runtime(capfd: pytest.CaptureFixture[str]) -> None:
    status = run(["run", str(HERE / "runtime_calls.cu"), "--gpu", "h200", "--json", "--", "one", "--two"])
    printed = capfd.readouterr()
    assert status == 0, printed.err
    assert printed.err.splitlines() == [
        "launches and symbols ok",
        "host memory ok",
        "pitched copies ok",
        "arrays and textures ok",
        "streams, events and graphs ok",
        "device and attributes ok",
        "2 arguments, the last --two",
    ]
    found = converted(OBJECTS["run"], json.loads(printed.out), "run")
    calls = {(launch.kernel, launch.grid[0], launch.block[0]): launch.calls for launch in found.launches}
    assert calls == {
        ("scale", 4, 256): 1,
        ("increment", 2, 256): 2,  # managed and pinned memory
        ("increment", 20, 256): 1,  # registered memory
        ("increment", 1, 256): 1 + 3 * 2,  # and three launches of a graph of two
        ("doubled", 1, 32): 1,
        ("fill<3>", 1, 1024): 1,
        ("increment", 1, 1): 1,
        ("reverse", 1, 1024): 1,
    }
    assert sum(launch.total_us for launch in found.launches) == pytest.approx(found.device_us)
    assert sum(launch.share for launch in found.launches) == pytest.approx(1)


def test_names_of_files_reach_no_shell(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "$(touch found)"
    folder.mkdir()
    (folder / "own.h").write_text("#define NUMBER 3\n")
    (folder / "a, `touch found`.cu").write_text(
        '#include "own.h"\n#include <cstdio>\nint other();\nint main() { printf("%d\\n", NUMBER + other()); }\n'
    )
    (folder / "b$(touch found).cpp").write_text('#include "own.h"\nint other() { return NUMBER; }\n')
    assert run(["run", *map(str, sorted(folder.glob("*.c*"))), "--gpu", "h200"]) == 0
    assert capfd.readouterr().out.splitlines()[0] == "6"
    assert not any(Path(place, "found").exists() for place in (tmp_path, folder, "."))


def test_a_failing_launch_and_a_missing_function_are_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(FAILURES), "--gpu", "h200"]) == 1
    printed = capfd.readouterr()
    assert printed.out.splitlines()[:6] == [
        "mipmaps: cudaErrorNotSupported",
        "good: cudaSuccess",
        "x[0] is 1",
        "one past the end: cudaSuccess",
        "past the end: cudaErrorIllegalAddress",
        "afterwards: an illegal memory access was encountered",
    ]
    missing, failed, overrun = printed.err.splitlines()
    assert "calls cudaMallocMipmappedArray, which the stand-in runtime does not have" in missing
    assert failed.startswith("perfmodel: kernel past_the_end: ")
    assert "failures.cu:6" in failed
    assert "4 bytes at global address" in failed
    assert overrun.startswith("perfmodel: kernel past_the_end: ")
    assert "accesses 4 bytes, 0 bytes past the end of 'cudaMalloc of 256 bytes'; hardware lets it pass" in overrun


def test_what_kernels_ask_of_the_runtime_on_the_device_is_done(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", str(HERE / "device_runtime.cu"), "--gpu", "h200"]) == 1
    printed = capfd.readouterr()
    texts, _, table = printed.out.partition("device_runtime.cu on h200: ")
    assert texts.splitlines() == [
        "grid.sync: x[0] is 8, x[510] is 4",  # three times x[i] += x[i + 1] of ones: 2**3, and 1 + 2 + 1 near the end
        "40000 blocks at once: cudaErrorCooperativeLaunchTooLarge",
        "own barrier: x[0] is 128",  # 0 + 128
        "before the host waits",
        "block 0 thread 0:   0.00 text c -5 ffffffff",
        "block 0 thread 1:   1.50 text c -5 ffffffff",
        "100%",
        "block 1 thread 0:   0.00 text c -5 ffffffff",
        "block 1 thread 1:   1.50 text c -5 ffffffff",
        "100%",
        "heap: 63",
        "clusters: 1 0 3 2",
        "assertion: device-side assert triggered",
    ]
    assert table.startswith("5 launches")
    assert printed.err.startswith("perfmodel: kernel small: ")
    assert "(device_runtime.cu:58): " in printed.err
    assert printed.err.endswith(
        "failed assertion by thread (7, 0, 0) of block (0, 0, 0): assert(x[threadIdx.x] < 100)\n"
    )


@pytest.mark.parametrize(("execute", "seen"), [("first", "x[0] is 1"), ("none", "x[0] is 0")])
def test_a_built_program_is_run_with_fewer_executions(
    execute: str, seen: str, capfd: pytest.CaptureFixture[str]
) -> None:
    built = built_program([FAILURES], load_gpu("h200").architecture)
    run(["run", "--exe", str(built.path), "--gpu", "h200", "--execute", execute, "--json"])
    printed = capfd.readouterr()
    assert seen in printed.err
    launches = json.loads(printed.out)["launches"]
    assert launches[0]["calls"] == 3
    assert launches[0]["total_us"] == pytest.approx(3 * launches[0]["predicted_us"])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "#include <cublas_v2.h>\nint main() {}",
            "own.cu:1: the program needs libcublas (it includes cublas_v2.h), which is no part",
        ),
        (
            "void helper();\nint main() { helper(); }",
            "own.cu:1: helper() is not defined: name all files of the program",
        ),
        (
            'extern "C" int cublasCreate_v2(void **);\nint main() { return cublasCreate_v2(nullptr); }',
            "own.cu:1: the program needs libcublas (it calls cublasCreate_v2), which is no part",
        ),
        ("int main() { return undeclared; }", 'own.cu:1: identifier "undeclared" is undefined'),
    ],
)
def test_a_program_that_cannot_be_built_says_why(
    source: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.cu"
    file.write_text(source)
    assert run(["run", str(file), "--gpu", "h200"]) == 2
    printed = capfd.readouterr()
    assert printed.err.startswith(f"perfmodel: error: {message}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the source files of a program, or a built one by --exe"),
        (["--exe", "/bin/sh"], "--exe /bin/sh is not linked with the shared CUDA runtime"),
        (["--exe", str(FAILURES)], "is no program"),
        ([str(FAILURES), "--execute", "some"], "--execute 'some'"),
    ],
)
def test_wrong_input_is_one_line(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", *arguments, "--gpu", "h200"]) == 2
    printed = capfd.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_program_that_does_not_end_is_ended(capfd: pytest.CaptureFixture[str]) -> None:
    built = built_program([FAILURES], load_gpu("h200").architecture)
    assert run(["run", "--exe", str(built.path), "--gpu", "h200", "--time-limit", "0"]) == 2
    assert "failures: not ended after 0 s; give smaller arguments" in capfd.readouterr().err


def test_ctrl_c_shows_the_launches_that_were_done(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "waits.cu"
    source.write_text("""
#include <signal.h>
#include <unistd.h>
__global__ void half(float *x) { x[threadIdx.x] *= 0.5f; }
int main() {
    float *x;
    cudaMalloc(&x, 128);
    for (int k = 0; k < 3; ++k) half<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    kill(getppid(), SIGINT);
    for (;;) pause();
}
""")
    assert run(["run", str(source), "--gpu", "h200"]) == 130
    printed = capfd.readouterr()
    assert printed.out.startswith("waits.cu on h200: 3 launches, predicted ")
    assert printed.err.splitlines()[-2:] == [
        "perfmodel: waits.cu was ended; the table has the launches until then",
        "perfmodel: interrupted; what was finished is kept",
    ]


def test_a_launch_that_takes_too_long_is_predicted_all_the_same(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "long.cu"
    source.write_text("""
__global__ void half(float *x) { x[threadIdx.x] *= 0.5f; }
int main() {
    float *x;
    cudaMalloc(&x, 128);
    half<<<1, 32>>>(x);
    return 0;
}
""")

    def too_long(*_: object, **__: object) -> None:
        raise SimulationError("time budget used up")

    monkeypatch.setattr(Launches, "_executed", too_long)
    assert run(["run", str(source), "--gpu", "h200"]) == 1
    printed = capfd.readouterr()
    assert printed.out.startswith("long.cu on h200: 1 launches, predicted ")
    assert printed.err == "perfmodel: kernel half: time budget used up\n"


def test_what_its_own_build_would_set_is_tried(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main, other = tmp_path / "own.cu", tmp_path / "other.cu"
    main.write_text(
        "#include <concepts>\n#include <cstdio>\nextern __device__ int twice(int);\n"
        "template <std::integral T> __global__ void k(T *x) { *x = twice(*x); }\n"
        'int main() { int *x; cudaMallocManaged(&x, 4); *x = 4; k<<<1, 1>>>(x); cudaDeviceSynchronize(); printf("%d\\n", *x); }\n'
    )
    other.write_text("#include <factor.h>\n__device__ int twice(int x) { return FACTOR * x; }\n")
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "factor.h").write_text("")
    (tmp_path / "Makefile").write_text("own: own.cu other.cu\n\tnvcc -std=c++20 -DFACTOR=2 -Iinclude $^ -o $@\n")
    assert run(["run", str(main), "--gpu", "h200", "--compiler-option=-std=c++20"]) == 2
    missing = "own.cu:3: the device function twice(int) is in none of the files: name all files of the program"
    assert capfd.readouterr().err == f"perfmodel: flags of Makefile: -Iinclude\nperfmodel: error: {missing}\n"
    included = tmp_path / "all.cu"
    included.write_text('#include "other.cpp"\nint main() { return once; }\n')
    (tmp_path / "other.cpp").write_text("int once = 0;\n")
    assert run(["run", str(included), str(tmp_path / "other.cpp"), "--gpu", "h200"]) == 0  # a part of the first
    capfd.readouterr()
    (tmp_path / "copy.cpp").write_text("int once = 0;\n")
    assert run(["run", str(included), str(tmp_path / "copy.cpp"), "--gpu", "h200"]) == 2
    assert "once is defined in two of the files: leave one of them out" in capfd.readouterr().err
    assert run(["run", str(main), str(other), "--gpu", "h200", "--compiler-option=-std=c++20"]) == 0
    told = capfd.readouterr()
    assert told.out.startswith("8\n")
    assert told.err == "perfmodel: flags of Makefile: -DFACTOR=2 -Iinclude\n"


def test_kernels_that_launch_kernels_are_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.cu"
    file.write_text(
        "__global__ void child(int *x) { *x = 1; }\n__global__ void parent(int *x) { child<<<1, 1>>>(x); }\nint main() {}\n"
    )
    assert run(["run", str(file), "--gpu", "h200"]) == 2
    told = capfd.readouterr().err
    assert told.startswith("perfmodel: error: own.cu:2: ")
    assert told.endswith(
        ": kernels that launch kernels (dynamic parallelism) are not executed; launch them from the host\n"
    )


def test_repeated_launches_are_executed_where_memory_decides(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    executed = list[str]()
    own = Launches._executed

    def noted(self: Launches, group: LaunchGroup, *others: Any, **named: Any) -> Any:
        executed.append(group.kernel.name)
        return own(self, group, *others, **named)

    monkeypatch.setattr(Launches, "_executed", noted)
    assert run(["run", str(HERE / "repeats.cu"), "--gpu", "h200", "--json"]) == 0
    printed = capfd.readouterr()
    assert printed.err.splitlines() == [
        "scaled 10",  # 2 * 5
        "scaled again 10",
        "of others 14",  # 2 * 7
        "by another factor 21",  # 3 * 7
        "after ten increments 51",  # 3 * (7 + 10)
        *4 * ["told 17"],
        "sampled 17",
        "sampled of others 1",
    ]
    calls = {launch["kernel"]: launch["calls"] for launch in json.loads(printed.out)["launches"]}
    assert calls == {"scaled": 40 + 4, "incremented": 10, "told": 4, "timed": 4, "sampled": 5 + 1}
    # the first writes, the second changes nothing: 2 of 40; and one each for y, x, the factor and x again
    assert {name: executed.count(name) for name in calls} == {
        "scaled": 2 + 4,
        "incremented": 10,  # of its own results
        "told": 4,  # which print
        "timed": 4,  # which ask for the time
        "sampled": 2 + 1,
    }
