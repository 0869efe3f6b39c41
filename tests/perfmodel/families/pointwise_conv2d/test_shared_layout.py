"""Pitches against banks counted address by address."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.candidates import candidates
from perfmodel.families.pointwise_conv2d.report import layer_report
from perfmodel.families.pointwise_conv2d.selection import Rule
from perfmodel.families.pointwise_conv2d.shared_lanes import Operand, lanes_of_stores
from perfmodel.families.pointwise_conv2d.shared_layout import pitches, read_wavefronts, store_accesses
from perfmodel.families.pointwise_conv2d.spaces import source_tuples
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.bank_conflicts import load_wavefronts, store_wavefronts


def worst_bank(words):
    """Wavefronts of one phase: the largest number of distinct words on a bank."""
    words = np.unique(words)
    return int(np.bincount(words % 32).max())


def read_phases(operand, found, at_once):
    """Words of each phase of one warp's reads of a group; ``at_once`` phases are served together."""
    lanes, vector = np.arange(32), found.accesses.read_vector
    elements = 32 // operand.channel_lanes
    channel, element = lanes // elements, lanes % elements
    for first in range(0, operand.read_words, vector):
        place = first * elements + element * vector if operand.spread else np.full(32, first)
        line, word = (place, channel) if operand.filters else (channel, place)
        at = line * found.pitch + line // found.pad_every * found.pad + word
        for phase in at.reshape(vector // at_once, -1):
            yield (phase[:, None] + np.arange(vector)).reshape(-1)


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


@settings(max_examples=40, deadline=None)
@given(operands)
def test_wavefronts_of_reads_are_those_of_the_banks(operand):
    found = pitches(operand)
    phases = [worst_bank(words) for words in read_phases(operand, found, 1)]
    conflicts = sum(phases) - len(phases)
    if not operand.spread and operand.channel_lanes < 32 and found.accesses.read_vector > 1:
        # neighbouring lanes read the same: two phases are served at once, and only conflicts within either count
        phases = [worst_bank(words) for words in read_phases(operand, found, 2)]
        conflicts = min(conflicts, sum(phases) - len(phases))
    assert found.read_wavefronts == sum(phases)
    assert found.read_conflicts == conflicts
    assert found.pitch >= operand.words  # rows do not overlap
    for vector in (found.accesses.read_vector, found.accesses.store_vector):
        assert found.pitch % vector == found.pad % vector == 0  # vectors stay aligned


@pytest.mark.parametrize("lanes", [2, 4, 8, 16, 32])
@pytest.mark.parametrize("groups", [1, 2, 4, 8])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_rows_of_filters_never_meet_a_bank_conflict(lanes, groups, asynchronous):
    # lanes read one word of rows side by side, threads store vectors of whole rows: both fill the 32 banks once
    for columns in (1, 2, 3, 4, 6, 8):
        operand = _operand(lanes, 1, columns, 4, True, True, asynchronous)
        operand = replace(operand, words=lanes * groups, store_lanes=lanes * groups // operand.fetch_vector)
        found = pitches(operand)
        assert (found.read_conflicts, found.store_conflicts) == (0, 0)
        assert found.pitch <= operand.words + 32  # and rows are not thrown far apart for it


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "h200"])
def test_what_the_source_chooses_meets_no_bank_conflict_and_few_others_do(gpu_id):
    gpu, free = load_gpu(gpu_id), []
    for in_channels, out_channels, size in [(32, 64, 112), (128, 256, 28), (1024, 1024, 7)]:
        problem = PointwiseConv2d(in_channels=in_channels, out_channels=out_channels, height=size, width=size)
        conflicts = FAMILY.work(problem, source_tuples(), gpu).counts.shared_bank_conflicts
        report = layer_report(problem, source_tuples(), gpu)
        assert conflicts[report.chosen[Rule.INTENSITY]] == 0
        free += [conflicts[index] == 0 for index, entry in enumerate(report.tuples) if entry.rejection is None]
    # only one lane for each output, and on a GPU whose threads store their words one by one
    assert np.mean(free) > (0.9 if gpu_id == "rtx-2080-ti" else 0.999)


def test_stages_hold_both_operands_and_vectors_stay_aligned():
    gpu = load_gpu("a100-sxm-80gb")
    problem = PointwiseConv2d(in_channels=96, out_channels=72, height=10, width=10)
    for batch in FAMILY.space(problem, gpu).chunks():
        found = candidates(problem, batch, gpu)
        words = (found.tile.block_width + found.tile.block_height) * found.fetched.slab_channels
        assert (found.stages >= 2).all()
        assert (found.shared_bytes >= found.stages * 4 * words)[found.planned].all()
        assert (found.shared_bytes % (16 * found.stages) == 0)[found.planned].all()  # stages of whole 16-byte vectors
        launch = FAMILY.launch(problem, batch, gpu)
        assert (launch.dynamic_shared_bytes == found.shared_bytes).all()


@settings(max_examples=40, deadline=None)
@given(operands, st.integers(1, 64))
def test_tails_follow_the_simulators_rules_for_loads_and_for_stores(operand, channels):
    """A group, or a slab, of which only the first channels exist, told from the addresses of the lanes that exist."""
    found, lanes = pitches(operand), np.arange(32)

    def address(line, word):
        return 4 * (word + line * found.pitch + line // found.pad_every * found.pad).astype(np.uint64)

    vector = found.accesses.read_vector
    elements = 32 // operand.channel_lanes
    there = lanes // elements < channels
    total = ideal = 0
    for first in range(0, operand.read_words, vector):
        place = first * elements + lanes % elements * vector if operand.spread else np.full(32, first)
        line, word = (place, lanes // elements) if operand.filters else (lanes // elements, place)
        served = load_wavefronts(address(line, word)[None], there[None], 4 * vector)
        total, ideal = total + int(served[0][0]), ideal + int(served[1][0])
    assert read_wavefronts(operand, found, channels) == (total, ideal)

    line, word, active = lanes_of_stores(operand, found.accesses)
    there = active & ((word if operand.filters else line) < channels)
    width = 4 * found.accesses.store_vector
    rows = [row for row in range(len(there)) if there[row].any()]
    one_by_one = [store_wavefronts(address(line[r], word[r])[None], there[r][None], width)[0][0] for r in rows]
    assert store_accesses(operand, found, channels) == (len(rows), sum(one_by_one))
