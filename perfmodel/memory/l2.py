"""L2, simulated for a sample of its lines: reads and writes of DRAM, and what it still holds of written data at the end.

Each partition keeps what the SMs next to it ask for. A line has its home in one of the partitions, which reads it from DRAM,
takes what is written and writes it back; the others keep copies for their own SMs. Of each partition the line that was not used
for longest makes room, what was read to be evicted first a bit earlier (`Shares.read_once_age`), and what is written, too, where
DRAM is idle (`written_age`). Written lines are at most a share of L2: beyond it the oldest one is written back and stays, clean.
Sectors that are written in part need what DRAM holds before they are written back, and of these L2 keeps fewer.

A launch begins with an L2 that holds no data of it. What the profiler's flush leaves there to be written back
(`Architecture.l2_dirty_bytes_at_start`) is pushed out by the launch, and counted with it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.constants import LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE, ceil_div
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from .fitted_shares import shares
from .grid_streams import GridStreams, LaunchStream
from .request_coalescing import sms_of_gpcs
from .trace import LOCAL_LINES, SECTORS_OF_MASK, WORDS_OF_SECTOR, Integers, Kind, sectors_of

_SIMULATED_ACCESSES = 16_000
"""Accesses to one sample of lines, about: those of one line by several blocks at a time are one."""
_DRAWN_ACCESSES = 50_000
_MOST_DRAWN = 250_000
"""Accesses of blocks to one sample of lines that are looked at, about: to learn how many are one, and at most."""
_LEAST_SAMPLES = 3
_MOST_SAMPLES = 8
_TOLERANCE = 0.002
"""Standard error of the sectors read and written up to which more samples are simulated, and as a part of what L2 holds."""
_ALL_SECTORS = (1 << SECTORS_PER_LINE) - 1
_SECTORS = SECTORS_OF_MASK.tolist()
_PAIRS = [
    sum(0b11 << pair for pair in range(0, SECTORS_PER_LINE, 2) if mask >> pair & 0b11)
    for mask in range(1 << SECTORS_PER_LINE)
]
"""Of a mask of sectors the pairs that DRAM gives with them (`Gpu.l2_fill_sectors`)."""
_BEFORE = -(1 << 40)
"""Lines below are what L2 held before the launch."""


def shared_l2_bytes(gpu: Gpu) -> float:
    """Bytes of L2 for data that SMs of all its partitions use: each partition holds its own copy.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> gpu = load_gpu("h200")
    >>> shared_l2_bytes(gpu) == gpu.l2_bytes / 2
    True
    """
    return gpu.l2_bytes / gpu.architecture.l2_partitions


def partition_of_sms(gpu: Gpu) -> Integers:
    """Next to which partition each SM is: GPCs are dealt out to them, SMs where it is not known which GPC they belong to.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> partition_of_sms(load_gpu("h200"))[[0, 15, 16, 131]].tolist()
    [0, 0, 1, 1]
    """
    sms = np.arange(gpu.sm_count)
    gpc = sms if gpu.gpc_count == 1 else np.repeat(np.arange(gpu.gpc_count), sms_of_gpcs(gpu))[sms]
    return gpc % gpu.architecture.l2_partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class DramTraffic:
    """Sectors that a launch reads from DRAM, that it writes there until it ends, and that it touches at all."""

    read_sectors: float
    written_sectors: float
    touched_sectors: float = math.nan


class _Partition:
    """Lines of one partition, the one that was not used for longest first: clean ones, those read once, and written ones.

    A clean line has the time of its last use and its valid sectors as bits, a written one the words written as well. Partly
    written lines are also in a queue of their own.
    """

    def __init__(self, lines: float, written_age: float) -> None:
        fitted = shares()
        self.capacity = lines
        self.dirty_lines, self.partial_lines = fitted.dirty_share * lines, fitted.partly_written_share * lines
        self.once_age, self.written_age = fitted.read_once_age, written_age
        self.clean: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self.once: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self.dirty: OrderedDict[int, tuple[int, int, int]] = OrderedDict()
        self.partial: OrderedDict[int, None] = OrderedDict()
        self.read = self.written = 0

    def lacks(self, line: int, sectors: int, now: int, once: bool) -> int:
        """Of the sectors of a line those that were not there; now they are."""
        written = self.dirty.get(line)
        if written is not None:
            self.dirty[line] = (now, written[1] | sectors, written[2])
            self.dirty.move_to_end(line)
            return sectors & ~written[1]
        held = self.clean.pop(line, None) or self.once.pop(line, None)
        (self.once if once else self.clean)[line] = (now, sectors | held[1] if held else sectors)
        if held:
            return sectors & ~held[1]
        self.make_room(now)
        return sectors

    def write(self, line: int, words: int, now: int) -> None:
        """Write words of a line that has its home here."""
        held = self.clean.pop(line, None) or self.once.pop(line, None)
        if held:
            valid, before = held[1], 0
        else:
            _, valid, before = self.dirty.get(line, (0, 0, 0))
        words |= before
        partial = False
        for sector in range(SECTORS_PER_LINE):
            of_sector = words >> 8 * sector & WORDS_OF_SECTOR
            if of_sector == WORDS_OF_SECTOR:
                valid |= 1 << sector
            elif of_sector and not valid >> sector & 1:
                partial = True
        self.dirty[line] = (now, valid, words)
        self.dirty.move_to_end(line)
        if partial:
            self.partial[line] = None
            if len(self.partial) > self.partial_lines:
                self.clean_up(next(iter(self.partial)))
        else:
            self.partial.pop(line, None)
        if len(self.dirty) > self.dirty_lines:
            self.clean_up(next(iter(self.dirty)))
        self.make_room(now)

    def write_back(self, line: int) -> tuple[int, int]:
        """Write a line back that is no longer kept as written; its last use and valid sectors."""
        used, valid, words = self.dirty.pop(line)
        self.partial.pop(line, None)
        changed = 0
        for sector in range(SECTORS_PER_LINE):
            changed |= (words >> 8 * sector & WORDS_OF_SECTOR != 0) << sector
        self.read += _SECTORS[changed & ~valid]
        self.written += _SECTORS[changed]
        return used, valid | changed

    def clean_up(self, line: int) -> None:
        """Write a line back and keep it as a clean one that has just been used."""
        used, valid = self.write_back(line)
        self.clean[line] = (used, valid)

    def make_room(self, now: int) -> None:
        """Give lines up until the others fit."""
        while len(self.clean) + len(self.once) + len(self.dirty) > self.capacity:
            clean = now - next(iter(self.clean.values()), (now,))[0]
            once = now - next(iter(self.once.values()), (now,))[0]
            dirty = self.written_age * (now - next(iter(self.dirty.values()), (now,))[0])
            if self.clean and clean >= dirty and self.once_age * clean >= once:
                self.clean.popitem(last=False)
            elif self.once and once >= self.once_age * dirty:
                self.once.popitem(last=False)
            else:
                self.write_back(next(iter(self.dirty)))


def written_age(traffic: DramTraffic, beside_dram_s: float, gpu: Gpu) -> float:
    """How old a written line is taken for when lines make room, as a multiple of its age: more where DRAM is idle.

    Args:
        traffic: of the launch.
        beside_dram_s: seconds that the launch would take if DRAM gave and took everything at once.
        gpu: the DRAM.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> moved = DramTraffic(read_sectors=1e6, written_sectors=1e6)  # 64 MB take 15 us
    >>> [round(written_age(moved, seconds, load_gpu("h200")), 2) for seconds in (15e-6, 150e-6, 15e-3)]
    [1.0, 1.07, 1.1]
    """
    in_dram_s = SECTOR_BYTES * (traffic.read_sectors + traffic.written_sectors) / gpu.dram_read_bytes_per_s
    busy = in_dram_s / (in_dram_s + beside_dram_s) if in_dram_s else 0.0
    idle = max(1.0 - busy / shares().dram_busy_share, 0.0)
    return 1.0 + (shares().written_age_idle - 1.0) * idle


def sampled_dram_traffic(
    grid: GridStreams, begins: Any, partition_of_block: Integers, gpu: Gpu, *, beside_dram_s: float
) -> DramTraffic:
    """What passes L2 in a launch: of one sample of its lines after the other, until their results agree.

    Args:
        grid: what all blocks ask of L2.
        begins: time at which each block of the grid begins, in steps, shape ``(blocks,)``.
        partition_of_block: next to which partition its SM is, likewise.
        gpu: the L2.
        beside_dram_s: seconds that the launch would take if DRAM gave and took everything at once.
    """
    samples = max(ceil_div(grid.entries, _DRAWN_ACCESSES), 1)
    stream = grid.drawn(samples, 0)
    touched = _touched_sectors(stream)
    first = _together(stream, begins, partition_of_block)
    # those of one line by several blocks at a time are one access
    together = ceil_div(len(first.line) * samples, _SIMULATED_ACCESSES)
    samples = max(together, ceil_div(grid.entries, _MOST_DRAWN), 1)
    age = 1.0
    if together * _SIMULATED_ACCESSES * LINE_BYTES > shared_l2_bytes(gpu):  # else all lines have room
        age = written_age(dram_traffic(grid.drawn(samples, 0), begins, partition_of_block, gpu), beside_dram_s, gpu)
    found: list[tuple[float, float]] = []
    while len(found) < samples and not _agree(found, samples, gpu):
        one = dram_traffic(grid.drawn(samples, len(found)), begins, partition_of_block, gpu, age)
        found.append((one.read_sectors, one.written_sectors))
    read, written = np.mean(found, axis=0).tolist()
    return DramTraffic(read_sectors=read, written_sectors=written, touched_sectors=touched)


def _touched_sectors(stream: LaunchStream) -> float:
    """Sectors of a launch that any block reads or writes, stacks apart, from the accesses to a share of all lines."""
    own = stream.line < LOCAL_LINES
    order = np.argsort(stream.line[own], kind="stable")
    line, words = stream.line[own][order], stream.words[own][order]
    first = np.flatnonzero(np.diff(line, prepend=line[:1] - 1))
    whole = np.bitwise_or.reduceat(words, first) if len(first) else words
    return float(SECTORS_OF_MASK[sectors_of(whole)].sum()) / stream.share


def _agree(found: list[tuple[float, float]], samples: int, gpu: Gpu) -> bool:
    """Whether the means of what some samples gave are known well enough, or cost enough."""
    if len(found) < _LEAST_SAMPLES:
        return False
    error = np.std(found, axis=0, ddof=1) * np.sqrt((1.0 - len(found) / samples) / len(found))
    least = _TOLERANCE * gpu.l2_bytes / SECTOR_BYTES
    return len(found) >= _MOST_SAMPLES or bool((error <= np.maximum(_TOLERANCE * np.mean(found, axis=0), least)).all())


def dram_traffic(
    stream: LaunchStream, begins: Any, partition_of_block: Integers, gpu: Gpu, age_of_written: float = 1.0
) -> DramTraffic:
    """What passes L2 in a launch, from the accesses to a share of all lines; arguments as for `sampled_dram_traffic`.

    ``age_of_written`` is what `written_age` says.
    """
    accesses, share = _together(stream, begins, partition_of_block), stream.share
    partitions = gpu.architecture.l2_partitions
    lines = gpu.l2_bytes / LINE_BYTES / partitions * share
    parts = [_Partition(lines, age_of_written) for _ in range(partitions)]
    left = round(gpu.architecture.l2_dirty_bytes_at_start / LINE_BYTES / partitions * share)
    for part in parts:
        for number in range(left):
            part.dirty[_BEFORE - number] = (_BEFORE, _ALL_SECTORS, (1 << 32) - 1)
    home, pairs = _mixed(accesses.line) % partitions, gpu.l2_fill_sectors > 1
    columns = (accesses.line, accesses.words, sectors_of(accesses.words), accesses.kind, home, accesses.beside)
    for now, (one, bits, sectors, what, at, near) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        part, once = parts[at], what == Kind.READ_ONCE
        if what != Kind.WRITE:
            beside_it = at != near and what != Kind.REDUCE
            lacking = parts[near].lacks(one, sectors, now, once) if beside_it else sectors
            if lacking:
                missing = part.lacks(one, lacking, now, once)
                if pairs and missing:
                    missing |= part.lacks(one, _PAIRS[missing] & ~missing, now, once)
                part.read += _SECTORS[missing]
        if what in (Kind.WRITE, Kind.REDUCE):
            part.write(one, bits, now)
            if at != near:
                parts[near].lacks(one, sectors, now, once)
    return DramTraffic(
        read_sectors=sum(part.read for part in parts) / share,
        written_sectors=sum(part.written for part in parts) / share,
    )


def _mixed(lines: Integers) -> Integers:
    """Random numbers, one for each line (the finalizer of SplitMix64)."""
    mixed = lines.astype(np.uint64)
    for odd, bits in ((0xBF58_476D_1CE4_E5B9, 30), (0x94D0_49BB_1331_11EB, 27)):
        mixed = (mixed ^ mixed >> np.uint64(bits)) * np.uint64(odd)
    return ((mixed ^ mixed >> np.uint64(31)) >> np.uint64(2)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Accesses:
    """Accesses in order of time, shape ``(n,)``; ``beside`` is the partition next to the SM."""

    line: Integers
    words: Integers
    kind: Integers
    beside: Integers


def _together(stream: LaunchStream, begins: Any, partition_of_block: Integers) -> _Accesses:
    """Accesses in order of time; what the SMs beside a partition do with a line in the same step is one access."""
    time = np.floor(stream.time + begins[stream.block]).astype(np.int64)
    beside = partition_of_block[stream.block]
    # stacks are written before they are read
    turn = np.where((stream.line >= LOCAL_LINES) & (stream.kind == Kind.WRITE), -1, stream.kind)
    order = np.lexsort((beside, stream.line, turn, time))
    time, kind, beside, line = (column[order] for column in (time, stream.kind, beside, stream.line))
    new = np.ones(len(line), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in (time, kind, line, beside)])
    first = np.flatnonzero(new)
    if len(first):
        words = np.bitwise_or.reduceat(stream.words[order], first)
        block = np.minimum.reduceat(stream.block[order], first)
    else:
        words = block = first
    time, kind, beside, line = (column[first] for column in (time, kind, beside, line))
    order = np.lexsort((block, time))
    return _Accesses(line[order], words[order], kind[order], beside[order])


def kept_bytes(read: Any, written: Any, gpu: Gpu) -> Any:
    """Written bytes that L2 still holds when a launch ends that reads and writes everything once.

    They are their part of what passed it, of which partitions hold copies, but no more than L2 keeps of written data.

    Args:
        read: bytes read from DRAM, of one launch or shape ``(n,)``.
        written: bytes written.
        gpu: the L2.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> gpu = load_gpu("rtx-2080-ti")
    >>> float(kept_bytes(64e6, 64e6, gpu)) == shares().dirty_share * gpu.l2_bytes, float(kept_bytes(1e6, 2e6, gpu))
    (True, 2000000.0)
    """
    part = np.divide(written, np.maximum(_occupied(read, written, gpu), 1.0))
    return np.minimum(gpu.l2_bytes * np.minimum(part, shares().dirty_share), written)


def written_by_the_end(counts: Counts, gpu: Gpu) -> Counts:
    """The counts with the bytes that have reached DRAM when the launch ends, as a counter of that launch sees them."""
    read, written = counts.dram_read_bytes, np.asarray(counts.dram_write_bytes, np.float64)
    beyond = np.maximum(_occupied(read, written, gpu) - gpu.l2_bytes, 0.0)
    of_others = np.minimum(gpu.architecture.l2_dirty_bytes_at_start, beyond)
    return replace(counts, dram_write_bytes=written - kept_bytes(read, written, gpu) + of_others)


def stay_in_l2(touched_bytes: float, gpu: Gpu) -> bool:
    """Whether the next launch finds what this one has touched, the copies of other partitions counted.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [stay_in_l2(mb * 1e6, load_gpu("h200")) for mb in (34, 50)]
    [True, False]
    """
    return bool(_occupied(touched_bytes, 0.0, gpu) <= gpu.l2_bytes)


def _occupied(read: Any, written: Any, gpu: Gpu) -> Any:
    """Bytes of L2 that data take, with the copies that other partitions hold for their SMs."""
    return (2.0 - 1.0 / gpu.architecture.l2_partitions) * (read + written)
