"""How an H100 served the blocks of an SM, by the clocks that they wrote: what ``oldest_share`` is taken from."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.memory.fitted_shares import shares as fitted_shares

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h100-block-progress.json.gz"


def runs(kernel: str) -> list[dict[str, Any]]:
    return [run for run in json.loads(gzip.decompress(DATA.read_bytes()))["runs"] if run["kernel"] == kernel]


def ages(run: dict[str, Any]) -> Iterator[int]:
    """Of each step of a block, how many older blocks were still on its SM."""
    for sm in run["stamps"]:
        clocks = [np.cumsum(row[2:]) for row in sm["rows"]]
        starts = np.array([clock[0] for clock in clocks])
        ends = np.array([clock[-1] for clock in clocks])
        for start, clock in zip(starts, clocks, strict=True):
            for now in clock[1:]:
                yield int(((starts < start) & (ends >= now)).sum())


def test_the_oldest_block_of_an_sm_is_served_first() -> None:
    """The next one gets about as large a part of what it leaves, and so on; in the four launches whose blocks make many steps."""
    shares = []
    for run in runs("pointwise_conv2d"):
        steps = np.bincount(list(ages(run)))
        if len(steps) > 4:
            served = steps / steps.sum()
            assert (np.diff(served) < 0.02).all(), run["configuration"]
            shares.append(float(served[0]))
            assert 0.2 < served[1] / (1.0 - served[0]) < 0.8
    assert len(shares) == 4
    assert min(shares) == pytest.approx(fitted_shares().oldest_share, abs=0.05)
    assert np.median(shares) == pytest.approx(fitted_shares().oldest_share, abs=0.1)


def test_the_warps_of_a_block_keep_in_step_and_its_younger_neighbours_wait() -> None:
    """A block of tiled_conv2d is rows ahead of the next one, while its warps are in the same row of the filter."""
    spread, ahead = [], []
    for run in runs("tiled_conv2d"):
        for sm in run["stamps"]:
            of_block: dict[int, list[np.ndarray]] = {}
            for block, _, *clocks in sm["rows"]:
                of_block.setdefault(block, []).append(np.cumsum(clocks))
            blocks = sorted(
                (np.array(warps) for warps in of_block.values()), key=lambda clocks: float(clocks[:, 0].min())
            )
            for clocks, younger in pairwise(blocks):
                now = np.median(clocks[:, 9])
                rows = (clocks[:, 1:] <= now).sum(axis=1)
                spread.append(int(rows.max() - rows.min()))
                if younger[:, 0].min() < now < younger[:, -1].max():
                    ahead.append(float(np.median(rows) - np.median((younger[:, 1:] <= now).sum(axis=1))))
    assert np.quantile(spread, 0.9) <= 1
    assert np.median(ahead) >= 3
