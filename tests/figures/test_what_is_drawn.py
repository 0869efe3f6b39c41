"""The numbers behind the figures."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.accuracy.metrics import regret
from perfmodel.accuracy.validating import predict_rows
from perfmodel.families.registry import family
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.figures.report.measured_runs import Comparison, comparison
from perfmodel.figures.report.validation_drawings import errors_by_limiter, random_curve, regret_curve
from perfmodel.figures.style import round_numbers
from perfmodel.figures.time_terms import extremes
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.prediction.throughput import levels, operations
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements

FACTOR = 1.25
TIMES = st.lists(st.floats(1.0, 100.0), min_size=2, max_size=7)


def compared(path: Path) -> Comparison:
    chosen, scenario = family("tiled_conv2d"), scenario_of("rtx-3090")
    rows = read_measurements(path, chosen)
    predicted = predict_rows(chosen, rows, scenario, Fidelity.ANALYTIC)
    return comparison(rows, predicted, scenario, len(rows))


@given(TIMES, st.randoms(use_true_random=False))
def test_regret_curve_is_the_regret_of_each_number(times: list[float], random: object) -> None:
    measured = np.array(times)
    predicted = np.array(sorted(times, key=lambda _: random.random()))  # type: ignore[attr-defined]
    expected = [regret(predicted, measured, top) for top in range(1, len(times) + 1)]
    assert regret_curve(predicted, measured, len(times)).tolist() == expected


@given(TIMES)
def test_random_curve_is_the_mean_over_all_draws(times: list[float]) -> None:
    measured = np.array(times)
    for drawn, expected in enumerate(random_curve(measured, len(times)), 1):
        draws = [min(chosen) for chosen in itertools.combinations(times, drawn)]
        assert expected == pytest.approx(np.mean(draws) / min(times))


def test_random_curve_ends_where_it_is_asked_to() -> None:
    assert len(random_curve(np.arange(1.0, 10.0), 3)) == 3


def test_comparison_finds_the_factor_and_the_run_that_spilled(made_up: Path) -> None:
    found = compared(made_up)
    assert found.covered == "24 of 24 runs"
    assert found.accuracy.scale == pytest.approx(FACTOR, rel=0.02)
    assert float(np.median(found.measured_s / found.scaled_s)) == pytest.approx(1.0)
    assert found.spilled.sum() == 1


def test_errors_by_limiter_holds_every_run_of_a_frequent_limiter(made_up: Path) -> None:
    found = compared(made_up)
    sizes = [len(values) for values in errors_by_limiter(found).values()]
    counted = np.bincount(found.limiters)
    assert sizes == sorted(counted[counted >= 5].tolist(), reverse=True)


def test_roofline_levels_by_hand() -> None:
    gpu = load_gpu("h200")
    problem = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
    (found,) = predict_all(problem, [TiledConv2dConfiguration()], scenario_of(gpu), Fidelity.ANALYTIC)
    assert operations(found) >= 64 * 64 * 9 * 2  # outputs · taps · multiply and add
    pipe, _, dram = levels(found, gpu)
    assert dram.moved_bytes == 4 * 66 * 66  # input once; the output is in L2 when the launch ends
    assert dram.roof_bytes_per_s == gpu.dram_read_bytes_per_s
    assert pipe.roof_bytes_per_s == 128 * 132 * gpu.boost_clock_hz  # a wavefront of 128 bytes a cycle from each SM
    wavefronts = found.counts.shared_load_wavefronts + found.counts.shared_store_wavefronts
    sectors = found.counts.global_load_sectors + found.counts.global_store_sectors
    assert pipe.moved_bytes == wavefronts * 128 + sectors * 32


def test_extremes_are_the_ends_of_the_ranking() -> None:
    scenario = scenario_of("rtx-3090")
    problem = family("ssim").default_problem()
    fastest, slowest = extremes("ssim", problem, scenario, lambda c: str(c.version.value), count=3)
    times = [bar.seconds for bar in [*fastest, *reversed(slowest)]]
    assert times == sorted(times)
    assert len({bar.label for bar in [*fastest, *slowest]}) == 6


@given(st.floats(1e-6, 1e6), st.floats(1.0, 1e4))
def test_round_numbers_lie_within(low: float, ratio: float) -> None:
    found = round_numbers(low, low * ratio)
    assert all(low <= value <= low * ratio for value in found)
    assert found == sorted(set(found))
    assert len(found) >= int(np.log10(ratio)) * 3
