"""What an SM still has to do where the budget has ended its run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.time_model.sm_state import _homes
from perfmodel.time_model.sm_tail import Pace, rest_cycles

RECORD = Path(__file__).parents[3] / "validation" / "data" / "h200-warp-schedulers.json"


def blocks_of_one_warp(number: int, pace: Pace, places: int = 12) -> float:
    """Cycles of so many blocks of 100 instructions on an SM that has places for twelve."""
    left = np.zeros((places, 1))
    left[: min(number, places)] = 100.0
    following = [np.array([100.0])] * max(0, number - places)
    return rest_cycles(left, np.arange(places)[:, None] % 4, following, places, pace)


@pytest.mark.parametrize(("number", "cycles"), [(4, 150), (8, 200), (9, 300), (12, 300), (13, 300 + 150), (24, 600)])
def test_a_last_block_runs_by_itself(number: int, cycles: float) -> None:
    """An instruction of a scheduler a cycle, 1.5 cycles from one of a warp to its next one: the fullest scheduler is the last."""
    assert blocks_of_one_warp(number, Pace(alone=1.5, scheduler=1.0, together=0.0)) == pytest.approx(cycles)


def test_what_all_schedulers_share_does_not_ask_whose_warps_are_left() -> None:
    pace = Pace(alone=1.5, scheduler=0.0, together=0.25)
    assert blocks_of_one_warp(9, pace) == pytest.approx(9 * 100 * 0.25)


def test_a_block_begins_when_its_warps_have_room() -> None:
    """Two places of two warps: the third block waits for a block to end, and then for room for both of its warps."""
    pace = Pace(alone=1.0, scheduler=0.0, together=0.0)
    left, homes = np.array([[100.0, 100.0], [300.0, 300.0]]), np.array([[0, 1], [2, 3]])
    assert rest_cycles(left, homes, [np.array([50.0, 50.0])], 4, pace) == pytest.approx(300)
    assert rest_cycles(left, homes, [np.array([50.0, 50.0])], 2, pace) == pytest.approx(350)


@pytest.mark.parametrize("warps", [4, 9, 12])
def test_a_pace_is_as_fast_as_it_was_observed(warps: int) -> None:
    homes = np.arange(warps) % 4
    pace = Pace.of(0.4, 1.0, own=0.8, shared=0.1, homes=homes)
    assert (1.0 / pace.cycles(homes)).sum() == pytest.approx(1.0 / 0.4)


def test_warps_take_turns_at_the_schedulers_as_on_an_h200() -> None:
    """Warps that share a scheduler take longer: 1.32 cycles for a multiply-add alone, 2.27 for two, 3.28 for three, and so on."""
    cycles = {1: 1.32, 2: 2.27, 3: 3.28}
    checked = 0
    for row in json.loads(RECORD.read_text(encoding="utf-8"))["rows"]:
        warps, blocks, working = row["warps_per_block"], row["blocks_per_sm"], row["working_warp"]
        homes = _homes(blocks, warps, 4)[0].reshape(blocks, warps)
        sharing = np.bincount((homes if working < 0 else homes[:, working]).ravel())
        if sharing.max() in cycles:
            assert row["cycles"][1] == pytest.approx(cycles[sharing.max()], abs=0.05), row
            checked += 1
    assert checked > 100
