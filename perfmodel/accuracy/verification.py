"""The counts store verified: rows computed anew from the source, any difference reported."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..compiler.resources import Resources
from ..compiler.toolchain import compiler_version
from ..core.counts import INSTRUCTION_CLASSES
from ..core.json_values import plain
from ..core.progress import Advance, no_progress
from ..families.base import Family
from ..families.profiling import Depth, gather_profiles, stored_profiles
from ..gpus.gpu import Gpu
from ..profiles.counts_store import STORED_COUNTS, load_stores
from ..profiles.kernel_profile import KernelProfile
from ..records.measurements import Measurements

NOT_COMPARED = ("shared_load_predicated_off", "shared_store_predicated_off")
"""Rows that were stored before these were known hold 0 there."""

MATCHED_INSTRUCTIONS = 0.01
"""Part of all instructions by which those of a stored row may differ: the shipped rows were counted from PTX that was matched
to the machine code, before machine code was executed. Memory accesses must be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """How many stored rows were computed anew, and one line for each that differs."""

    compared: int
    differences: tuple[str, ...]


def _differences(stored: KernelProfile, fresh: KernelProfile) -> list[str]:
    differences = []
    for field in fields(Resources):
        before, now = getattr(stored.resources, field.name), getattr(fresh.resources, field.name)
        if before != now:
            differences.append(f"{field.name} {before} is now {now}")
    for name in STORED_COUNTS:
        if name in NOT_COMPARED:
            continue
        before, now = float(getattr(stored.counts, name)), float(getattr(fresh.counts, name))
        of_instructions = name in INSTRUCTION_CLASSES or name == "warp_instructions"
        allowed = MATCHED_INSTRUCTIONS * float(fresh.counts.warp_instructions) if of_instructions else 0.0
        if abs(before - now) > allowed:
            differences.append(f"{name} {before:.0f} is now {now:.0f}")
    return differences


def verify_store(
    family: Family[Any, Any], measurements: Measurements, gpu: Gpu, advance: Advance = no_progress
) -> Verification:
    """Compute every configuration among the rows that the store of this compiler has anew; compare resources and counts."""
    usual, *others = load_stores(family.name)
    store = next((store for store in others if store.compiler == compiler_version()), usual)
    compared, lines = 0, list[str]()
    for index, problem in enumerate(measurements.problems):
        batch = measurements.batch.take(measurements.problem_index == index)
        configurations = [batch.configuration(i) for i in range(len(batch))]
        stored = stored_profiles(family, problem, configurations, gpu, store)
        kept = [i for i, profile in enumerate(stored) if profile is not None]
        fresh = (
            gather_profiles(family, problem, batch.take(kept), gpu, depth=Depth.WHOLE, use_store=False, advance=advance)
            if kept
            else []
        )
        for i, outcome in zip(kept, fresh, strict=True):
            before = stored[i]
            assert before is not None
            differences = _differences(before, outcome) if isinstance(outcome, KernelProfile) else [str(outcome)]
            compared += 1
            lines += [f"{plain(configurations[i])}: {text}" for text in differences]
    return Verification(compared=compared, differences=tuple(lines))
