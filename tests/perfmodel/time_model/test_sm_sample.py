"""Windows of long blocks: what they contain, and that they say how long the whole block takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import perfmodel.validation
from campaigns.public_kernels.fitting import MeasuredLaunch, measured_launches
from campaigns.public_kernels.record import read_public_records
from perfmodel.launch.launch import L2State
from perfmodel.machine_code.issue_table import Wait
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.warp_traces import WarpTraces
from perfmodel.time_model.sm_sample import WINDOWS, samples
from perfmodel.time_model.sm_time import sm_seconds

LAUNCHES = Path(perfmodel.validation.__file__).parent / "data" / "launches" / "h200-public.jsonl.gz"
SCENARIO = scenario_of("h200")


@pytest.fixture(scope="module")
def binomial() -> MeasuredLaunch:
    """Option prices by a tree: from step to step fewer of a block's threads have something to do, and 4,096 barriers."""
    records = [one for one in read_public_records(LAUNCHES) if one.launch.id == "binomial_options"]
    return measured_launches(records, SCENARIO, L2State.COLD)[0]


def barriers(traces: WarpTraces) -> np.ndarray:
    """How many each warp meets, shape ``(blocks, warps)``."""
    of_instructions = np.append(0, np.cumsum(np.isin(traces.table.wait, [Wait.BARRIER, Wait.CLUSTER_BARRIER])))
    of_stretches = of_instructions[traces.first + traces.length] - of_instructions[traces.first]
    return np.diff(np.append(0, np.cumsum(of_stretches))[traces.offsets]).reshape(traces.blocks, -1)


def test_all_warps_meet_the_barriers_of_a_window(binomial: MeasuredLaunch) -> None:
    found = samples(binomial.profile.traces, 60_000)
    assert found is not None
    for sample in found:
        met = barriers(sample)
        assert (met == met[:, :1]).all()
        assert met.min() > WINDOWS


def test_the_longer_sample_has_twice_the_instructions_and_the_same_ends(binomial: MeasuredLaunch) -> None:
    whole = binomial.profile.traces
    found = samples(whole, 60_000)
    assert found is not None
    short, long = found
    assert short.length.sum() / short.blocks == pytest.approx(20_000, rel=0.02)
    assert long.length.sum() / long.blocks == pytest.approx(40_000, rel=0.02)
    for sample in found:
        assert sample.first[sample.offsets[:-1]].tolist() == whole.first[whole.offsets[:-1]].tolist()
        last, whole_last = sample.offsets[1:] - 1, whole.offsets[1:] - 1
        ends = sample.first[last] + sample.length[last]
        assert ends.tolist() == (whole.first[whole_last] + whole.length[whole_last]).tolist()


def test_short_blocks_and_short_windows_are_not_sampled(binomial: MeasuredLaunch) -> None:
    traces = binomial.profile.traces
    assert samples(traces, float(traces.length.sum())) is None
    assert samples(traces, 1_000) is None


def test_windows_say_how_long_the_whole_block_takes(binomial: MeasuredLaunch) -> None:
    """Its first fifth alone said 15 % less, because more threads have something to do there than later."""
    profile, occupancy = binomial.profile, binomial.occupancy

    def seconds(budget: int) -> float:
        return sm_seconds(
            profile.traces, profile.launch, profile.counts, occupancy, SCENARIO.gpu, budget=budget
        ).seconds

    whole = seconds(4_000_000)
    assert seconds(400_000) == pytest.approx(whole, rel=0.04)
    assert seconds(200_000) == pytest.approx(whole, rel=0.05)
