import numpy as np

from perfmodel.families.pointwise_conv2d import PointwiseConv2d
from perfmodel.families.pointwise_conv2d.report import layer_report
from perfmodel.families.pointwise_conv2d.selection import Rule
from perfmodel.families.pointwise_conv2d.spaces import source_tuples
from perfmodel.gpus.catalogue import load_gpu

LAYER = PointwiseConv2d(in_channels=1024, out_channels=1024, height=7, width=7)


def test_every_tuple_is_feasible_or_has_a_reason_that_names_value_and_limit():
    gpu = load_gpu("rtx-2080-ti")
    found = layer_report(PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112), source_tuples(), gpu)
    assert len(found.tuples) == 144
    assert found.feasible + sum(found.rejected.values()) == 144
    assert found.rejected["planned registers per thread"] > 40
    for entry in found.tuples:
        if entry.rejection is not None and entry.rejection.startswith("planned registers"):
            assert entry.rejection == (
                f"planned registers per thread: {entry.planned_registers} exceeds "
                f"{ {2: 255, 4: 128, 6: 80}[entry.configuration.blocks_per_sm] }"
            )


def test_the_last_layer_has_no_whole_number_tuple_but_feasible_ones():
    found = layer_report(LAYER, source_tuples(), load_gpu("rtx-2080-ti"))
    assert sum(entry.source_feasible for entry in found.tuples) == 0
    assert found.feasible > 60


def test_waves_and_tail_follow_from_blocks_and_occupancy():
    gpu = load_gpu("h200")
    for entry in layer_report(LAYER, source_tuples(), gpu).tuples:
        if entry.rejection is None:
            assert entry.waves == entry.blocks / (entry.blocks_per_sm * 132)
            assert 0 <= entry.tail < 1
            assert entry.blocks_per_sm >= entry.configuration.blocks_per_sm
            assert entry.occupancy == entry.blocks_per_sm * 4 / gpu.max_warps_per_sm


def test_chosen_by_each_rule():
    gpu, times = load_gpu("h200"), np.linspace(9e-6, 3e-6, 144)
    found = layer_report(LAYER, source_tuples(), gpu, predicted_s=times)
    feasible = [entry for entry in found.tuples if entry.rejection is None]
    by_time = found.tuples[found.chosen[Rule.PREDICTED_TIME]]
    assert by_time.predicted_s == min(entry.predicted_s for entry in feasible)
    fewest = found.tuples[found.chosen[Rule.REGISTERS]]
    assert fewest.estimated_registers == min(entry.estimated_registers for entry in feasible)
    assert found.tuples[found.chosen[Rule.INTENSITY]].intensity >= 0.95 * max(entry.intensity for entry in feasible)
    assert layer_report(LAYER, source_tuples(), gpu).chosen[Rule.PREDICTED_TIME] is None


def test_compiled_registers_replace_the_estimate_in_occupancy():
    gpu = load_gpu("h200")
    found = layer_report(LAYER, source_tuples(), gpu, compiled_registers=np.full(144, 168, np.int32))
    assert {entry.compiled_registers for entry in found.tuples} == {168}
    assert max(entry.blocks_per_sm for entry in found.tuples) == 3  # 65,536 // (128 · 168)
