"""Instructions as the hardware executes them: machine code counted with the trip counts of the executed PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...core.counts import INSTRUCTION_CLASSES, Counts
from ...errors import SimulationError
from ...machine_code.code_profile import CodeProfile
from ...machine_code.opcodes import SASS_CLASSES
from ...program.instruction import BasicBlock
from .executed_graphs import (
    ACCESS_CLASSES,
    ACCESS_KEYS,
    FEATURES,
    accesses,
    amounts,
    comparable,
    machine_graph,
    ptx_graph,
)
from .executed_local import local_sectors
from .executed_match import Alignment, Match, align
from .executed_regions import Region, region_tree

_SAME_BYTES = 0.01
"""Relative difference up to which accesses of PTX and machine code are the same, joined to wider ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PtxExecution:
    """What the executed PTX says of a whole launch, summed over its warps.

    ``visits``: how many warps entered each basic block, every time with at least one lane. ``requests``: memory
    requests by class and width in bytes, local memory's among them; a request has an active lane. Local sectors are those of
    arrays that PTX keeps in local memory. ``warps`` and ``threads_per_block`` are the launch's.
    """

    visits: NDArray[np.float64]
    requests: Mapping[tuple[str, int], float]
    local_load_sectors: float
    local_store_sectors: float
    warps: float
    threads_per_block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """Accesses of a class and width of which the machine code executes another number than the PTX: from ``least`` to ``most``.

    Those under a predicate may be no requests, which is why there are two numbers.
    """

    name: str
    width_bytes: int
    ptx: float
    least: float
    most: float

    @property
    def text(self) -> str:
        """Both numbers as one line."""
        number = f"{self.least:.0f}" if self.least == self.most else f"{self.least:.0f} to {self.most:.0f}"
        what = f"{self.name.replace('_', ' ')} of {self.width_bytes} bytes"
        return f"{what}: PTX makes {self.ptx:.0f} requests, the machine code {number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedCode:
    """Executed warp instructions of a launch.

    ``counts`` holds ``warp_instructions``, the classes of ``INSTRUCTION_CLASSES``, ``constant_load_requests`` and
    local sectors; the other memory requests are the simulation's. An instruction that is issued with all lanes
    predicated off is no request and counts as ``control``; for shared memory and asynchronous copies ``counts`` says how
    many they are, the ``@!PT LDS`` before a copy among them. ``block_executions`` has one element for each basic block
    of the machine code. ``exact`` says that loops and branches of PTX and machine code correspond one to one and
    that all accesses agree; ``disagreements`` names those that do not. ``joined`` has, for a class of shared accesses of which
    the assembler made wider ones, the machine code's number over the PTX's.
    """

    counts: Counts
    exact: bool
    disagreements: tuple[Disagreement, ...]
    block_executions: NDArray[np.float64]
    joined: Mapping[str, float] = field(default_factory=dict)


def executed_counts(profile: CodeProfile, blocks: tuple[BasicBlock, ...], execution: PtxExecution) -> ExecutedCode:
    """Executed counts of machine code whose PTX has been executed.

    Args:
        profile: the machine code; an undecoded one (before sm_70) is refused with a SimulationError.
        blocks: basic blocks of the PTX kernel.
        execution: what its execution says of the whole launch.
    """
    if profile.decoded is None or profile.flow is None:
        raise SimulationError(f"machine code of {profile.architecture} is not decoded: needs sm_70 or newer")
    machine, ptx = machine_graph(profile, profile.decoded, profile.flow), ptx_graph(blocks)
    machine_regions, ptx_regions = (region_tree(graph) for graph in comparable(machine, ptx, blocks))
    alignment = align(machine_regions, ptx_regions, amounts, accesses)
    executions = np.zeros(len(profile.flow))
    per_region = _region_executions(alignment, machine_regions, ptx_regions, execution.visits)
    for region, count in zip(machine_regions, per_region, strict=True):
        executions[list(region.blocks)] = count
    certain = alignment.certain & _count_procedures(profile, executions)
    issued: NDArray[np.float64] = executions @ machine.features.astype(np.float64)
    guarded = _guarded_features(profile, executions)
    disagreements = _disagreements(issued, guarded, execution.requests)
    return ExecutedCode(
        counts=_counts(profile, executions, execution),
        exact=certain and not disagreements and not profile.unknown_opcodes,
        disagreements=disagreements,
        block_executions=executions,
        joined=_joined(issued, execution.requests),
    )


def _joined(issued: NDArray[np.float64], requests: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """Shared accesses that the machine code moves the same bytes with in fewer requests, and what part of them is left."""
    found = {}
    for name in ("shared_load", "shared_store"):
        columns = [(column, width) for column, (kind, width) in enumerate(ACCESS_KEYS) if kind == name]
        machine, machine_bytes = (sum(float(issued[c]) * width**by for c, width in columns) for by in (0, 1))
        ptx, ptx_bytes = (sum(requests.get((name, w), 0.0) * w**by for _, w in columns) for by in (0, 1))
        if 0 < machine < ptx and abs(machine_bytes - ptx_bytes) <= _SAME_BYTES * ptx_bytes:
            found[name] = machine / ptx
    return found


def _region_executions(
    alignment: Alignment, machine: tuple[Region, ...], ptx: tuple[Region, ...], visits: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Executions of every machine-code region: its PTX region's visits, as its shape and unrolling change them."""
    executions = np.zeros(len(machine))
    unrolled: dict[int, list[Match]] = {}
    for match in alignment.matches:
        if match.multiple and match.ptx >= 0:
            unrolled.setdefault(match.ptx, []).append(match)
    for p, copies in unrolled.items():
        if len(copies) == 1 and copies[0].multiple == 1:
            executions[copies[0].machine] = _visits(machine[copies[0].machine], machine, ptx[p], ptx, visits)
            continue
        remaining = visits[ptx[p].blocks[0]]
        entries = max(_entries(p, ptx, visits), 1.0)
        for match in copies:
            times = np.floor(remaining / entries / match.multiple) * entries
            executions[match.machine] = times if match is not copies[-1] else remaining / match.multiple
            remaining -= executions[match.machine] * match.multiple
    entered = executions.copy()
    for match in reversed(alignment.matches):
        if not match.multiple:
            executions[match.machine] = entered[match.machine] = (
                _added_executions(match.machine, machine, executions, entered)
                if match.ptx < 0
                else _entries(match.ptx, ptx, visits)
            )
        elif machine[match.machine].is_loop:
            entered[match.machine] = min(executions[match.machine], _entries(match.ptx, ptx, visits))
    return executions


def _added_executions(
    index: int, machine: tuple[Region, ...], executions: NDArray[np.float64], entered: NDArray[np.float64]
) -> float:
    """Executions of a region that PTX has not: a loop's branch back is its loop's, a guard's those inside of it, else none.

    ``entered``: how often a region is come to from outside, which for a loop is less than its executions.
    """
    parent = machine[index].parent
    if parent is not None and machine[parent].latch == index:
        return float(executions[parent])
    return max((float(entered[child]) for child in machine[index].children), default=0.0)


def _entries(loop: int, ptx: tuple[Region, ...], visits: NDArray[np.float64]) -> float:
    """How often a loop is entered from outside: the visits of the region around it."""
    parent = ptx[loop].parent
    return float(visits[ptx[parent].blocks[0]]) if parent is not None else 1.0


def _visits(
    own: Region, machine: tuple[Region, ...], region: Region, ptx: tuple[Region, ...], visits: NDArray[np.float64]
) -> float:
    """Visits of a matched region. A loop that the assembler rotated runs as often as PTX goes back to its header.

    Rotated: the test moved from the loop's begin to its end, and what precedes the first test was peeled off.
    """
    tests_last = own.tests_at_end or (own.latch is not None and not machine[own.latch].subtree.any())
    if region.tests_at_end or region.latch is None or not tests_last:
        return float(visits[region.blocks[0]])
    return float(visits[ptx[region.latch].blocks[0]])


def _count_procedures(profile: CodeProfile, executions: NDArray[np.float64]) -> bool:
    """Give called procedures their callers' executions, all blocks alike; returns whether there are none that matter."""
    flow = profile.flow
    if flow is None or not flow.calls:
        return True
    successors: dict[int, list[int]] = {}
    for a, b in flow.edges:
        successors.setdefault(a, []).append(b)
    own = set(np.flatnonzero(executions).tolist())
    called = False
    for _ in flow.entries:
        for entry in flow.entries[1:]:
            times = sum(executions[caller] for caller, callee in flow.calls if callee == entry)
            stack, seen = [entry], set(own)
            while stack:
                block = stack.pop()
                if block not in seen:
                    seen.add(block)
                    executions[block] = times
                    stack.extend(successors.get(block, ()))
            called |= times > 0
    return not called


def _guarded_features(profile: CodeProfile, executions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Executed accesses that stand under a predicate, so that some of them may be no request."""
    decoded, flow = profile.decoded, profile.flow
    assert decoded is not None
    assert flow is not None
    times = executions[flow.block_of_instruction()]
    totals = np.zeros(len(FEATURES))
    for column, (name, width) in enumerate(ACCESS_KEYS):
        scenario = decoded.guarded & (decoded.class_index == SASS_CLASSES.index(name)) & (decoded.width_bytes == width)
        totals[column] = times[scenario].sum()
    return totals


def _disagreements(
    issued: NDArray[np.float64], guarded: NDArray[np.float64], requests: Mapping[tuple[str, int], float]
) -> tuple[Disagreement, ...]:
    found = []
    for column, (name, width) in enumerate(ACCESS_KEYS):
        ptx = requests.get((name, width), 0.0)
        least, most = float(issued[column] - guarded[column]), float(issued[column])
        if not least - 0.5 <= ptx <= most + 0.5:
            found.append(Disagreement(name=name, width_bytes=width, ptx=ptx, least=least, most=most))
    return tuple(found)


def _predicated_off(issued: float, execution: PtxExecution, name: str) -> float:
    """Accesses of a class that are issued with no lane active."""
    return max(issued - sum(number for (kind, _), number in execution.requests.items() if kind == name), 0.0)


def _counts(profile: CodeProfile, executions: NDArray[np.float64], execution: PtxExecution) -> Counts:
    decoded, flow = profile.decoded, profile.flow
    assert decoded is not None
    assert flow is not None
    times = executions[flow.block_of_instruction()]
    by_class = np.bincount(decoded.class_index, weights=times, minlength=len(SASS_CLASSES))
    totals = dict(zip(SASS_CLASSES, by_class, strict=True))
    off = {name: _predicated_off(totals[name], execution, name) for name in ACCESS_CLASSES}
    totals["control"] += sum(off.values())
    sectors = {
        name: local_sectors(decoded, times, name, execution.requests, ptx, execution.threads_per_block)
        for name, ptx in (
            ("local_load", execution.local_load_sectors),
            ("local_store", execution.local_store_sectors),
        )
    }
    return Counts(
        warp_instructions=times.sum(),
        constant_load_requests=totals["constant_load"],
        shared_load_predicated_off=off["shared_load"],
        shared_store_predicated_off=off["shared_store"],
        async_copy_predicated_off=off["async_copy"],
        local_load_sectors=sectors["local_load"],
        local_store_sectors=sectors["local_store"],
        **{name: totals[name] for name in INSTRUCTION_CLASSES},
    )
