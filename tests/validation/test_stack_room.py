"""What an H200's L1 keeps of local memory, against the simulated one: stacks that are stored once and loaded twice."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.core.constants import WARP_SIZE
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import l1_cache_bytes
from perfmodel.memory.l1 import l1_traffic
from perfmodel.memory.trace import LOCAL_LINES, WORDS_OF_LINE, LineAccesses

DATA = json.loads(
    gzip.decompress((Path(perfmodel.validation.__file__).parent / "data" / "h200-stack-room.json.gz").read_bytes())
)
H200 = load_gpu("h200")
LOADS = 2
ROOMS = [dict(zip(DATA["columns"]["rooms"], row, strict=True)) for row in DATA["rooms"]]


def missed_share(stack_bytes: int, threads: int, stored_bytes: int) -> float:
    """Simulated: of the sectors that are loaded, those that L2 is asked for."""
    words, warps = stack_bytes // 4, threads // WARP_SIZE
    step, warp = (part.reshape(-1) for part in np.mgrid[: (1 + LOADS) * words, :warps])
    load = step >= words
    none = np.zeros_like(step)
    stored = 0 if stored_bytes < 4 else WORDS_OF_LINE
    accesses = LineAccesses(
        block=none,
        warp=warp,
        trip=none,
        step=step,
        line=LOCAL_LINES + warp * words + step % words,
        words=np.where(load, WORDS_OF_LINE, stored),
        load=load,
    )
    _, found = l1_traffic(accesses, np.array([0]), 1, float(l1_cache_bytes(H200, 0)))
    return found.missed / found.asked


@pytest.mark.parametrize("room", ROOMS, ids=lambda one: "{stack_bytes}x{threads}x{stored_bytes}".format(**one))
def test_stacks_are_missed_as_counted(room: dict[str, Any]) -> None:
    counted = room["l2_read_sectors"] / room["local_load_sectors"]
    simulated = missed_share(room["stack_bytes"], room["threads"], room["stored_bytes"])
    assert simulated == pytest.approx(counted, abs=0.13)


def test_stacks_are_missed_as_counted_on_average() -> None:
    counted = np.array([room["l2_read_sectors"] / room["local_load_sectors"] for room in ROOMS])
    simulated = np.array([missed_share(r["stack_bytes"], r["threads"], r["stored_bytes"]) for r in ROOMS])
    assert np.abs(simulated - counted).mean() < 0.03
    # where the stacks of an SM fill less than an eighth of L1, words are never missed
    assert (
        simulated[
            [i for i, r in enumerate(ROOMS) if r["stored_bytes"] == 4 and r["stack_bytes"] * r["threads"] < 2**15]
        ]
        == 0
    )


@pytest.mark.parametrize(
    ("accesses", "asked"),
    [
        ("S4 L4", 0),  # a word that was stored is there
        ("S1 S1@1 S1@2 S1@3 L4", 1),  # what was stored byte by byte is not
        ("L4 S1 L4", 1),  # a byte stored to what is there changes nothing
        ("S1 S1@1 S1@2 S1@3 L4 S1 S1@1 S1@2 S1@3 L4", 1),
    ],
)
def test_of_what_a_warp_stored_in_bytes_l2_is_asked_once(accesses: str, asked: int) -> None:
    rows = [dict(zip(DATA["columns"]["sequences"], row, strict=True)) for row in DATA["sequences"]]
    words, load = 32, np.array([one.startswith("L") for one in accesses.split()])
    count = len(load)
    step = np.arange(words * count)
    none = np.zeros_like(step)
    stored = [WORDS_OF_LINE if one == "S4" else 0 for one in accesses.split()]
    made = LineAccesses(
        block=none,
        warp=none,
        trip=none,
        step=step,
        line=LOCAL_LINES + step // count,
        words=np.where(load, WORDS_OF_LINE, stored)[step % count],
        load=load[step % count],
    )
    _, simulated = l1_traffic(made, np.array([0]), 1, float(l1_cache_bytes(H200, 0)))
    found = {r["l2_read_sectors"] for r in rows if (r["accesses"], r["blocks"], r["threads"]) == (accesses, 1, 32)}
    assert found == {simulated.missed} == {asked * 4 * words}
