"""Why a version is as fast or slow as it is, in sentences computed from its counts and those of its relatives."""

from __future__ import annotations

from dataclasses import replace

from ...core.constants import SECTOR_BYTES
from ...gpus.gpu import Gpu
from .arithmetic import multiply_adds, redundancy
from .compiled_facts import CodeFacts, code_facts
from .configuration import Version
from .counts import closed_form, local_miss_fraction
from .design import DESIGNS, Copy, Design
from .problem import Ssim
from .traffic import local_accesses

NOTABLE = 0.01
"""Differences below one part in a hundred are not worth a sentence."""


def explain(problem: Ssim, version: Version, gpu: Gpu) -> tuple[str, ...]:
    """Reasons that the version's numbers give, the arithmetic first.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> explain(Ssim(), Version.V2, load_gpu("a100-sxm-80gb"))[0]
    '39.5 % more multiply-adds than naive: tiles of 8 rows repeat the horizontal pass of the 10 rows around them (factor 1.62)'
    """
    design, facts = DESIGNS[version], code_facts(problem, version)
    found = [
        _arithmetic(problem, design),
        _barriers(design),
        _local_memory(problem, design, facts, gpu),
        _loop(design, facts, gpu),
        _guards(problem, version, gpu),
    ]
    return tuple(note for note in found if note is not None)


def _arithmetic(problem: Ssim, design: Design) -> str | None:
    change = multiply_adds(problem, design) / multiply_adds(problem, DESIGNS[Version.NAIVE]) - 1
    if abs(change) < NOTABLE:
        return None
    return (
        f"{abs(change):.1%} {'more' if change > 0 else 'fewer'} multiply-adds than naive: tiles of {design.tile_height} rows "
        f"repeat the horizontal pass of the 10 rows around them (factor {redundancy(design):.2f})"
    ).replace("%", " %", 1)


def _barriers(design: Design) -> str | None:
    number = design.barriers_per_channel
    if number == 0:
        return None
    fewest = min(d.barriers_per_channel for d in DESIGNS.values() if d.rows is design.rows)
    needless = f", {number - fewest} of them needless" if number > fewest else ""
    return f"{number} barriers of {design.warps} warps for each channel{needless}"


def _local_memory(problem: Ssim, design: Design, facts: CodeFacts, gpu: Gpu) -> str | None:
    if not design.stack_bytes:
        return None
    traffic = local_accesses(problem, design)
    moved = (traffic.load_sectors + traffic.store_sectors) * SECTOR_BYTES
    missed = local_miss_fraction(design, facts, gpu)
    return (
        f"local memory: {design.stack_bytes} bytes for each thread, {moved / 1e9:.1f} GB moved, "
        f"{100 * missed:.0f} % of it beyond L1"
    )


def _loop(design: Design, facts: CodeFacts, gpu: Gpu) -> str | None:
    """Where a loop holds rows: its code beside the instruction cache, whose excess is fetched anew in every turn."""
    if not design.stages:
        return None
    code, cache = facts.loop_bytes / 1024, gpu.instruction_cache_l1_bytes / 1024
    relation = "exceed" if code > cache else "fit"
    return f"instruction cache: the loop's {code:.0f} KB of code {relation} its {cache:.0f} KB"


def _guards(problem: Ssim, version: Version, gpu: Gpu) -> str | None:
    """More instructions than the relative that differs in nothing but the copies."""
    design = DESIGNS[version]
    relatives = [v for v, d in DESIGNS.items() if replace(d, copy=design.copy) == design and d.copy is Copy.ZERO_FILL]
    if design.copy is not Copy.GUARDED or not relatives:
        return None
    other = relatives[0]
    own = closed_form(problem, design, code_facts(problem, version), gpu).warp_instructions
    without = closed_form(problem, DESIGNS[other], code_facts(problem, other), gpu).warp_instructions
    return f"guards: testing every pixel costs {100 * (own / without - 1):.1f} % more instructions than {other.value}"
