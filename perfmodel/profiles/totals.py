"""Counts of a simulation under the project's names: read off the machine code, or sorted into its classes from PTX."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.counts import INSTRUCTION_CLASSES, Counts
from ..ir.instruction import Instruction, Space
from ..ir.kernel import Kernel
from ..launch.launch import KernelCall, Launch
from ..machine_code.program import MachineCode
from ..memory.access_counts import AccessCounts, InstructionCount
from ..ptx.operands import parse_address
from ..simulator.access import LANE_GROUPS, Action, Observers
from ..simulator.execution import Code, execute_code, executions
from ..simulator.simulation import Simulation

NOT_ISSUED = "not issued"
"""Class of PTX instructions that the hardware does not execute as instructions of their own."""
MEMORY = "memory"
"""Class of memory requests, which are counted by their sites."""

_CONTROL = frozenset({"bra", "brx", "ret", "exit", "trap", "brkpt", "nanosleep", "pmevent", "griddepcontrol"})
_SPECIAL = frozenset({"rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})
_TENSOR = frozenset({"wmma", "mma", "wgmma", "tcgen05", "movmatrix"})
_TEXTURE_READS = (Action.TEXTURE_READ, Action.TEXTURE_HALF_READ)
_MEMORY_NAMES = frozenset(
    {"ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "tex", "tld4", "suld", "sust"}
)
_FENCES = frozenset({"membar", "fence", "prefetch", "prefetchu", "discard", "applypriority"})


def _free(instruction: Instruction) -> bool:
    """Kernel parameters, constants at fixed places and address conversions become operands of other instructions."""
    parts = instruction.parts
    if instruction.name == "cvta":
        return True
    if instruction.name != "ld" or len(instruction.operands) < 2:
        return False
    return "param" in parts or ("const" in parts and not parse_address(instruction, 1).base.startswith("%"))


def class_of(instruction: Instruction) -> str:
    """Class of a PTX instruction: a field of `Counts`, or `MEMORY`, or `NOT_ISSUED`.

    >>> class_of(Instruction("fma.rn.f32", ("%f1", "%f2", "%f3", "%f4"), None, False, 1, None))
    'fp32_fma'
    """
    name, parts = instruction.name, instruction.parts
    if _free(instruction):
        return NOT_ISSUED
    if name in _MEMORY_NAMES:
        return MEMORY
    simple = {
        "shfl": "shuffles",
        "vote": "votes",
        "match": "votes",
        "redux": "votes",
        "activemask": "votes",
        "cvt": "conversion",
    }
    if name in simple:
        return simple[name]
    if name in ("bar", "barrier"):
        return "control" if "warp" in parts else "barriers"
    if name in _CONTROL or name in _FENCES:
        return "control"
    if name in _TENSOR:
        return "tensor"
    return _arithmetic_class(name, parts[-1])


def _arithmetic_class(name: str, kind: str) -> str:
    if name in _SPECIAL:
        return "special_function"
    if kind in ("f16", "f16x2", "bf16", "bf16x2"):
        return "fp16"
    if kind == "f64":
        return "fp64"
    if kind in ("f32", "f32x2"):
        return "fp32_fma" if name in ("fma", "mad") else "fp32_other"
    return "integer"


def _of(counts: tuple[InstructionCount, ...], action: Action, space: Space, name: str) -> int:
    return sum(getattr(count, name) for count in counts if count.action is action and count.space is space)


def texture_passes(counts: Iterable[InstructionCount]) -> float:
    """Passes of groups of lanes through the texture pipe; halves of texels pass two at once."""
    of_actions: Counter[Action] = Counter()
    for count in counts:
        of_actions[count.action] += count.requests if count.action in LANE_GROUPS else 0
    halves = of_actions.pop(Action.TEXTURE_HALF_READ, 0)
    return float(sum(of_actions.values())) + halves / 2


def _classes(kernel: Kernel, visits: NDArray[np.int64]) -> Counter[str]:
    found: Counter[str] = Counter()
    for block, times in zip(kernel.blocks, visits, strict=True):
        for instruction in block.instructions:
            found[class_of(instruction)] += int(times)
    return found


def _classes_of_machine_code(
    code: MachineCode, counts: tuple[InstructionCount, ...], visits: NDArray[np.int64]
) -> tuple[Counter[str], Counter[str]]:
    """Executed instructions by class with memory requests under `MEMORY`, and those whose lanes are all predicated off.

    What accesses memory is a request where it has an active lane; with all lanes predicated off it is ``control``.
    """
    requests: Counter[int] = Counter()
    on_shared: Counter[int] = Counter()
    for count in counts:
        reads_of_copy = count.action is Action.ASYNC_COPY and count.space is Space.GLOBAL
        if count.action not in (Action.SHUFFLE, Action.VOTE, *LANE_GROUPS) and not reads_of_copy:
            requests[count.instruction] += count.requests
        if count.action is Action.REDUCTION and count.space is Space.SHARED:
            on_shared[count.instruction] += count.requests
    classes: Counter[str] = Counter()
    off: Counter[str] = Counter()
    for index, (instruction, times) in enumerate(
        zip(code.instructions, executions(code, visits).tolist(), strict=True)
    ):
        name = instruction.class_name
        if name in INSTRUCTION_CLASSES and name != "atomics":
            classes[name] += times
        elif times:
            # a generic access to two spaces is one instruction and two requests
            active = 0 if instruction.never else min(requests[index], times)
            atomics = min(on_shared[index], active)
            classes["atomics"] += atomics
            classes[MEMORY] += active - atomics
            classes["control"] += times - active
            off[name] += times - active
    return classes, off


def _generic_shared_requests(code: Code, counts: Iterable[InstructionCount], action: Action) -> float:
    """Requests to shared memory of instructions that may access any memory (``LD``, ``ST``); 0 for PTX."""
    if not isinstance(code, MachineCode):
        return 0.0
    found = (one for one in counts if one.action is action and one.space is Space.SHARED)
    return float(sum(one.requests for one in found if code.instructions[one.instruction].name in ("LD", "ST")))


def launch_counts(
    code: Code,
    groups: tuple[InstructionCount, ...],
    visits: NDArray[np.int64],
    by_instruction: tuple[InstructionCount, ...],
) -> Counts:
    """Counts of what was executed.

    Args:
        code: machine code, whose instructions are those of the hardware, or PTX: the compiler fuses and removes some of
            those on the way to the hardware's.
        groups: totals of accesses, by instruction or by action and space.
        visits: of each place of the code.
        by_instruction: totals by instruction; machine code needs them.
    """
    counts = groups
    load, store, reduce, copy = Action.LOAD, Action.STORE, Action.REDUCTION, Action.ASYNC_COPY
    if isinstance(code, MachineCode):
        classes, off = _classes_of_machine_code(code, by_instruction, visits)
        instructions = float(sum(classes.values()))
        predicated_off = {
            f"{name}_predicated_off": float(off[name]) for name in ("shared_load", "shared_store", "async_copy")
        }
    else:
        classes, predicated_off = _classes(code, visits), {}
        instructions = sum(n for name, n in classes.items() if name not in (NOT_ISSUED, MEMORY))
        instructions += sum(c.requests for c in counts if c.action in (load, store, reduce))
        instructions += _of(counts, copy, Space.SHARED, "requests")
    issued = {name: float(classes[name]) for name in INSTRUCTION_CLASSES}
    generic = {action: _generic_shared_requests(code, by_instruction, action) for action in (load, store)}
    shared = [_of(counts, a, Space.SHARED, "wavefronts") for a in (load, store)]
    ideal = [_of(counts, a, Space.SHARED, "conflict_free_wavefronts") for a in (load, store)]
    return Counts(
        global_load_requests=float(_of(counts, load, Space.GLOBAL, "requests")),
        global_load_sectors=float(_of(counts, load, Space.GLOBAL, "sectors")),
        global_load_lines=float(_of(counts, load, Space.GLOBAL, "lines")),
        global_store_requests=float(_of(counts, store, Space.GLOBAL, "requests")),
        global_store_sectors=float(_of(counts, store, Space.GLOBAL, "sectors")),
        global_reduction_requests=float(_of(counts, reduce, Space.GLOBAL, "requests")),
        shared_load_requests=float(_of(counts, load, Space.SHARED, "requests")),
        shared_store_requests=float(_of(counts, store, Space.SHARED, "requests")),
        shared_load_wavefronts=float(shared[0]),
        shared_store_wavefronts=float(shared[1]),
        shared_bank_conflicts=float(sum(shared) - sum(ideal)),
        async_copy_requests=float(_of(counts, copy, Space.SHARED, "requests")),
        async_copy_wavefronts=float(_of(counts, copy, Space.SHARED, "wavefronts")),
        async_copy_read_requests=float(_of(counts, copy, Space.GLOBAL, "requests")),
        async_copy_read_sectors=float(_of(counts, copy, Space.GLOBAL, "sectors")),
        async_copy_read_wavefronts=float(_of(counts, copy, Space.GLOBAL, "wavefronts")),
        bulk_read_sectors=float(_of(counts, Action.BULK_READ, Space.GLOBAL, "sectors")),
        bulk_write_sectors=float(_of(counts, Action.BULK_WRITE, Space.GLOBAL, "sectors")),
        texture_requests=float(_of(counts, load, Space.TEXTURE, "requests")),
        texture_sectors=float(sum(_of(counts, action, Space.GLOBAL, "sectors") for action in _TEXTURE_READS)),
        texture_pipe_passes=texture_passes(counts),
        surface_load_requests=float(_of(counts, load, Space.SURFACE, "requests")),
        surface_load_sectors=float(_of(counts, Action.SURFACE_READ, Space.GLOBAL, "sectors")),
        surface_store_requests=float(_of(counts, store, Space.SURFACE, "requests")),
        surface_store_sectors=float(_of(counts, Action.SURFACE_WRITE, Space.GLOBAL, "sectors")),
        constant_load_requests=float(_of(counts, load, Space.CONSTANT, "requests")),
        local_load_sectors=float(_of(counts, load, Space.LOCAL, "sectors")),
        local_store_sectors=float(_of(counts, store, Space.LOCAL, "sectors")),
        l2_atomic_sectors=float(_of(counts, reduce, Space.GLOBAL, "uncached_sectors")),
        shared_atomic_wavefronts=float(_of(counts, reduce, Space.SHARED, "wavefronts")),
        generic_shared_loads=generic[load],
        generic_shared_stores=generic[store],
        warp_instructions=float(instructions),
        **issued,
        **predicated_off,
    )


@dataclass(frozen=True, kw_only=True)
class CountedRun(Simulation):
    """A simulation with the totals of its accesses."""

    instructions: tuple[InstructionCount, ...]

    @cached_property
    def counts(self) -> Counts:
        """Counts of the executed blocks."""
        return launch_counts(self.kernel, self.instructions, self.visits, self.instructions)


def counted_run(
    kernel: Code, launch: Launch, call: KernelCall, *, observers: Observers = (), **options: Any
) -> CountedRun:
    """`execute_code` with an observer that counts; arguments and errors are those of `simulate`."""
    accesses = AccessCounts()
    simulation = execute_code(kernel, launch, call, observers=[accesses, *observers], **options)
    values = {field.name: getattr(simulation, field.name) for field in fields(simulation)}
    return CountedRun(**values, instructions=accesses.instructions())
