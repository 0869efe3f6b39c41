"""What an H100's L1 keeps of words that a warp stored, and of lines that lie anywhere, against the simulated one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.core.constants import LINE_BYTES
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import l1_cache_bytes
from perfmodel.memory.l1 import L1Traffic, l1_traffic
from perfmodel.memory.trace import LOCAL_LINES, LineAccesses

DATA = json.loads(
    gzip.decompress((Path(perfmodel.validation.__file__).parent / "data" / "h100-stored-words.json.gz").read_bytes())
)
STORES = [dict(zip(DATA["columns"]["stores"], row, strict=True)) for row in DATA["stores"]]
LINES = 64
L1_BYTES = float(l1_cache_bytes(load_gpu(DATA["gpu"]), 4 + (16 << 10) + (1 << 10)))
"""Beside a word and 16 KB of shared memory, and the KB that is reserved for each block."""
MODES = {
    0: "S L",
    1: "S L+1",
    2: "L S L",
    3: "L S+1 L+2",
    4: "s L",
    5: "s L L",
    6: "S s L",
    7: "S S+1 L L+1",
    8: "s s s s L",
}
"""Accesses to a line by mode: loads and stores of a word a lane from the given one on, ``s`` of a byte."""
LOST = (8, 3)
"""Lanes and mode in which a store to two sectors, one of which is being loaded, takes that one away; not simulated."""


def stored_and_loaded(lanes: int, mode: int) -> L1Traffic:
    """Simulated: what a warp's lanes load and miss of 64 lines that follow one another."""
    line, words, load = [], [], []
    for number in range(LINES):
        for access in MODES[mode].split():
            kind, _, first = access.partition("+")
            asked = ((1 << lanes) - 1) << int(first or 0)
            for beyond in range(1 + (asked >> 32 > 0)):
                line.append(number + beyond)
                words.append(0 if kind == "s" else asked >> 32 * beyond & 0xFFFF_FFFF)
                load.append(kind == "L")
    order, none = np.arange(len(line)), np.zeros(len(line), np.int64)
    made = LineAccesses(none, none, order, none, np.array(line), np.array(words), np.array(load))
    return l1_traffic(made, np.array([0]), 1, L1_BYTES)[1]


@pytest.mark.parametrize("row", STORES, ids=lambda one: "{lanes}-{mode}-{wait_cycles}".format(**one))
def test_l2_is_asked_for_what_was_not_stored_in_words(row: dict[str, int]) -> None:
    found = stored_and_loaded(row["lanes"], row["mode"])
    assert found.asked == row["loaded_sectors"]
    if (row["lanes"], row["mode"]) == LOST:
        assert (found.missed, row["l2_read_sectors"]) == (2 * LINES, 3 * LINES)
    else:
        assert found.missed == row["l2_read_sectors"] == row["loaded_sectors"] - row["hit_sectors"]


def test_lines_that_lie_anywhere_are_missed_as_in_sets_of_four() -> None:
    """As those of stacks, each of which has a set that is drawn."""
    rng = np.random.default_rng(0)
    for place, room, lines, _, counted in DATA["lines"]:
        if place == "anywhere" and room == 1 << 23:
            order = np.tile(rng.permutation(lines), 4)
            none = np.zeros_like(order)
            walk = LineAccesses(none, none, np.arange(len(order)), none, LOCAL_LINES + order, none + 0xFF, none == 0)
            first = l1_traffic(walk.of(np.arange(3 * lines)), np.array([0]), 1, L1_BYTES)[1]
            found = l1_traffic(walk, np.array([0]), 1, L1_BYTES)[1]
            assert (found.missed - first.missed) / lines == pytest.approx(counted, abs=0.05)


def test_lines_a_power_of_two_apart_are_not_missed_where_l1_has_room() -> None:
    counted = [row for row in DATA["lines"] if row[0] == "every" and row[2] * LINE_BYTES < 0.9 * L1_BYTES]
    assert len(counted) > 150
    assert all(missed == 0.0 for *_, missed in counted)
