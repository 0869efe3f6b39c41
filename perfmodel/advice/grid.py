"""Grids that do not occupy the GPU evenly: too few blocks, or a last wave that leaves most SMs idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..core.batched import mapped
from ..core.constants import ceil_div
from ..core.counts import Counts
from .changed_profiles import with_smaller_blocks
from .subject import AdviceKind, Candidate, Subject

_TIMES = (1, 2, 4)
"""Blocks for each SM that a small grid is cut into."""
_MOST_WAVES = 8
"""Waves from which on the last one is not worth a look."""


def small_grid(subject: Subject) -> Iterator[Candidate]:
    """Candidates with a block or more for each SM, where the launch has fewer blocks than there are SMs."""
    blocks, sms = int(subject.profile.launch.blocks), subject.gpu.sm_count
    if blocks >= sms:
        return
    for times in _TIMES:
        parts = int(ceil_div(sms * times, blocks))
        yield Candidate(
            kind=AdviceKind.GRID_SIZE,
            places=(),
            finding=f"{blocks:,} block{'s leave' if blocks > 1 else ' leaves'} {sms - blocks} of {sms} SMs idle",
            change=f"the same work in {blocks * parts:,} blocks",
            profile=with_smaller_blocks(subject.profile, parts),
        )


def tail(subject: Subject) -> Iterator[Candidate]:
    """A candidate whose blocks fill whole waves, each doing so much more, where the last wave is filled in part."""
    profile, sms = subject.profile, subject.gpu.sm_count
    blocks, resident = int(profile.launch.blocks), subject.prediction.occupancy.blocks_per_sm
    wave = resident * sms if blocks > resident * sms else sms
    waves = blocks / wave
    if not 1.0 < waves < _MOST_WAVES or blocks % wave == 0:
        return
    whole = blocks // wave * wave
    last = blocks - whole
    scaled: Counts = mapped(lambda count: count * (whole / blocks), profile.counts)
    yield Candidate(
        kind=AdviceKind.TAIL,
        places=(),
        finding=f"the last of {int(np.ceil(waves))} waves has {last:,} blocks for {wave:,} places",
        change=f"{whole:,} blocks, or a grid-stride loop, that share the work evenly",
        profile=replace(profile, launch=replace(profile.launch, grid_x=whole, grid_y=1, grid_z=1), counts=scaled),
        work=blocks / whole,
    )
