"""Grids that do not occupy the GPU evenly: too few blocks, or a last wave that leaves most SMs idle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..core.batched import mapped
from ..core.constants import ceil_div
from ..core.counts import Counts
from ..machine_code.issue_table import Wait
from ..profiles.kernel_profile import KernelProfile
from .changed_profiles import ATOMIC_COUNTS, with_added, with_smaller_blocks
from .subject import AdviceKind, Candidate, Subject

_TIMES = (1, 2, 4)
"""Blocks for each SM that the warps of a small grid's blocks are dealt out to, at least."""
_ATOMICS = (Wait.GLOBAL_REDUCTION, Wait.GLOBAL_ATOMIC)
_MOST_WAVES = 8
"""Waves from which on the last one is not worth a look."""


def small_grid(subject: Subject) -> Iterator[Candidate]:
    """Candidates with more blocks, where all of the launch's are resident at once and there is room for more.

    The work of each thread is divided among several blocks; where SMs are idle, the warps of a block are, too, if they do not
    wait for one another. Blocks that do are left as they are: what they then do alone may grow with their number.
    """
    launch, occupancy = subject.profile.launch, subject.prediction.occupancy
    if launch.cooperative:
        return
    blocks, sms, threads = int(launch.blocks), subject.gpu.sm_count, int(launch.threads_per_block)
    places = occupancy.blocks_per_sm * sms
    if blocks >= places:
        return
    idle, warps = sms - blocks, int(launch.warps_per_block)
    finding = (
        f"{_blocks(blocks)} {'leaves' if blocks == 1 else 'leave'} {idle} of {sms} SMs idle"
        if idle > 0
        else f"{_blocks(blocks)} give an SM {blocks * warps / sms:.3g} warps, where {occupancy.warps_per_sm} have room"
    )
    passes = _passes(subject)
    divisions = [(1, min(pieces, passes)) for pieces in _growing(int(ceil_div(places, blocks)))]
    if idle > 0 and not float(subject.profile.counts.barriers):
        for times in _TIMES:
            groups, pieces = _division(warps, int(ceil_div(sms * times, blocks)))
            divisions.append((groups, min(pieces, passes)))
    for groups, pieces in dict.fromkeys(divisions):
        if groups * pieces > 1:
            yield Candidate(
                kind=AdviceKind.GRID_SIZE,
                places=(),
                finding=finding,
                change=f"{_blocks(blocks * groups * pieces)} of {threads // groups} threads{_pieces_text(pieces)}",
                profile=_divided(subject.profile, groups, pieces),
            )


def _divided(profile: KernelProfile, groups: int, pieces: int) -> KernelProfile:
    """`with_smaller_blocks`, in which each block does its atomics that stand outside of loops."""
    divided = with_smaller_blocks(profile, groups, pieces)
    if profile.traces is None:
        return divided
    before, after = (
        float(one.memory.requests[np.isin(one.table.wait, _ATOMICS)].sum()) for one in (profile.traces, divided.traces)
    )
    if not before:
        return divided
    more = {name: float(getattr(profile.counts, name)) * (after / before - 1.0) for name in ATOMIC_COUNTS}
    return with_added(divided, **more)


def _growing(most: int) -> list[int]:
    """Powers of two from 2 on, and the largest number of all.

    >>> _growing(7)
    [2, 4, 7]
    """
    return [*(2**power for power in range(1, max(most - 1, 1).bit_length())), most]


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
        else f"{last} of {sms} SMs {'runs' if last == 1 else 'run'} {_blocks(rounds + 1)}, the others {rounds}"
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
