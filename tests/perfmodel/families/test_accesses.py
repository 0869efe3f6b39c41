"""Accesses counted over residues against every access enumerated one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.families.accesses import combined, global_accesses, progression, run_of_words, shared_accesses

progressions = st.tuples(st.integers(-100, 100), st.integers(-100, 100), st.integers(0, 50))


def places(first: int, stride: int, count: int) -> list[int]:
    return [first + stride * step for step in range(count)]


@given(progressions, progressions)
def test_starts_are_the_places_modulo_a_line(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    every = [a + b for a in places(*one) for b in places(*other)]
    starts = combined(progression(*one), progression(*other))
    assert starts.tolist() == np.bincount(np.array(every, int) % 32, minlength=32).tolist()


@given(
    st.lists(st.lists(st.integers(-70, 300), min_size=32, max_size=32), max_size=3),
    st.integers(0, 2**32 - 1),
    progressions,
)
def test_sectors_and_lines_are_those_of_every_request(
    rows: list[list[int]], mask: int, progress: tuple[int, int, int]
) -> None:
    words = np.array(rows, np.int64).reshape(-1, 32)
    active = np.broadcast_to(mask >> np.arange(32) & 1 == 1, words.shape)
    touched = [{start + word for word in row[active[0]]} for row in words for start in places(*progress) if mask]
    accesses = global_accesses(words, active, progression(*progress))
    assert accesses.requests == len(touched)
    assert accesses.sectors == sum(len({word // 8 for word in some}) for some in touched)
    assert accesses.lines == sum(len({word // 32 for word in some}) for some in touched)


@given(st.integers(0, 300), st.sampled_from([1, 2, 4]), st.integers(0, 7))
def test_a_run_of_words_is_walked_warp_by_warp(vectors: int, width: int, start: int) -> None:
    first = start * width
    warps = [range(v, min(v + 32, vectors)) for v in range(0, vectors, 32)]
    accesses = run_of_words(vectors * width, width, progression(first, 0, 1))
    assert accesses.requests == len(warps)
    assert accesses.sectors == sum(len({(first + v * width) // 8 for v in warp}) for warp in warps)


@given(st.permutations(range(64)), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4]))
def test_wavefronts_are_those_of_the_busiest_bank_of_each_phase(order: list[int], mask: int, width: int) -> None:
    words = np.array(order[:32], np.int64)[None] * width
    active = (mask >> np.arange(32) & 1 == 1)[None]
    phases = [range(lane, lane + 32 // width) for lane in range(0, 32, 32 // width)]
    banks = [[(words[0, lane] + w) % 32 for lane in phase if active[0, lane] for w in range(width)] for phase in phases]
    accesses = shared_accesses(words, active, width)
    assert accesses.requests == bool(mask)
    assert accesses.wavefronts == sum(max(map(some.count, some), default=0) for some in banks)
    assert accesses.ideal == sum(bool(some) for some in banks)
