"""Predictions of single configurations: what they are made of, executed profiles put in, what cannot run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.compiler.resources import Resources
from perfmodel.errors import CompileError, InfeasibleError
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.predicting import ESTIMATED_NOTE, predict_all, predictions_of, profiles_or_raise
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import TRAFFIC_COUNTS, Fidelity, KernelProfile

UNDER = scenario_of("rtx-2080-ti")
PROBLEM = TiledConv2d(height=256, width=256, filter_height=5, filter_width=5)
SMALL = TiledConv2dConfiguration(block_size_x=32, block_size_y=4, tile_size_x=1, tile_size_y=1)


def executed(**changed: object) -> KernelProfile:
    """A profile that agrees with the closed forms of SMALL but for what is changed; traffic behind L1 is unknown."""
    closed = FAMILY.profile(PROBLEM, Batch.of([SMALL]), UNDER.gpu).at(0)
    counts = replace(closed.counts, **dict.fromkeys(TRAFFIC_COUNTS, np.nan))
    resources = Resources(
        registers_per_thread=40,
        static_shared_bytes=4 * 8 * 36,
        stack_bytes_per_thread=0,
        spill_load_bytes=0,
        spill_store_bytes=0,
        code_bytes=4096,
    )
    profile = replace(closed, resources=resources, counts=counts, global_round_trips=np.nan, exact=True)
    return replace(profile, **changed)  # type: ignore[arg-type]


def test_an_analytic_prediction_says_where_its_numbers_come_from() -> None:
    (found,) = predict_all(PROBLEM, [SMALL], UNDER, Fidelity.ANALYTIC)
    assert (found.kernel, found.gpu, found.fidelity, found.exact) == (
        "tiled_conv2d",
        "rtx-2080-ti",
        Fidelity.ANALYTIC,
        False,
    )
    assert found.configuration == SMALL
    assert found.resources.static_shared_bytes == 4 * (4 + 4) * (32 + 4)  # 8 rows of 36 words
    assert found.occupancy.blocks_per_sm == 8  # 1,024 threads of an SM by 128 of a block
    assert found.occupancy.warps_per_sm == 8 * 4
    assert found.occupancy.fraction == 1
    assert found.counts.fp32_fma == 256 * 256 / 32 * 25
    assert found.time.calibration_status == "calibrated GPU; closed forms"
    assert found.notes[0] == ESTIMATED_NOTE


def test_several_configurations_keep_their_order() -> None:
    chosen = [replace(SMALL, tile_size_x=tile) for tile in (4, 1, 2)]
    together = predict_all(PROBLEM, chosen, UNDER, Fidelity.ANALYTIC)
    assert [p.configuration for p in together] == chosen
    for one in together:
        (alone,) = predict_all(PROBLEM, [one.configuration], UNDER, Fidelity.ANALYTIC)
        assert alone.time.predicted_s == pytest.approx(one.time.predicted_s, rel=1e-12)


def test_execution_replaces_estimates_and_caches_stay_closed_forms() -> None:
    """Executed 1,000 requests and 120 registers; DRAM bytes are not executed, so the closed form's remain."""
    known = executed()
    counts = replace(known.counts, global_load_requests=1000.0)
    known = replace(known, counts=counts, resources=replace(known.resources, registers_per_thread=120))
    batch = Batch.of([SMALL])
    evaluation = evaluate_batch(FAMILY, PROBLEM, batch, UNDER, [known])
    (found,) = predictions_of(FAMILY, PROBLEM, batch, evaluation, UNDER, Fidelity.COMPILED)
    assert found.exact
    assert found.counts.global_load_requests == 1000
    assert found.counts.dram_read_bytes == 4 * (256 + 4) ** 2
    assert found.resources.registers_per_thread == 120
    assert found.occupancy.blocks_per_sm == 65_536 // (120 * 128)  # registers now limit: 4 blocks
    assert "registers" in found.occupancy.limiter


def test_simulated_caches_are_taken_as_they_are() -> None:
    known = executed(caches_simulated=True)
    known = replace(known, counts=replace(known.counts, dram_read_bytes=12345.0))
    evaluation = evaluate_batch(FAMILY, PROBLEM, Batch.of([SMALL]), UNDER, [known])
    assert evaluation.profile.counts.dram_read_bytes[0] == 12345


def test_round_trips_of_the_machine_code_stand_for_the_closed_form() -> None:
    closed = evaluate_batch(FAMILY, PROBLEM, Batch.of([SMALL]), UNDER, [executed()]).profile.global_round_trips
    assert closed[0] == np.broadcast_to(FAMILY.profile(PROBLEM, Batch.of([SMALL]), UNDER.gpu).global_round_trips, 1)[0]
    own = evaluate_batch(FAMILY, PROBLEM, Batch.of([SMALL]), UNDER, [executed(global_round_trips=9.0)])
    assert own.profile.global_round_trips[0] == 9


def test_what_cannot_run_is_named_with_value_and_limit() -> None:
    with pytest.raises(InfeasibleError, match="4096 threads") as refused:
        predict_all(PROBLEM, [SMALL, replace(SMALL, block_size_x=128, block_size_y=32)], UNDER, Fidelity.ANALYTIC)
    assert "block_size_x=128" in str(refused.value)
    assert "1024" in str(refused.value)


def test_what_no_block_can_hold_is_refused_before_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting a tile of a million columns takes a minute; shared memory refuses it at once, and registers are no matter."""
    monkeypatch.setattr(type(FAMILY), "profile", lambda *_: pytest.fail("counted"))
    with pytest.raises(InfeasibleError, match=r"tile_size_x=1000000 .* \d+ bytes of shared memory") as refused:
        predict_all(PROBLEM, [replace(SMALL, tile_size_x=1_000_000)], UNDER, Fidelity.ANALYTIC)
    assert "registers" not in str(refused.value)


def test_compiled_registers_may_make_a_configuration_infeasible() -> None:
    """1,024 threads of 80 registers need 81,920; an SM has 65,536."""
    wide = replace(SMALL, block_size_x=128, block_size_y=8)
    launch = FAMILY.launch(PROBLEM, Batch.of([wide]), UNDER.gpu).at(0)
    known = replace(executed(launch=launch), resources=replace(executed().resources, registers_per_thread=80))
    evaluation = evaluate_batch(FAMILY, PROBLEM, Batch.of([wide]), UNDER, [known])
    assert np.isinf(evaluation.seconds[0])
    message = evaluation.feasibility.rejection(0, UNDER.gpu)
    assert message is not None
    assert "80 registers" in message


def test_the_first_failure_is_raised() -> None:
    with pytest.raises(CompileError, match="first"):
        profiles_or_raise([executed(), CompileError("first"), CompileError("second")])


@pytest.mark.compiler
def test_compiled_and_simulated_agree_on_what_is_executed() -> None:
    problem = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
    (compiled,) = predict_all(problem, [SMALL], UNDER, Fidelity.COMPILED)
    (simulated,) = predict_all(problem, [SMALL], UNDER, Fidelity.SIMULATED)
    assert compiled.resources == simulated.resources
    for name in ("global_load_requests", "shared_load_requests", "shared_load_wavefronts"):
        assert getattr(compiled.counts, name) == getattr(simulated.counts, name), name
    for name in ("global_load_sectors", "warp_instructions"):  # in closed form, from one block
        assert getattr(compiled.counts, name) == pytest.approx(getattr(simulated.counts, name), rel=0.03), name
    # what DRAM delivers at least is the image once, 4 · 66 · 66 bytes, in whole sectors of 32
    assert simulated.counts.dram_read_bytes >= 4 * 66 * 66
    assert simulated.counts.dram_read_bytes % 32 == 0
