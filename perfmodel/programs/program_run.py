"""Run a whole CUDA program without a GPU: its host code as it is, its launches executed and predicted by the simulator."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.choices import one_of
from ..core.results import Bar, ResultList
from ..core.units import microseconds, time_text
from ..errors import InputError, SimulationError
from ..gpus.architecture import Architecture
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.prediction import Prediction
from ..prediction.scenario import Scenario, scenario_of
from ..profiles.executed_profile import Effort
from ..sources.includes import CUDA_SUFFIXES, read_text
from ..sources.project_flags import project_flags
from ..sources.project_headers import headers_note, project_folders
from .answers import Failure, Simulator
from .build import BuiltProgram, built_program, linked_program
from .launches import Execute, Launches, LaunchGroup, Shape
from .protocol import answer, receive
from .shared_memory import SharedMemory

_PATIENCE_S = 5.0
"""How long a program that has been sent the signal to end may take before it is killed."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgramLaunch:
    """Launches of one kernel with one shape and arguments of the same sizes.

    ``prediction`` is that of the launch that stands for most of them; ``total_s`` the predicted time of all.
    """

    kernel: str
    shape: Shape
    calls: int
    total_s: float
    share: float
    prediction: Prediction

    def __repr__(self) -> str:
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        return f"<ProgramLaunch {self.kernel}: {calls}, {time_text(self.total_s)}, limited by {self.prediction.time.limiter}>"

    def to_json(self) -> dict[str, Any]:
        """Names and numbers, microseconds where the name says so."""
        return {
            "kernel": self.kernel,
            "grid": list(self.shape.grid),
            "block": list(self.shape.block),
            "shared": self.shape.shared_bytes,
            "calls": self.calls,
            "predicted_us": microseconds(self.total_s / self.calls),
            "total_us": microseconds(self.total_s),
            "share": self.share,
            "limiter": self.prediction.time.limiter,
            "exact": self.prediction.exact,
            "notes": list(self.prediction.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgramRun(ResultList[ProgramLaunch]):
    """What a program did: its exit status, its launches by kernel and shape, what failed, what the runtime lacked.

    ``overruns`` are accesses past the end of an allocation that hardware lets pass.
    """

    program: str
    gpu: str
    executed: Execute
    exit_status: int
    launches: tuple[ProgramLaunch, ...]
    failures: tuple[Failure, ...]
    missing: tuple[str, ...]
    overruns: tuple[str, ...]

    @property
    def items(self) -> Sequence[ProgramLaunch]:
        """The launches, by kernel and shape."""
        return self.launches

    @property
    def headline(self) -> str:
        """Program, GPU, number of launches and their time."""
        calls = sum(launch.calls for launch in self.launches)
        return f"{self.program} on {self.gpu}: {calls:,} launches, {time_text(self.device_s)} in all"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each kernel and shape: calls, total, share, and the row of the launch that stands for most of them."""
        rows = []
        for launch in self.launches:
            row = launch.prediction.to_row()
            row.pop("defines", None)
            row |= {"grid": launch.shape.grid, "block": launch.shape.block, "shared": launch.shape.shared_bytes}
            rows.append({"calls": launch.calls, "total_s": launch.total_s, "share": launch.share} | row)
        return rows

    def shown(self) -> list[dict[str, str]]:
        """Kernel, shape, calls, time and share."""
        return [
            {
                "kernel": launch.kernel,
                "grid": "x".join(map(str, launch.shape.grid)),
                "block": "x".join(map(str, launch.shape.block)),
                "calls": f"{launch.calls:,}",
                "total": time_text(launch.total_s),
                "share": f"{launch.share:.1%}",
                "limiter": launch.prediction.time.limiter,
            }
            for launch in self.launches
        ]

    def bars(self) -> list[Bar]:
        """The time of all launches of each kernel and shape."""
        return [Bar(label=launch.kernel, seconds=launch.total_s) for launch in self.launches]

    @property
    def device_s(self) -> float:
        """Predicted time of all launches, one after the other."""
        return sum(launch.total_s for launch in self.launches)

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "program": self.program,
            "gpu": self.gpu,
            "executed": self.executed.value,
            "exit_status": self.exit_status,
            "device_us": microseconds(self.device_s),
            "launches": [launch.to_json() for launch in self.launches],
            "failures": [failure.text for failure in self.failures],
            "missing": list(self.missing),
            "overruns": list(self.overruns),
        }


def _nothing(*_: Any) -> None:
    """Report to nobody."""


def run_program(
    files: Sequence[str | Path] = (),
    *,
    gpu: str | Gpu,
    exe: str | Path | None = None,
    arguments: Sequence[str] = (),
    defines: Mapping[str, str | int] | None = None,
    include: Sequence[str | Path] = (),
    options: Sequence[str] = (),
    execute: Execute | str = Execute.ALL,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
    effort: Effort | None = None,
    time_limit_s: float | None = None,
    stdout: int | None = None,
    report: Callable[[str], None] = _nothing,
    started: Callable[[str, int], None] = _nothing,
    ended_early: Callable[[ProgramRun], None] = _nothing,
) -> ProgramRun:
    """Build and run a CUDA program on the CPU, and predict its launches.

    Args:
        files: the program's sources, ``.cu`` and C++ files.
        gpu: id, file or record of the GPU that the program sees.
        exe: a program that is built already and linked with the shared CUDA runtime, instead of sources.
        arguments: of the program.
        defines: macros.
        include: folders of the user's headers.
        options: further options of nvcc.
        execute: which launches are executed: all, so that results are right; the first of equal ones; none.
        sm_clock_mhz: SM clock; the boost clock where None.
        l2: what the L2 holds when a kernel starts.
        calibration: file with coefficients of the user's own.
        effort: how much is executed for a prediction, and the budget of each launch.
        time_limit_s: the longest that the program may run.
        stdout: file descriptor for what the program prints; standard output where None.
        report: called at once with each line that the user should see.
        started: called with the kernel's name and the number of each launch before it is executed.
        ended_early: called with the launches that were done where the time limit or Ctrl-C ends the program; the error follows.

    Raises:
        InputError: files and exe are given both or not at all; a value is wrong.
        CompileError: the program cannot be built; the message names what it lacks.
        SimulationError: the time limit is used up.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     program = Path(folder) / "main.cu"
    ...     _ = program.write_text('''
    ...         __global__ void ones(float *x) { x[threadIdx.x] = 1.0f; }
    ...         int main() {
    ...             float *x;
    ...             cudaMalloc(&x, 64 * sizeof(float));
    ...             ones<<<1, 64>>>(x);
    ...             return cudaDeviceSynchronize();
    ...         }''')
    ...     found = run_program([program], gpu="h200")
    >>> found.exit_status, [launch.calls for launch in found]
    (0, [1])
    """
    if bool(files) == (exe is not None):
        raise InputError("give the source files of a program, or a built one by --exe (exe in Python)")
    mode = one_of(Execute, "--execute", execute)
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    if exe is not None:
        program = linked_program(Path(exe))
    else:
        program = _built(
            [Path(file) for file in files],
            scenario.gpu.architecture,
            defines=defines or {},
            include=[Path(folder) for folder in include],
            options=options,
            report=report,
        )
    memory = SharedMemory(scenario.gpu.dram_bytes)
    try:
        launches = Launches(scenario, effort or Effort(), mode, memory)
        simulator = Simulator(scenario.gpu, memory, launches, report, started)
        status = _run(program, arguments, memory, simulator, time_limit_s, stdout)
    except (KeyboardInterrupt, SimulationError):
        ended_early(_result(program, scenario, mode, -signal.SIGTERM, simulator))
        raise
    finally:
        memory.close()
    return _result(program, scenario, mode, status, simulator)


def _built(
    files: Sequence[Path],
    architecture: Architecture,
    *,
    defines: Mapping[str, str | int],
    include: Sequence[Path],
    options: Sequence[str],
    report: Callable[[str], None],
) -> BuiltProgram:
    """The program, built with its project's flags and headers; what they are is reported."""
    project = project_flags(files[0], files[1:])
    folders = [*project.flags.include, *include]
    given = len(folders)
    for file in (file for file in files if file.suffix in CUDA_SUFFIXES and file.is_file()):
        folders += project_folders(read_text(file), file.absolute().parent, folders)
    for text in filter(None, (project.note, headers_note(folders[given:], files[0].absolute().parent))):
        report(text)
    return built_program(
        files,
        architecture,
        defines=tuple({**dict(project.flags.defines), **defines}.items()),
        include=folders,
        options=(*project.flags.options, *options),
    )


def _run(
    program: BuiltProgram,
    arguments: Sequence[str],
    memory: SharedMemory,
    simulator: Simulator,
    time_limit_s: float | None,
    stdout: int | None,
) -> int:
    """Run the program to its end; its exit status, negative where a signal ended it."""
    own, other = socket.socketpair()
    preloaded = " ".join([str(program.library), *filter(None, [os.environ.get("LD_PRELOAD")])])
    environment = {
        **os.environ,
        "PERFMODEL_RUN_SOCKET": str(other.fileno()),
        "PERFMODEL_RUN_MEMORY": str(memory.descriptor),
        "LD_PRELOAD": preloaded,
    }
    deadline = simulator.launches.deadline = None if time_limit_s is None else time.monotonic() + time_limit_s
    with own:
        process = subprocess.Popen(
            [str(program.path), *arguments],
            env=environment,
            pass_fds=(other.fileno(), memory.descriptor),
            stdout=stdout,
            process_group=0,
        )
        other.close()
        try:
            while True:
                own.settimeout(_left_s(deadline))
                received = receive(own)
                if received is None:
                    break
                fields = simulator.answer(*received)
                if fields is not None:
                    answer(own, fields)
            return process.wait(_left_s(deadline))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise SimulationError(
                f"{program.name}: not ended after {time_limit_s:g} s; give smaller arguments, --execute first (or none, where "
                "one launch takes as long), or a longer --time-limit"
            ) from None
        finally:
            _end(process)


def _left_s(deadline: float | None) -> float | None:
    """The time to a deadline; ``TimeoutError`` once it has passed, however fast the program calls."""
    if deadline is None:
        return None
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and what it started, where it still runs."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _result(program: BuiltProgram, scenario: Scenario, mode: Execute, status: int, simulator: Simulator) -> ProgramRun:
    groups = [group for group in simulator.launches.groups if group.calls]
    total = sum(group.total_s for group in groups)
    return ProgramRun(
        program=program.name,
        gpu=scenario.gpu.id,
        executed=mode,
        exit_status=status,
        launches=tuple(_launch(group, total) for group in groups),
        failures=tuple(simulator.failures),
        missing=tuple(simulator.missing),
        overruns=tuple(simulator.launches.overruns),
    )


def _launch(group: LaunchGroup, total_s: float) -> ProgramLaunch:
    usual = max(group.predicted, key=lambda one: one.calls * one.prediction.time.predicted_s)
    return ProgramLaunch(
        kernel=group.kernel.name,
        shape=group.shape,
        calls=group.calls,
        total_s=group.total_s,
        share=group.total_s / total_s if total_s else 0.0,
        prediction=usual.prediction,
    )
