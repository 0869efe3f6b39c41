"""What is noted of phases of ``mbarrier`` objects and of bulk copies, of kernels that are executed."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.precision import Precision
from perfmodel.families.profiling import Depth, configuration_profile
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.issue_table import Wait
from perfmodel.profiles.phase_streams import NO_PHASE, PhaseStreams, phase_streams
from perfmodel.profiles.warp_traces import WarpTraces
from perfmodel.simulator.phases import PhaseLog


def test_initialised_objects_begin_anew() -> None:
    """A wait for the phase before the first of an object waits for nobody, even where an earlier object lay there."""
    log = PhaseLog()
    log.add(0, 5, log.current(0), ends=True)
    log.over([0])
    log.initialise([0])
    log.add(1, 6, log.before(0), ends=False)
    assert phase_streams([log], 2).phase.tolist() == [0, NO_PHASE]


def test_sectors_that_other_blocks_copy_too_are_common() -> None:
    logs = [PhaseLog(), PhaseLog()]
    for number, log in enumerate(logs):
        log.add(0, 3, log.current(0), ends=True, sectors=[0, 1])
        log.add(0, 3, log.current(1), ends=True, sectors=[10 * number + 8, 10 * number + 9])
    streams = phase_streams(logs, 1)
    assert streams.common.tolist() == [1, 0, 1, 0]
    assert streams.of_blocks([1]).sectors.tolist() == [2, 2]


@pytest.fixture(scope="module")
def traces() -> WarpTraces:
    """Of one block of a product whose slabs bulk copies bring."""
    problem = PointwiseConv2d(in_channels=256, out_channels=64, height=16, width=16, precision=Precision.FLOAT16)
    kind, gpu = family("pointwise_conv2d"), load_gpu("h200")
    batch = kind.space(problem, gpu).batch()
    fits = [index for index in range(len(batch)) if batch.configuration(index).layout.value == "bulk"]
    chosen = batch.configuration(fits[0])
    found: WarpTraces = configuration_profile(kind, problem, chosen, gpu, Depth.MIDDLE_BLOCK).traces
    return found


def test_the_copies_of_a_block_are_its_slabs(traces: WarpTraces) -> None:
    """256 channels of half precision are 4 slabs of 128 bytes, each of positions and of filters; one warp copies all."""
    phases = traces.phases
    kinds = traces.table.wait[phases.instruction]
    copies = kinds == Wait.BULK_LOAD
    brought = phases.sectors[copies & (phases.sectors > 0)]
    assert len(brought) == 2 * 4
    assert brought.sum() % 4 == 0  # whole rows of 128 bytes
    copying = np.repeat(np.arange(traces.warps_per_block), np.diff(phases.offsets))[copies]
    assert set(copying.tolist()) == {traces.warps_per_block - 1}


def test_each_slab_is_waited_for_by_every_warp_that_multiplies(traces: WarpTraces) -> None:
    """Two copies and the arrival that expects their bytes end a phase, for which all warps but the copying one wait."""
    phases = traces.phases
    kinds = traces.table.wait[phases.instruction]
    full = [phase for phase in range(len(phases.ends)) if phases.ends[phase] == 3]
    assert len(full) == 4
    for phase in full:
        waits = (kinds == Wait.PHASE_WAIT) & (phases.phase == phase)
        assert waits.sum() == traces.warps_per_block - 1


def test_traces_keep_their_phases_on_disk(traces: WarpTraces) -> None:
    again = WarpTraces.from_bytes(traces.to_bytes()).phases
    for name in PhaseStreams.__dataclass_fields__:
        assert np.array_equal(getattr(again, name), getattr(traces.phases, name))
