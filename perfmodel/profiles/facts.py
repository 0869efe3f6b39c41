"""What is known of one configuration beyond closed forms: the compiler's resources and the executed counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..core.counts import COUNT_NAMES, Counts
from ..launch.launch import Launch
from .work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Resources and executed counts of one launch; ``exact`` and ``notes`` as in ``Prediction``.

    ``counts`` has every count that the execution gives; L2 and DRAM traffic are closed forms unless ``hierarchy`` says
    that caches were simulated. ``global_round_trips`` and ``read_only_share`` stand for the family's closed forms where
    they are not None; ``independent_chains``, of the executed machine code, stands in where there is no closed form.
    ``warp_cycles`` and ``longest_warp_instructions`` as in ``Work``, None where they are not known.
    """

    resources: Resources
    counts: Counts
    loop_code_bytes: float
    exact: bool
    hierarchy: bool = False
    approximate: bool = False
    global_round_trips: float | None = None
    independent_chains: float | None = None
    warp_cycles: float | None = None
    longest_warp_instructions: float | None = None
    read_only_share: float | None = None
    notes: tuple[str, ...] = ()


CACHE_COUNTS = ("l2_read_sectors", "l2_write_sectors", "dram_read_bytes", "dram_write_bytes")


_SHARED = ("shared_load", "shared_store")
COPY_READ_COUNTS = (
    "async_copy_read_requests",
    "async_copy_read_sectors",
    "async_copy_read_wavefronts",
)
"""What asynchronous copies read: not in the counts store, and exact in the closed forms."""


def _merged(work: Work, fact: Facts, index: int) -> Counts:
    """The counts of one candidate: executed ones, with closed forms for what its facts do not know."""

    def closed(name: str) -> float:
        value = np.asarray(getattr(work.counts, name), np.float64)
        return float(value if value.ndim == 0 else value[index])

    counts = replace(fact.counts, **{name: closed(name) for name in COPY_READ_COUNTS})
    if not fact.hierarchy:
        counts = replace(counts, **{name: closed(name) for name in CACHE_COUNTS})
    if fact.approximate:
        wavefronts = {
            f"{kind}_wavefronts": getattr(counts, f"{kind}_requests")
            * (closed(f"{kind}_wavefronts") / max(closed(f"{kind}_requests"), 1.0))
            for kind in _SHARED
        }
        counts = replace(counts, **wavefronts)
    return counts


def refined_work(work: Work, facts: Sequence[Facts]) -> tuple[Work, NDArray[np.int32]]:
    """The closed-form work of n candidates with the executed counts put in, and the registers of each."""
    merged = [_merged(work, fact, i) for i, fact in enumerate(facts)]
    columns = {name: np.array([float(getattr(counts, name)) for counts in merged]) for name in COUNT_NAMES}
    shared = [
        work_shared if fact.approximate else fact.resources.static_shared_bytes
        for fact, work_shared in zip(
            facts, np.broadcast_to(work.launch.static_shared_bytes, len(facts)).tolist(), strict=True
        )
    ]
    refined = replace(
        work,
        launch=replace(work.launch, static_shared_bytes=np.array(shared, np.int64)),
        counts=Counts(**columns),
        loop_code_bytes=np.array([fact.loop_code_bytes for fact in facts]),
        code_bytes=np.array([float(fact.resources.code_bytes) for fact in facts]),
        local_bytes_per_thread=np.array(
            [0.0 if fact.hierarchy else float(fact.resources.stack_bytes_per_thread) for fact in facts]
        ),
        global_round_trips=_found_or_closed(work, facts, "global_round_trips"),
        read_only_share=_found_or_closed(work, facts, "read_only_share"),
        warp_cycles=np.array([or_nan(fact.warp_cycles) for fact in facts]),
        longest_warp_instructions=np.array([or_nan(fact.longest_warp_instructions) for fact in facts]),
    )
    return refined, np.array([fact.resources.registers_per_thread for fact in facts], np.int32)


def or_nan(value: float | None) -> float:
    """A number that arrays can hold: NaN where it is not known."""
    return float("nan") if value is None else value


def _found_or_closed(work: Work, facts: Sequence[Facts], name: str) -> NDArray[np.float64]:
    """A property of the compiled code where it is known, else the closed form's."""
    closed = np.broadcast_to(np.asarray(getattr(work, name), np.float64), len(facts)).tolist()
    known = (getattr(fact, name) for fact in facts)
    return np.array([form if found is None else found for form, found in zip(closed, known, strict=True)])


def estimated_resources(launch: Launch, registers: int, index: int) -> Resources:
    """Resources where nothing was compiled: the family's estimate, no stack, code unknown (0)."""
    one = take_launch(launch, index)
    return Resources(
        registers_per_thread=registers,
        static_shared_bytes=one.static_shared_bytes,
        dynamic_shared_bytes=one.dynamic_shared_bytes,
        stack_bytes_per_thread=0,
        spill_load_bytes=0,
        spill_store_bytes=0,
        code_bytes=0,
    )


def take_launch(launch: Launch, index: int) -> Launch:
    """The launch of one candidate out of arrays."""
    names = Launch.__dataclass_fields__
    values = {name: getattr(launch, name) for name in names}
    return Launch(**{name: int(v) if np.ndim(v) == 0 else int(v[index]) for name, v in values.items()})


Advance = Callable[[], None]
"""Called as each of a long list of steps ends; what a progress bar hangs on."""


def no_progress() -> None:
    """The ``Advance`` of those who do not show progress."""
