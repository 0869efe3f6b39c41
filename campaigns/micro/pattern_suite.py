"""Micro-benchmarks of wide shared accesses, one for each way in which lanes may share and contend for addresses.

How many wavefronts a 4-byte access needs is documented; how lanes of an 8- or 16-byte access are put together is not. Each
pattern is one launch of one warp, so that the counters show the pattern and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.core.constants import BANK_BYTES, SHARED_BANKS, WARP_SIZE, round_up
from perfmodel.launch.launch import Buffer, KernelCall, Launch

from .benchmark import Clock, MicroBenchmark, MicroCall, exactly

WIDTHS = (2, 4)
ACCESSES = 16
INACTIVE = -1
SEED = 2026
"""Of the drawn patterns; another seed makes other patterns, which records would not distinguish."""


STORED = frozenset({
    "linear", "same without bit 0", "same without bit 1", "same without bit 4", "same without bits 0 1", "all the same",
    "stride 2", "stride 2 without bit 0", "pairs in the first half", "linear, even lanes", "drawn from 8, 2", "drawn from 32, 4",
})  # fmt: skip
"""The patterns that are stored too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePattern:
    """The word at which each lane of a warp begins; ``INACTIVE`` where it takes no part."""

    name: str
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternSizes:
    """How often a pattern is accessed: so often that what fills shared memory beforehand hardly counts."""

    steps: int = 256


def pattern_suite(sizes: PatternSizes) -> tuple[MicroBenchmark, ...]:
    """Every pattern loaded by 8 and by 16 bytes a lane, some stored as well."""
    return tuple(
        shared_pattern(sizes, pattern, width, store=store)
        for store in (False, True)
        for width in WIDTHS
        for pattern in lane_patterns()
        if not store or pattern.name in STORED
    )


@cache
def lane_patterns() -> tuple[LanePattern, ...]:
    """The patterns, each once, in a fixed order.

    >>> len(lane_patterns()) == len({pattern.words for pattern in lane_patterns()})
    True
    """
    return (*_by_formula(), *_inactive(), *_drawn())


def _without_bits(*bits: int) -> Callable[[int], int]:
    """The lane's number without some of its bits: lanes that differ only in those share a word."""

    def word(lane: int) -> int:
        kept = [bit for bit in range(5) if bit not in bits]
        return sum((lane >> bit & 1) << place for place, bit in enumerate(kept))

    return word


def _by_formula() -> Iterator[LanePattern]:
    formulas: Mapping[str, Callable[[int], int]] = {
        "linear": lambda lane: lane,
        "neighbours swapped": lambda lane: lane ^ 1,
        **{f"same without bit {bit}": _without_bits(bit) for bit in range(5)},
        "same without bits 0 1": _without_bits(0, 1),
        "same without bits 1 2": _without_bits(1, 2),
        "same without bits 0 4": _without_bits(0, 4),
        "same without bits 3 4": _without_bits(3, 4),
        "same without bits 0 1 2": _without_bits(0, 1, 2),
        "same without bits 2 3 4": _without_bits(2, 3, 4),
        "same without bits 0 1 2 3": _without_bits(0, 1, 2, 3),
        "same without bits 1 2 3 4": _without_bits(1, 2, 3, 4),
        "all the same": lambda lane: 0,
        **{f"stride {stride}": lambda lane, stride=stride: stride * lane for stride in (2, 3, 4)},  # type: ignore[misc]
        **{
            f"stride {stride} without bit {bit}": lambda lane, stride=stride, bit=bit: stride * _without_bits(bit)(lane)  # type: ignore[misc]
            for stride in (2, 4)
            for bit in (0, 1, 4)
        },
        "thirds": lambda lane: lane // 3,
        "modulo 3": lambda lane: lane % 3,
        "pairs in the first half": lambda lane: lane // 2 if lane < 16 else lane,
        "pairs in the first quarter": lambda lane: lane // 2 if lane < 8 else lane,
        "pairs by bit 0, then by bit 1": lambda lane: _without_bits(0 if lane < 16 else 1)(lane),
        "pairs but for one lane": lambda lane: lane // 2 if lane != 31 else 16,
        "pairs one lane later": lambda lane: (lane + 1) // 2,
        "halves in conflict": lambda lane: lane % 16 + 32 * (lane // 16),
        "quarters in conflict": lambda lane: lane % 8 + 32 * (lane // 8),
    }
    for name, formula in formulas.items():
        yield LanePattern(name=name, words=tuple(formula(lane) for lane in range(WARP_SIZE)))


def _inactive() -> Iterator[LanePattern]:
    rng = np.random.default_rng([SEED, 0])
    drawn = set(rng.permutation(WARP_SIZE)[:11].tolist())
    activities: Mapping[str, Callable[[int], bool]] = {
        "lane 0": lambda lane: lane == 0,
        "even lanes": lambda lane: lane % 2 == 0,
        "first quarter": lambda lane: lane < 8,
        "first half": lambda lane: lane < 16,
        "outer quarters": lambda lane: lane < 8 or lane >= 24,
        "eleven drawn lanes": lambda lane: lane in drawn,
    }
    for name, active in activities.items():
        words = [lane if active(lane) else INACTIVE for lane in range(WARP_SIZE)]
        yield LanePattern(name=f"linear, {name}", words=tuple(words))
    for name in ("even lanes", "eleven drawn lanes"):
        words = [lane // 2 if activities[name](lane) else INACTIVE for lane in range(WARP_SIZE)]
        yield LanePattern(name=f"pairs, {name}", words=tuple(words))


def _drawn() -> Iterator[LanePattern]:
    """Random words out of few, which many lanes share, and out of many, of which some contend."""
    for number, words in enumerate((2, 4, 8, 8, 32, 64)):
        rng = np.random.default_rng([SEED, 1, number])
        yield LanePattern(name=f"drawn from {words}, {number}", words=tuple(rng.integers(0, words, WARP_SIZE).tolist()))
    order = np.random.default_rng([SEED, 2]).permutation(WARP_SIZE)
    yield LanePattern(name="permuted", words=tuple(order.tolist()))
    for bit in (0, 1):
        for words in (16, 64):
            chosen = np.random.default_rng([SEED, 3, bit, words]).integers(0, words, WARP_SIZE // 2)
            shared = [int(chosen[_without_bits(bit)(lane)]) for lane in range(WARP_SIZE)]
            yield LanePattern(name=f"pairs by bit {bit} drawn from {words}", words=tuple(shared))


def shared_pattern(sizes: PatternSizes, pattern: LanePattern, width: int, *, store: bool) -> MicroBenchmark:
    """Accesses of ``width`` floats a lane at the pattern's words; the amount is warp instructions."""
    steps = sizes.steps
    longest = 1 + max(word for one in lane_patterns() for word in one.words)
    apart = round_up(longest, SHARED_BANKS // width)

    def make_call(rng: np.random.Generator) -> MicroCall:
        active = np.array(pattern.words) != INACTIVE
        each = float(width * (steps - 1 + ACCESSES - 1)) if store else float(width * steps * ACCESSES)
        parameters = (
            Buffer(name="sums", array=np.full(WARP_SIZE, np.nan, np.float32), output=True),
            Buffer(name="word_of_lane", array=np.array(pattern.words, np.int32)),
            np.int32(steps),
            np.int32(0),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=np.where(active, each, 0.0)))

    return MicroBenchmark(
        kernel="shared_patterns",
        defines=(("WIDTH", width), ("STORE", int(store)), ("ACCESSES", ACCESSES), ("APART", apart)),
        setting={"pattern": pattern.name, "bytes": width * BANK_BYTES, "store": store},
        launch=Launch(grid_x=1, block_x=WARP_SIZE),
        clock=Clock.EVENTS,
        amount=float(steps * ACCESSES),
        make_call=make_call,
    )
