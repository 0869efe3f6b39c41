"""One launch of any CUDA C++ kernel, analysed: compiled for the GPU asked about, executed on the CPU, timed by the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from ..compiler.compiled import CompiledKernel, compile_kernel, compile_with_registers
from ..compiler.kernel_names import split_name
from ..compiler.request import CompileRequest
from ..compiler.user_kernel import compile_with_signature, dynamic_shared_array, user_request
from ..core.counts import Counts
from ..core.files import read_text
from ..core.json_values import number
from ..core.results import Bar, TimedResult
from ..core.value_types import require_type
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..ir.instruction import Space
from ..launch.arguments import Argument, Signature, drawn_types, host_argument, kernel_call
from ..launch.launch import KernelCall, L2State, Launch
from ..machine_code.instruction import MachineInstruction
from ..machine_code.program import MachineCode
from ..profiles.executed_profile import Effort, Execution, executable, execute
from ..profiles.kernel_profile import TRAFFIC_COUNTS, Fidelity, KernelProfile, completed_by, stacked
from ..profiles.profile_cache import content_digest
from ..profiles.user_launch import LaunchConfiguration, index3, launch_of, require_fits
from ..simulator.execution import Code, execute_code
from ..simulator.faults import Fault, FaultError, fault_texts
from ..sources.compile_commands import read_compile_flags
from ..sources.includes import CUDA_SUFFIXES
from ..sources.kernel_source import is_source_text, read_kernel_source
from ..sources.project_flags import ProjectFlags, project_flags
from ..sources.python_file import kernel_of_file
from ..sources.python_kernel import BroughtKernel, Grid, KernelWish, Sizes, brought_by
from ..time_model.sm_time import SmIssues
from .evaluation import Evaluation, evaluate
from .listing import InstructionListing, listing
from .predicting import prediction_at
from .prediction import Prediction
from .scenario import Scenario, scenario_of
from .source_view import SourceView, source_view
from .throughput import Throughput, throughput
from .warp_times import issues_of, time_shares

_SHARED_CLASSES = frozenset({"shared_load", "shared_store", "async_copy"})
"""Classes of instructions that only shared memory gives something to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksLookedAt:
    """Blocks of a launch: all, those that the counts come from, and those that were checked for races and bounds.

    ``unchecked_alike`` says that every other block provably does what one of the checked ones does.
    """

    launched: int
    executed: int
    checked: int
    unchecked_alike: bool

    @property
    def checked_text(self) -> str:
        """What was checked, in one phrase."""
        if self.checked == self.launched:
            return f"races and bounds checked in {'the one block' if self.launched == 1 else f'all {self.launched:,} blocks'}"
        others = ", the others provably do the same" if self.unchecked_alike else ""
        return f"races and bounds checked in {self.checked:,} of {self.launched:,} blocks{others}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentDigests:
    """Hashes of what was analysed: the source with its headers, macros and options; the machine code; launch and arguments."""

    source: str
    code: str
    launch: str


@dataclass(frozen=True, kw_only=True, repr=False)
class Analysis(TimedResult):
    """What one launch does and how long it takes; ``prediction`` has counts, resources, occupancy and time.

    ``instructions`` lists the memory instructions, the largest excess first; ``faults`` what the executed blocks did wrong;
    ``blocks`` says which blocks were looked at; ``standard_errors`` are those of counts that come from a sample of blocks.
    ``execution`` is what the time was predicted from, ``scenario`` the GPU, its clock and what else was assumed.
    """

    prediction: Prediction
    instructions: tuple[InstructionListing, ...]
    faults: tuple[Fault, ...]
    blocks: BlocksLookedAt
    standard_errors: Counts | None
    l1_hit_rate: float
    execution: Execution = field(repr=False)
    scenario: Scenario = field(repr=False)
    _code: Code = field(repr=False)
    _compiled: CompiledKernel = field(repr=False)
    _request: CompileRequest = field(repr=False)
    _python_file: Path | None = field(repr=False)
    _launch: Launch = field(repr=False)
    _call: KernelCall = field(repr=False)
    _effort: Effort = field(repr=False)

    @property
    def configuration(self) -> LaunchConfiguration:
        """Grid, block, shared memory and macros."""
        found: LaunchConfiguration = self.prediction.configuration
        return found

    @property
    def throughput(self) -> Throughput:
        """Rates, their parts of the GPU's peaks, and arithmetic intensity."""
        return throughput(self.prediction, self.scenario.gpu, self.execution.profile.traces)

    @property
    def machine_code(self) -> tuple[MachineInstruction, ...]:
        """The instructions that were executed; none where PTX was."""
        return self._code.instructions if isinstance(self._code, MachineCode) else ()

    @cached_property
    def issues(self) -> SmIssues | None:
        """What the warps of one SM issue and when, by its model; None where that gave no time."""
        return issues_of(self.execution.profile, self.prediction, self.scenario)

    @cached_property
    def source_view(self) -> SourceView:
        """Source, PTX and machine code line by line, with warp instructions and the time of each."""
        executions, seconds = self.execution.executions, None
        if self.issues is not None:
            seconds = (time_shares(self.issues, len(executions)) * self.prediction.time.predicted_s).tolist()
        return source_view(self._texts(), self._compiled, self._code, executions, seconds)

    def _texts(self) -> dict[str, str]:
        """The texts of the kernel's source files by name, its own first; none for a binary or an object of Python."""
        if self._python_file is not None:
            return {self._python_file.name: read_text(self._python_file)}
        if not self._request.source:
            return {}
        headers = {path.name: text for path, text in self._request.included_files().items()}
        return {self._request.file_name: self._request.source} | headers

    @cached_property
    def outputs(self) -> Mapping[str, NDArray[Any]]:
        """The buffers after execution, by the names of their parameters; every block is executed when first asked for.

        Raises:
            SimulationError: the kernel does something wrong, or the budget is used up.
        """
        return execute_code(self._code, self._launch, self._call, budget=self._effort.budget).outputs

    @property
    def headline(self) -> str:
        """Kernel, GPU, time, limiter, and faults where there are any."""
        faults = f"; {len(self.faults)} faults" if self.faults else ""
        return f"{self.prediction.headline}{faults}"

    def to_rows(self) -> list[dict[str, Any]]:
        """The row of its prediction; macros have a column each."""
        row = self.prediction.to_row()
        defines = row.pop("defines")
        return [row | dict(defines) | {"l1_hit_rate": self.l1_hit_rate}]

    def shown(self) -> list[dict[str, str]]:
        """The terms of the time."""
        return self.prediction.shown()

    def bars(self) -> list[Bar]:
        """Those of its prediction."""
        return self.prediction.bars()

    @property
    def digests(self) -> ContentDigests:
        """Hashes by which a later analysis tells what has changed."""
        return ContentDigests(
            source=self._compiled.source_digest,
            code=self._compiled.code_digest,
            launch=content_digest(
                replace(self._launch, static_shared_bytes=0),  # the source's to say
                self._call,
                self._effort.all_blocks,
                self._effort.seed,
            ),
        )

    def with_registers(self, registers: int, caches: bool = True) -> KernelProfile | None:
        """The profile of the same launch of the same PTX, assembled for at most so many registers a thread and executed.

        None where the assembler takes more registers, as it does for a kernel that states its launch bounds. Without ``caches``
        few blocks are executed: the traffic behind L1 is that of this launch, to which spilled registers can only add.

        Raises:
            CompileError: there is no PTX, or the assembler refuses.
            SimulationError: what it makes cannot be executed.
        """
        compiled = compile_with_registers(self._compiled, self._request, registers)
        if int(compiled.resources.registers_per_thread) > registers:
            return None
        gpu, effort, own = self.scenario.gpu, self._effort, self.execution.profile
        profile = execute(compiled, self._launch, self._call, gpu, effort, remember=True, caches=caches).profile
        if caches:
            return profile
        traffic = {name: getattr(own.counts, name) for name in TRAFFIC_COUNTS}
        return replace(
            profile,
            counts=replace(profile.counts, **traffic),
            touched_bytes=own.touched_bytes,
            caches_simulated=own.caches_simulated,
        )

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        found = {name: value for name, value in self.prediction.to_json().items() if name != "problem"}
        found["blocks"] = asdict(self.blocks)
        if self.standard_errors is not None:
            found["standard_errors"] = {name: number(value) for name, value in self.standard_errors.items()}
        if self.faults:
            found["faults"] = list(fault_texts(self.faults))
        if self.instructions:
            found["instructions"] = [row.to_json() for row in self.instructions]
        return found


def analyze(
    source: str | Path | object,
    *,
    kernel: str | None = None,
    grid: Grid | None = None,
    block: Sizes | None = None,
    args: Sequence[Argument],
    gpu: str | Gpu,
    shared_bytes: int | None = None,
    cluster: int | Sequence[int] | None = None,
    defines: Mapping[str, str | int] | None = None,
    include: Sequence[str | Path] = (),
    compile_commands: str | Path | None = None,
    constants: Mapping[str, Argument] | None = None,
    options: Sequence[str] = (),
    lines: bool = False,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
    effort: Effort | None = None,
) -> Analysis:
    """Analyse one launch of a kernel of a user's file or Python object; no GPU is needed.

    Args:
        source: path of a CUDA C++ file, a PTX file, a cubin or another binary; the source itself; a Triton kernel
            (``@triton.jit``), a Numba kernel (``@numba.cuda.jit``), a CuPy ``RawKernel`` or ``RawModule``, a cuda.core
            ``ObjectCode``; or the path of a Python file with a kernel of Triton (Torch Inductor's output too) or Numba.
        kernel: plain name, an instantiated template such as ``conv<5,2>``, or the mangled name; a file with one kernel and an
            object that is one need none.
        grid: blocks along x, y, z; what is left out is 1. For Triton also a function of arguments and constexprs by name.
        block: threads along x, y, z; what is left out is 1. Not for Triton, which chooses it.
        args: one for each parameter in order: a spec (``"f32[1024]"``), an array, a NumPy scalar, a number, None for null, or a
            `TensorMap`.
        gpu: id, file or record of the GPU.
        shared_bytes: dynamic shared memory; needed where the kernel has an ``extern __shared__`` array.
        cluster: blocks of a cluster along x, y, z; None for what the kernel is declared with.
        defines: macros; for a Triton kernel its constexprs, and options such as ``num_warps``.
        include: folders of the user's headers.
        compile_commands: the project's ``compile_commands.json``; flags of the file's entry are put before those given here.
        constants: contents of module-scope arrays by name.
        options: further options of the compiler.
        lines: list the memory instructions with their source lines.
        sm_clock_mhz: SM clock; the boost clock where None.
        l2: what the L2 holds when the kernel starts.
        calibration: file with coefficients of the user's own.
        effort: how much is executed, and the budget.

    Raises:
        InputError: an argument does not fit; the message names it.
        CompileError: the source does not compile.
        InfeasibleError: the launch does not fit the GPU.
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.

    >>> source = "__global__ void scale(float *x, float by) { x[threadIdx.x] *= by; }"
    >>> found = analyze(source, kernel="scale", grid=1, block=64, args=[np.ones(64, np.float32), 3.0], gpu="h200")
    >>> float(found.outputs["x"].sum()), int(found.prediction.counts.global_load_requests)
    (192.0, 2)
    """
    require_type((str, type(None)), "the name of a kernel", kernel=kernel)
    require_type(Sequence, "a list, one for each parameter", args=args)
    effort = effort or Effort()
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    rng = np.random.default_rng(effort.seed)
    project = _project(source, compile_commands)
    include, options = (*project.flags.include, *include), (*project.flags.options, *options)
    defines = {**dict(project.flags.defines), **(defines or {})}
    wish = KernelWish(
        architecture=scenario.gpu.architecture.name,
        kernel=kernel,
        arguments=tuple(host_argument(value, position) for position, value in enumerate(args, 1)),
        values=defines,
        options=tuple(options),
        grid=grid,
        block=block,
        shared_bytes=shared_bytes,
        rng=rng,
    )
    brought = _brought(source, include, wish)
    configuration = LaunchConfiguration(
        grid=index3("grid", brought.grid),
        block=index3("block", brought.block),
        shared=brought.shared_bytes or 0,
        defines=dict(brought.values),
        cluster=None if cluster is None else index3("cluster", cluster),
    )
    request = user_request(brought.source, brought.kernel, brought.values, brought.options)
    compiled, signature = compile_with_signature(request, scenario.gpu.architecture.name)
    code, _ = executable(compiled)
    name = brought.name or split_name(compiled.kernel_name)[0]
    signature = signature.described(brought.parameters)
    call = kernel_call(signature, brought.arguments, constants or {}, rng)
    if brought.shared_bytes is None:
        _require_no_dynamic_shared(name, compiled, code)
    launch = launch_of(configuration, compiled)
    require_fits(launch, compiled, scenario.gpu)
    try:
        found = execute(compiled, launch, call, scenario.gpu, effort, check=True, remember=True)
    except FaultError as error:
        raise FaultError(replace(error.fault, text=f"{error}{_remedy_of(error.fault)}")) from None
    drawn = _drawn(signature, brought.arguments)
    prediction = prediction_of_launch(name, configuration, found.profile, scenario)
    return Analysis(
        prediction=replace(
            prediction,
            notes=(
                *prediction.notes,
                *filter(None, (*_drawn_texts(drawn, found), project.note, brought.source.note, compiled.note)),
            ),
        ),
        instructions=listing(found.instructions) if lines else (),
        faults=found.faults,
        blocks=BlocksLookedAt(
            launched=int(launch.blocks),
            executed=found.blocks_executed,
            checked=found.blocks_checked,
            unchecked_alike=found.unchecked_alike,
        ),
        standard_errors=found.standard_errors,
        l1_hit_rate=found.l1_hit_rate,
        execution=found,
        scenario=scenario,
        _code=code,
        _compiled=compiled,
        _request=request,
        _python_file=Path(source) if _is_python_file(source) else None,
        _launch=found.profile.launch,
        _call=call,
        _effort=effort,
    )


def _project(source: object, compile_commands: str | Path | None) -> ProjectFlags:
    """The flags of the user's project: of the file of commands that is named, or of the one that lies around a CUDA C++ file."""
    if compile_commands is not None:
        return ProjectFlags(flags=read_compile_flags(compile_commands, _file_of(source)))
    if isinstance(source, str | PathLike) and str(source).endswith(CUDA_SUFFIXES) and not is_source_text(str(source)):
        return project_flags(Path(source))
    return ProjectFlags()


def _file_of(source: object) -> Path:
    """The path of a file."""
    if isinstance(source, PathLike) or (isinstance(source, str) and not is_source_text(source)):
        return Path(source)
    raise InputError("compile_commands goes with a file, not with the source itself or an object")


def _is_python_file(source: object) -> TypeGuard[str | PathLike[str]]:
    return isinstance(source, str | PathLike) and str(source).endswith(".py")


def _brought(source: object, include: Sequence[str | Path], wish: KernelWish) -> BroughtKernel:
    """The kernel and its launch, whatever the user has brought."""
    of_file = _is_python_file(source)
    if of_file or not isinstance(source, str | PathLike):
        if include:
            raise InputError("include is not accepted: a Python object has its own folders")
        if not of_file:
            return brought_by(source, wish)
        meant = kernel_of_file(Path(str(source)), wish.kernel, wish.architecture, wish.values)
        values = {name: value for name, value in wish.values.items() if name not in meant.used}
        found = brought_by(meant.kernel_object, replace(wish, kernel=meant.kernel, values=values))
        notes = "; ".join(filter(None, (meant.note, found.source.note)))
        return replace(found, source=replace(found.source, note=notes))
    name = wish.kernel or ""
    kernel_source = read_kernel_source(source if isinstance(source, str) else Path(str(source)), include)
    origin = name
    if not name and (wish.grid is None or wish.block is None):  # which kernel it is comes before how it is launched
        request = user_request(kernel_source, name, wish.values, wish.options)
        origin = split_name(compile_kernel(request, wish.architecture).kernel_name)[0]
    return wish.brought(kernel_source, name, origin)


def _require_no_dynamic_shared(name: str, compiled: CompiledKernel, code: Code) -> None:
    """That a kernel whose dynamic shared memory nobody gave uses none, as far as its code tells.

    A cubin names no ``extern __shared__`` array; there it is a kernel that accesses shared memory and declares none.
    """
    array = dynamic_shared_array(compiled)
    if array is not None:
        what = f"uses the extern __shared__ array {array}"
    elif not compiled.ptx and not compiled.resources.static_shared_bytes and _accesses_shared(code):
        what = "accesses shared memory, and its cubin declares none: it is dynamic"
    else:
        return
    raise InputError(f"kernel {name} {what}; give its bytes by --shared (shared_bytes in Python)")


def _accesses_shared(code: Code) -> bool:
    return isinstance(code, MachineCode) and any(i.class_name in _SHARED_CLASSES for i in code.instructions)


def _remedy_of(fault: Fault) -> str:
    """What to look at after a fault; empty where only the kernel is wrong."""
    if fault.is_beyond(Space.SHARED):
        return "; --shared (shared_bytes in Python) gives dynamic shared memory"
    if fault.is_beyond(Space.LOCAL):
        return "; the index into an array of the thread, or the depth of a recursion is too large"
    if fault.is_beyond(Space.GLOBAL):
        return "; give larger buffers, or what makes the index: sizes, strides, contents of buffers, grid"
    return ""


def _drawn(signature: Signature, arguments: Sequence[Argument]) -> Mapping[str, tuple[int, str]]:
    """Buffers with random contents: the position of each among the arguments, counted from one, and its type."""
    return {
        name: (position, of_type)
        for position, (parameter, argument) in enumerate(zip(signature.parameters, arguments, strict=True), 1)
        for name, of_type in drawn_types(parameter.name, argument).items()
    }


def _drawn_texts(drawn: Mapping[str, tuple[int, str]], found: Execution) -> Iterator[str]:
    """Which of the buffers with random contents decide what is executed."""
    deciding = [name for name in drawn if name in found.steering]
    if deciding:
        first = deciding[0]
        yield (
            f"branches or addresses depend on random values of {_arguments_text(drawn, deciding)}: "
            f"give real ones, as {drawn[first][1]}[]=@{first}.npy"
        )
    dividing = [name for name in drawn if name in found.dividing]
    if dividing:
        yield (
            "divisions and roots of zeros and of numbers near the ends of the range take longer than those of the random "
            f"values of {_arguments_text(drawn, dividing)}"
        )


def _arguments_text(drawn: Mapping[str, tuple[int, str]], names: Sequence[str]) -> str:
    return ", ".join(f"{name} (argument {drawn[name][0]})" for name in names)


def prediction_of_launch(
    name: str, configuration: LaunchConfiguration, profile: KernelProfile, scenario: Scenario
) -> Prediction:
    """The prediction for one executed launch that fits the GPU, of a kernel that belongs to no family."""
    found = evaluate_launches([profile], scenario)
    return prediction_at(
        found,
        0,
        scenario,
        Fidelity.SIMULATED,
        kernel=name,
        calibrated_kernel=None,
        problem=configuration,
        configuration=configuration,
    )


def evaluate_launches(profiles: Sequence[KernelProfile], scenario: Scenario) -> Evaluation:
    """Times of executed launches of kernels that belong to no family: what execution does not know is unknown, not estimated.

    Args:
        profiles: of single launches, at least one.
        scenario: GPU, clock, state of the L2, calibration.
    """
    executed = stacked(profiles)
    unknown = KernelProfile(
        launch=executed.launch, resources=executed.resources, counts=Counts(), global_round_trips=0.0
    )
    return evaluate(completed_by(unknown, executed), scenario)
