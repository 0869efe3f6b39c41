"""Grids that do not occupy the GPU evenly: too few blocks, or a last wave that leaves most SMs idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
            finding=f"{_blocks(blocks)} {'leaves' if blocks == 1 else 'leave'} {sms - blocks} of {sms} SMs idle",
            change=f"the same work in {blocks * parts:,} blocks",
            profile=with_smaller_blocks(subject.profile, parts),
        )


def tail(subject: Subject) -> Iterator[Candidate]:
    """A candidate whose blocks share the work evenly, each doing so much more, where some SMs have a block more than others.

    Over several waves these are the blocks of a last wave that is filled in part.
    """
    profile, sms = subject.profile, subject.gpu.sm_count
    blocks, resident = int(profile.launch.blocks), subject.prediction.occupancy.blocks_per_sm
    several = blocks > resident * sms
    places = resident * sms if several else sms
    rounds, last = divmod(blocks, places)
    if not rounds or not last or rounds >= _MOST_WAVES:
        return
    even = blocks - last
    scaled: Counts = mapped(lambda count: count * (even / blocks), profile.counts)
    finding = (
        f"the last of {rounds + 1} waves has {_blocks(last)} for {places:,} places"
        if several
        else f"{last} of {sms} SMs run {_blocks(rounds + 1)}, the others {rounds}"
    )
    yield Candidate(
        kind=AdviceKind.TAIL,
        places=(),
        finding=finding,
        change=f"{_blocks(even)}, or a grid-stride loop, that share the work evenly",
        profile=replace(profile, launch=replace(profile.launch, grid_x=even, grid_y=1, grid_z=1), counts=scaled),
        work=blocks / even,
    )


def _blocks(count: int) -> str:
    return f"{count:,} block{'' if count == 1 else 's'}"
