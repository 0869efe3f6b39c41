"""Tiles, limits, slabs and where they lie in shared memory, banks counted address by address."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, Layout, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.blocking.shared_layout import Operand, pitches_of
from perfmodel.families.pointwise_conv2d.blocking.tiles import limits, planned_registers, planned_shared_bytes, tiles
from perfmodel.families.pointwise_conv2d.configuration import tile_space
from perfmodel.families.pointwise_conv2d.launch import candidates
from perfmodel.gpus.catalogue import load_gpu

MOBILENET_V1 = [  # in_channels, out_channels, height = width
    *((32, 64, 112), (64, 128, 56), (128, 128, 56), (128, 256, 28), (256, 256, 28), (256, 512, 14)),
    *((512, 512, 14), (512, 1024, 7), (1024, 1024, 7)),
]
GPUS = ("rtx-2080-ti", "a100-sxm-80gb", "h200")
BLOCKS = np.array([2, 4, 6])


def layer(in_channels, out_channels, size):
    return PointwiseConv2d(in_channels=in_channels, out_channels=out_channels, height=size, width=size)


@pytest.mark.parametrize("gpu_id", GPUS)
def test_every_layer_has_many_feasible_candidates(gpu_id):
    gpu = load_gpu(gpu_id)
    for sizes in MOBILENET_V1:
        chosen = candidates(layer(*sizes), tile_space(layer(*sizes)).batch(), gpu)
        assert (chosen.planned & (chosen.shared_bytes <= chosen.limit.shared_bytes_per_block)).sum() > 60, sizes


def test_one_tile_and_its_plan_by_hand():
    # 64 filters, 12,544 positions, 132 SMs: 6,081.9 outputs an SM. L1, K filters wide, two block widths, 2 blocks an SM,
    # 8 channel lanes: block 32 wide, warp 16, 4 elements a warp, 4 columns a thread; 6,081.9 / 2 / 32 / 2 = 47.5 rows of
    # a warp; no more rows than columns leaves 4.
    batch = Batch.of([PointwiseConfiguration(block_width_split=2, blocks_per_sm=2, channel_lanes=8)])
    tile = tiles(layer(32, 64, 112), batch, 132)
    extents = (tile.block_width, tile.element_lanes, tile.thread_width, tile.warp_height, tile.block_height)
    assert [int(value[0]) for value in extents] == [32, 4, 4, 4, 8]
    # 256 filters wide, half of it in a block: warp 64 wide, 16 columns. 784 · 256 / 68 / 2 / 128 / 2 = 5.77: 6 rows.
    tile = tiles(layer(256, 256, 28), batch, 68)
    assert planned_registers(tile)[0] == 96 + 6 + 16 + 8 * 128 // 128 + 1 + 20
    assert planned_shared_bytes(tile)[0] == (128 + 12) * 8 * 4 * 2


def test_layouts_swap_the_axes():
    batch = Batch.of(
        [PointwiseConfiguration(layout=kind, channel_lanes=8, block_width_split=2) for kind in (Layout.L1, Layout.L2)]
    )
    tile = tiles(layer(256, 256, 28), batch, 68)
    assert tile.filter_tile.tolist() == [tile.block_width[0], tile.block_height[1]]
    assert tile.position_tile.tolist() == [tile.block_height[0], tile.block_width[1]]
    assert tile.thread_filters.tolist() == [tile.thread_width[0], tile.warp_height[1]]
    assert tile.thread_positions.tolist() == [tile.warp_height[0], tile.thread_width[1]]


@pytest.mark.parametrize("gpu_id", GPUS)
def test_limits_come_from_the_gpu(gpu_id):
    # 65,536 / 256 = 256, capped at 255; 65,536 / 512 = 128; 65,536 / 768 = 85.3, in units of 8: 80
    limit = limits(BLOCKS, load_gpu(gpu_id))
    assert limit.registers_per_thread.tolist() == [255, 128, 80]
    # on sm_80 and newer the driver takes 1 KiB for each block
    shared, reserved = {"rtx-2080-ti": (65_536, 0), "a100-sxm-80gb": (167_936, 1024), "h200": (233_472, 1024)}[gpu_id]
    assert limit.shared_bytes_per_block.tolist() == [shared // blocks - reserved for blocks in BLOCKS.tolist()]


def test_round_trips_are_slabs_those_under_way_together_as_one():
    problem, batch = PointwiseConv2d(in_channels=100), Batch.of([PointwiseConfiguration(channel_lanes=8)])
    for gpu in map(load_gpu, ("rtx-2080-ti", "h200")):
        chosen = candidates(problem, batch, gpu)
        slabs = -(-100 // int(chosen.fetched.slab_channels[0]))
        under_way = int(chosen.stages[0]) - 1
        assert under_way == 1 or chosen.fetched.asynchronous
        assert FAMILY.profile(problem, batch, gpu).global_round_trips.tolist() == [-(-slabs // under_way)]


def test_stages_hold_both_operands_and_vectors_stay_aligned():
    gpu, problem = load_gpu("a100-sxm-80gb"), PointwiseConv2d(in_channels=96, out_channels=72, height=10, width=10)
    chosen = candidates(problem, tile_space(problem).batch(), gpu)
    words = (chosen.tile.block_width + chosen.tile.block_height) * chosen.fetched.slab_channels
    assert (chosen.stages >= 2).all()
    assert (chosen.shared_bytes >= chosen.stages * 4 * words)[chosen.planned].all()
    assert (chosen.shared_bytes % (16 * chosen.stages) == 0)[chosen.planned].all()  # stages of whole 16-byte vectors


def _operand(lanes, groups, columns, fetch, filters, spread, asynchronous):
    channels = min(32, lanes * groups)
    extent = 2 * columns * (32 // lanes if spread else 1)
    words = channels if filters else extent
    side_by_side = lanes if filters else 32 // lanes * int(np.gcd(4, columns))
    fetch = int(np.gcd(fetch, words))
    fetch = min(fetch, side_by_side) if spread else fetch
    vectors = -(-words // fetch)
    return Operand(
        filters=filters,
        channel_lanes=lanes,
        lines=extent if filters else channels,
        words=words,
        read_words=columns,
        read_vector=1 if filters else int(np.gcd(4, columns)),
        spread=spread,
        fetch_vector=fetch,
        store_lanes=min(128, 1 << (vectors - 1).bit_length()),
        asynchronous=asynchronous,
    )


operands = st.builds(
    _operand,
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 16),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def worst_bank(words):
    """Wavefronts of one phase: the largest number of distinct words on a bank."""
    return int(np.bincount(np.unique(words) % 32).max())


def read_phases(operand, pitches, at_once):
    """Wavefronts of each phase of one warp's reads of a group; ``at_once`` phases are served together."""
    lanes, vector = np.arange(32), pitches.accesses.read_vector
    elements = 32 // operand.channel_lanes
    channel, element = lanes // elements, lanes % elements
    phases = []
    for first in range(0, operand.read_words, vector):
        place = first * elements + element * vector if operand.spread else np.full(32, first)
        line, word = (place, channel) if operand.filters else (channel, place)
        at = line * pitches.pitch + line // pitches.pad_every * pitches.pad + word
        phases += [worst_bank(phase[:, None] + np.arange(vector)) for phase in at.reshape(vector // at_once, -1)]
    return phases


@settings(max_examples=40, deadline=None)
@given(operands)
def test_wavefronts_of_reads_are_those_of_the_banks(operand):
    pitches = pitches_of(operand)
    phases = read_phases(operand, pitches, 1)
    conflicts = sum(phases) - len(phases)
    if not operand.spread and operand.channel_lanes < 32 and pitches.accesses.read_vector > 1:
        # neighbouring lanes read the same: two phases are served at once, and only conflicts within either count
        phases = read_phases(operand, pitches, 2)
        conflicts = min(conflicts, sum(phases) - len(phases))
    assert pitches.reads.wavefronts == sum(phases)
    assert pitches.reads.wavefronts - pitches.reads.ideal == conflicts
    assert pitches.pitch >= operand.words  # rows do not overlap
    for vector in (pitches.accesses.read_vector, pitches.accesses.store_vector):
        assert pitches.pitch % vector == pitches.pad % vector == 0  # vectors stay aligned


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows_of_filters_never_have_a_bank_conflict(lanes, groups, asynchronous):
    # lanes read one word of rows side by side, threads store vectors of whole rows: both fill the 32 banks once
    for columns in (1, 2, 3, 4, 6, 8):
        operand = _operand(lanes, 1, columns, 4, True, True, asynchronous)
        operand = replace(operand, words=lanes * groups, store_lanes=lanes * groups // operand.fetch_vector)
        pitches = pitches_of(operand)
        assert pitches.conflicts == 0
        assert pitches.pitch <= operand.words + 32  # and rows are not thrown far apart for it


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "h200"])
def test_few_candidates_have_bank_conflicts(gpu_id):
    gpu, free = load_gpu(gpu_id), []
    for sizes in ((32, 64, 112), (128, 256, 28), (1024, 1024, 7)):
        batch = tile_space(layer(*sizes)).batch()
        rejected = np.any([check.rejected for check in FAMILY.checks(layer(*sizes), batch, gpu)], axis=0)
        free += (FAMILY.profile(layer(*sizes), batch, gpu).counts.shared_bank_conflicts == 0)[~rejected].tolist()
    # only one lane for each output, and on a GPU whose threads store their words one by one
    assert np.mean(free) > (0.9 if gpu_id == "rtx-2080-ti" else 0.999)
