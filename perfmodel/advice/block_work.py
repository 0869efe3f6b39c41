"""Blocks that do too little: they start one after the other, and each pays once for what a block does once."""

from __future__ import annotations

from collections.abc import Iterator

from ..core.units import time_text
from .changed_profiles import with_more_work_per_block
from .subject import AdviceKind, Candidate, Subject

_TIMES = (2, 4, 8, 16)
"""Parts that a block then does one after the other."""
_LEAST_PART = 0.3
"""Part of the predicted time that starting the blocks takes, below which it is not worth a look."""
_LEAST_WAVES = 1.0
"""Blocks are left for every place on the GPU."""


def work_per_block(subject: Subject) -> Iterator[Candidate]:
    """Candidates with fewer blocks that do more each, where starting blocks takes much of the time."""
    launch, time = subject.profile.launch, subject.prediction.time
    blocks, starting = int(launch.blocks), float(time.terms.block_launch_rate)
    if starting < _LEAST_PART * time.predicted_s:
        return
    places = subject.gpu.sm_count * subject.prediction.occupancy.blocks_per_sm
    for times in _TIMES:
        if blocks < _LEAST_WAVES * times * places:
            return
        yield Candidate(
            kind=AdviceKind.WORK_PER_BLOCK,
            places=(),
            finding=f"the GPU takes {time_text(starting)} to start {blocks:,} blocks one after the other",
            change=f"{blocks // times:,} blocks that do {times} times as much each (several results per thread, or a "
            "grid-stride loop)",
            profile=with_more_work_per_block(subject.profile, times),
        )
