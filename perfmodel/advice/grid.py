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
"""Blocks for each SM that a small grid is cut into, at least."""
_MOST_WAVES = 8
"""Waves from which on the last one is not worth a look."""


def small_grid(subject: Subject) -> Iterator[Candidate]:
    """Candidates with a block or more for each SM, where the launch has fewer blocks than there are SMs."""
    launch = subject.profile.launch
    blocks, sms = int(launch.blocks), subject.gpu.sm_count
    if blocks >= sms:
        return
    passes = _passes(subject)
    for times in _TIMES:
        groups, pieces = _division(int(launch.warps_per_block), int(ceil_div(sms * times, blocks)))
        pieces = min(pieces, passes)
        parts = groups * pieces
        if parts == 1:
            return
        yield Candidate(
            kind=AdviceKind.GRID_SIZE,
            places=(),
            finding=f"{_blocks(blocks)} {'leaves' if blocks == 1 else 'leave'} {sms - blocks} of {sms} SMs idle",
            change=f"{blocks * parts:,} blocks of {int(launch.threads_per_block) // groups} threads{_pieces_text(pieces)}",
            profile=with_smaller_blocks(subject.profile, parts),
        )


def _passes(subject: Subject) -> int:
    """How often a warp executes the instruction that it executes most often: what has no loop cannot be divided."""
    if not subject.executions:
        return 1
    launch = subject.profile.launch
    return max(int(max(subject.executions) / (int(launch.blocks) * int(launch.warps_per_block))), 1)


def _division(warps: int, parts: int) -> tuple[int, int]:
    """Groups of a block's warps, and pieces of the work of each thread, that make so many blocks of one, or a few more.

    >>> _division(8, 5), _division(8, 17)
    ((8, 1), (8, 3))
    """
    groups = next(group for group in range(1, warps + 1) if warps % group == 0 and group >= min(parts, warps))
    return groups, int(ceil_div(parts, groups))


def _pieces_text(pieces: int) -> str:
    return "" if pieces == 1 else f", the work of each thread divided among {pieces} (parts of a loop, of a sum)"


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
