"""Measured launches of public kernels: their files are whole, their facts can be made again, their score is arithmetic."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from campaigns.public_kernels.command import EXECUTED, execute
from campaigns.public_kernels.counted import compared_counts, compared_table, traffic_errors, traffic_table
from campaigns.public_kernels.inputs import made, with_files
from campaigns.public_kernels.measuring import time_step
from campaigns.public_kernels.mechanisms import mechanism_launches, place_launches, stack_launches
from campaigns.public_kernels.preparing import (
    compiled_launch,
    compiled_record,
    executed_record,
    is_measured_code,
    write_flush,
)
from campaigns.public_kernels.record import (
    OWN_REPOSITORY,
    PublicRecord,
    read_public_records,
    write_public_records,
)
from campaigns.public_kernels.scores import Summary, scored
from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.schema import Timing, TimingMethod

DATA = Path(__file__).parents[2] / "validation" / "data" / "launches"
PUBLIC, MECHANISMS = DATA / "h200-public.jsonl.gz", DATA / "h200-mechanisms.jsonl.gz"
UNSEEN, FRESH, DRAWN, NAMED, HUNTED, SIBLINGS, VERDICTS = (
    DATA / f"h200-{name}.jsonl.gz" for name in ("unseen", "fresh", "drawn", "named", "hunted", "siblings", "verdicts")
)
STACKS = DATA / "h200-stacks.jsonl.gz"
PLACES = DATA / "h100-places.jsonl.gz"
WITH_CONTENTION = ("shared_load_wavefronts", "shared_store_wavefronts")
"""Their counters hold wavefronts repeated because of other traffic of L1."""


@pytest.fixture(scope="module", params=[PUBLIC, MECHANISMS], ids=["public", "mechanisms"])
def records(request: pytest.FixtureRequest) -> tuple[PublicRecord, ...]:
    return read_public_records(request.param)


@pytest.mark.parametrize("path", [PUBLIC, MECHANISMS, UNSEEN, FRESH, DRAWN, NAMED], ids=lambda path: path.name)
def test_every_launch_has_a_source_and_a_cold_time(path: Path) -> None:
    for record in read_public_records(path):
        launch = record.launch
        assert len(launch.sha256) == 64, launch.id
        assert record.gpu == "h200", launch.id
        assert launch.repository == OWN_REPOSITORY or len(launch.commit) == 40, launch.id
        cold = record.timing(L2State.COLD)
        assert cold is not None, launch.id
        assert cold.median_s > 0.0, launch.id
        # A kernel that finds its own results would do something else, so it has no time with a warm L2.
        assert (record.timing(L2State.WARM) is None) == launch.restore, launch.id


ISSUED_AGAIN = {
    "odd_even_partition",
    "parted_tiles_alone",
    "parted_tiles_many",
    "digit_scan",
    "digit_counts",
    "alignment_traceback",
}
"""Launches whose warps issue waits for their lanes again, which counting by instructions of the profiler's own does not show."""
MET_AT_A_BARRIER = {"tridiagonal_pcr"}
"""Waits for lanes that an H200 issued for two parts of a warp at once, 6 of 11.6 million instructions; no rule says which."""
LOADS_TURNED_OFF = {"integer_filter_7"}
"""Its loads of constants have predicates: by opcode the profiler counts those too whose lanes are all off, which ask nothing."""


@pytest.mark.parametrize("path", [PUBLIC, UNSEEN, FRESH, DRAWN, NAMED, VERDICTS], ids=lambda path: path.name)
def test_no_launch_that_is_called_exact_is_wrong(path: Path) -> None:
    exact = [one for one in read_public_records(path) if one.counters and one.profile and one.kernel_profile().exact]
    assert len(exact) == {PUBLIC: 118, UNSEEN: 75, FRESH: 36, DRAWN: 26, NAMED: 59, VERDICTS: 24}[path]
    unequal = {one.name: {launch for launch, _ in one.unequal} for one in compared_counts(exact)}
    assert unequal.get("instrumented_warp_instructions", set()) <= ISSUED_AGAIN
    assert unequal.get("instrumented_integer", set()) <= LOADS_TURNED_OFF
    beside = (*WITH_CONTENTION, "warp_instructions", "instrumented_warp_instructions", "instrumented_integer")
    others = set().union(*(launches for name, launches in unequal.items() if name not in beside))
    printing = {one.launch.id for one in exact if "printf" in one.kernel_profile().notes}
    met = MET_AT_A_BARRIER & {one.launch.id for one in exact}
    assert unequal.get("warp_instructions", set()) - printing == met
    assert others <= printing
    own = {launch for name, launches in unequal.items() if name.startswith("instrumented") for launch in launches}
    assert not own & printing  # of the kernel's own instructions none is missing


def test_what_time_races_or_the_hardware_decide_is_not_called_exact() -> None:
    profiles = {one.launch.kernel: one.kernel_profile() for one in read_public_records(VERDICTS) if one.profile}
    loose = {name: profile for name, profile in profiles.items() if name.startswith("loose")}
    # of `loose_active_mask` it is only the lanes of one warp that count themselves, all of which are there
    assert {name for name, profile in loose.items() if profile.exact} == {"loose_active_mask"}
    assert all(profile.notes for name, profile in loose.items() if not profile.exact)
    assert all(profile.exact for name, profile in profiles.items() if name.startswith("fixed"))


def test_of_fresh_launches_only_those_that_races_decide_differ_from_the_counters() -> None:
    counted = [one for one in read_public_records(FRESH) if one.counters]
    assert len(counted) == 44
    loose = {one.launch.id for one in counted if not one.kernel_profile().exact}
    races = {"bfs_simple", "bfs_next_layer", "remove_if_grid"}
    # and those that read what others write without a barrier or nobody writes, and where rounding decides
    others = {"farthest_points", "parboil_prescan", "radix_warp_sort", "heat_shared", "fuzzy_centers"}
    assert loose == races | others
    unequal = [one.unequal for one in compared_counts(counted) if one.name not in WITH_CONTENTION]
    assert {launch for launches in unequal for launch, _ in launches} == races


def test_no_program_is_in_two_sets() -> None:
    paths = (PUBLIC, UNSEEN, FRESH, DRAWN, NAMED, HUNTED)
    sets = [{(one.launch.repository, one.launch.program) for one in read_public_records(path)} for path in paths]
    assert sum(map(len, sets)) == len(set.union(*sets))


DRAWN_ANEW = {"jenkins_hash"}
"""Launches whose random values decide what they execute: buffers have been drawn in another way since they were measured."""


def test_profiles_and_counters_agree_on_what_both_count(records: tuple[PublicRecord, ...]) -> None:
    ratios = [
        record.kernel_profile().counts.warp_instructions / record.counters["smsp__inst_executed.sum"]
        for record in records
        if record.counters and record.profile and record.kernel_profile().exact and record.launch.id not in DRAWN_ANEW
    ]
    assert len(ratios) > 0.5 * len(records)
    assert np.abs(np.array(ratios) - 1.0).max() < 0.005


def test_mechanisms_are_those_that_the_package_lists() -> None:
    listed = {launch.id: launch for launch in mechanism_launches(load_gpu("h200"))}
    measured = {record.launch.id: record.launch for record in read_public_records(MECHANISMS)}
    assert measured == listed


def test_bytes_stored_to_stacks_are_missed_the_first_time_that_they_are_loaded() -> None:
    found = {one.launch.id: one for one in read_public_records(STACKS)}
    assert [one.launch for one in found.values()] == list(stack_launches(load_gpu("h200")))

    def seconds(stored: int, loops: str) -> float:
        timing = found[f"stack_256_B_by_{stored}_and_{stored}_threads_256_x_1_{loops}"].timing(L2State.COLD)
        assert timing is not None
        return timing.median_s

    gpu = load_gpu("h200")
    later_round_s = (seconds(1, "1_1_8") - seconds(1, "1_1_1")) / 7.0
    missed_s = (
        64 * gpu.l2_latency_cycles / gpu.boost_clock_hz
    )  # a warp waits for a line of each word, one after the other
    assert seconds(1, "1_1_1") - later_round_s == pytest.approx(missed_s, rel=0.2)
    hits = found["stack_256_B_by_4_and_4_threads_256_x_1_1_1_8"].kernel_profile().counts
    assert hits.local_load_sectors == 132 * 8 * 8 * 64 * 4  # blocks, warps, rounds, words, sectors
    assert hits.l2_read_sectors == 0.0
    misses = found["stack_256_B_by_1_and_1_threads_256_x_1_1_1_8"].kernel_profile().counts
    assert misses.l2_read_sectors == 132 * 8 * 64 * 4  # once, whatever the rounds


def test_times_need_the_kernel_that_empties_l2(tmp_path: Path) -> None:
    write_public_records(tmp_path / "plan.jsonl", [])
    with pytest.raises(
        InputError, match=r"flush\.cubin is missing, the kernel that empties L2: prepare the folder anew"
    ):
        time_step(tmp_path, tmp_path / "times.jsonl", 1.0)
    write_flush(tmp_path, "h200")
    assert (tmp_path / "flush.cubin").read_bytes().startswith(b"\x7fELF")


HUNTED_REFUSED = {
    "pad_message": "writes past the end of its buffer, which the simulator and an H200 refuse",
    "cavity_stream_collide": "asserts, once another block has overwritten what it reads: a race of the program",
}
"""Launches of the hunted set that have no time."""


def test_hunted_launches_were_looked_for_where_no_other_set_was_taken_from() -> None:
    hunted = read_public_records(HUNTED)
    others = {
        one.launch.repository
        for name in ("public", "unseen", "fresh", "drawn", "named", "chosen", "others")
        for one in read_public_records(DATA / f"h200-{name}.jsonl.gz")
    }
    assert not {one.launch.repository for one in hunted} & others
    assert {one.launch.id for one in hunted if one.timing(L2State.COLD) is None} == set(HUNTED_REFUSED)
    assert len(hunted) == 50


WAITED_BY_FEWER = {"cdf97_rows"}
"""Counted more than an H200 counts: it issues a wait of parted lanes (`WARPSYNC.ALL`) again in fewer cases."""


def test_hunted_launches_that_are_called_exact_equal_the_counters() -> None:
    exact = [one for one in read_public_records(HUNTED) if one.profile and one.kernel_profile().exact]
    unequal = {one.name: {launch for launch, _ in one.unequal} for one in compared_counts(exact)}
    beside = (*WITH_CONTENTION, "instrumented_warp_instructions", "warp_instructions")
    assert unequal["warp_instructions"] == WAITED_BY_FEWER
    assert unequal["instrumented_warp_instructions"] <= WAITED_BY_FEWER | ISSUED_AGAIN
    assert not set().union(*(launches for name, launches in unequal.items() if name not in beside))


SIBLINGS_REFUSED = {
    "conv1d_length_16": "stores past the end of its shared memory, which the simulator and an H200 refuse",
    "ssim3_forward": "copies from before its image, which both refuse",
}
"""Launches of the siblings that have no time."""


def test_siblings_are_other_kernels_of_the_repositories_of_others() -> None:
    siblings, others = read_public_records(SIBLINGS), read_public_records(DATA / "h200-others.jsonl.gz")
    assert {one.launch.repository for one in siblings} == {one.launch.repository for one in others}
    launched = {(one.launch.path, one.launch.kernel, one.launch.args) for one in others}
    assert not {(one.launch.path, one.launch.kernel, one.launch.args) for one in siblings} & launched
    assert {one.launch.id for one in siblings if one.timing(L2State.COLD) is None} == set(SIBLINGS_REFUSED)
    assert {one.launch.id for one in siblings if not one.profile} >= set(SIBLINGS_REFUSED)
    assert len(siblings) == 65


def test_siblings_that_are_called_exact_equal_the_counters() -> None:
    counted = [one for one in read_public_records(SIBLINGS) if one.profile and one.counters]
    exact = [one for one in counted if one.kernel_profile().exact]
    assert len(exact) >= 46
    unequal = {one.name: dict(one.unequal) for one in compared_counts(exact) if one.name not in WITH_CONTENTION}
    (counted_less,) = unequal.pop("instrumented_integer").items()
    assert counted_less == ("conv2d_constant", pytest.approx(0.0, abs=1e-4))
    assert not any(unequal.values())


def test_warps_that_add_floats_to_shared_memory_try_about_as_often_as_on_an_h200() -> None:
    adding = [one for one in read_public_records(SIBLINGS) if one.launch.id.startswith("layernorm_backward")]
    tried = compared_counts([one for one in adding if one.profile and one.counters])
    (loads,) = (one for one in tried if one.name == "shared_load_requests")
    assert {launch for launch, _ in loads.unequal} == {f"layernorm_backward{number}" for number in (2, 3, 5, 7, 8)}
    assert all(-0.08 < error < 0.0 for _, error in loads.unequal)  # other warps spoil some tries there


def test_stored_facts_are_made_again_from_the_source(tmp_path: Path) -> None:
    name = "atomics_global_f64_red_32_stride_1_group_1_blocks_264"
    stored = next(record for record in read_public_records(MECHANISMS) if record.launch.id == name)
    again = executed_record(compiled_record(stored.launch, tmp_path, tmp_path, "h200"), tmp_path, tmp_path, "h200")
    counts = again.kernel_profile().counts
    assert counts.global_reduction_requests == 264 * 8 * 16  # blocks, warps of a block, steps
    assert counts.global_reduction_requests == stored.kernel_profile().counts.global_reduction_requests
    assert counts.warp_instructions == pytest.approx(stored.counters["smsp__inst_executed.sum"], rel=0.01)
    # 32 neighbouring doubles of a warp lie in 8 sectors, one lane on each word
    assert counts.l2_atomic_sectors == 264 * 8 * 16 * 8 == stored.counters["lts__t_sectors_srcunit_tex_op_red.sum"]
    (score,) = scored([replace(again, timings=stored.timings)], scenario_of("h200"), L2State.COLD)
    terms = score.prediction.time.terms
    # all warps add to the same words: they wait for hardly anything else
    queue = float(terms.atomics + terms.fixed_launch_cost)
    assert queue < score.prediction.time.predicted_s < 1.02 * queue


def test_code_is_recognised_whatever_a_host_compiler_calls_internal_symbols(tmp_path: Path) -> None:
    launch = read_public_records(MECHANISMS)[0].launch
    here = compiled_record(launch, tmp_path, tmp_path, "h200")
    compiled, _ = compiled_launch(launch, tmp_path, "h200")
    elsewhere = replace(here, resources=replace(here.resources, cubin_sha256="0" * 64))
    assert here.code_sha256 == compiled.code_digest
    assert is_measured_code(elsewhere, compiled)
    assert is_measured_code(replace(elsewhere, code_sha256=""), compiled)  # a record of before that hash was kept
    assert not is_measured_code(replace(elsewhere, code_sha256="0" * 64), compiled)
    registers = elsewhere.resources.registers_per_thread + 1
    other = replace(elsewhere, resources=replace(elsewhere.resources, registers_per_thread=registers))
    assert not is_measured_code(other, compiled)


def test_a_score_is_the_ratio_of_predicted_to_measured() -> None:
    record = read_public_records(MECHANISMS)[0]
    scenario = scenario_of("h200")
    (first,) = scored([record], scenario, L2State.COLD)
    predicted = first.prediction.time.predicted_s
    times = [predicted, predicted / 3.0]  # exactly predicted, and three times too slow
    timed = [
        replace(record, timings=(Timing(l2=L2State.COLD, method=TimingMethod.EVENTS, samples_s=(seconds,)),))
        for seconds in times
    ]
    scores = scored(timed, scenario, L2State.COLD)
    assert [round(score.ratio, 9) for score in scores] == [1.0, 3.0]
    summary = Summary.of(scores)
    assert (summary.launches, summary.near, summary.within_2x) == (2, 0.5, 0.5)
    assert summary.mean == pytest.approx((0.0 + 2.0) / 2)


def test_records_are_written_as_they_are_read(tmp_path: Path, records: tuple[PublicRecord, ...]) -> None:
    path = tmp_path / "records.jsonl.gz"
    write_public_records(path, records[:3])
    assert read_public_records(path) == records[:3]


def test_arrays_that_launches_name_are_made_alike() -> None:
    rows = made("rows", "100-4-28", np.dtype(np.uint64))
    lengths = np.diff(rows.astype(np.int64))
    assert rows[0] == 0
    assert len(lengths) == 100
    assert set(lengths.tolist()) <= set(range(4, 29))
    boxes = made("boxes", "2-10", np.dtype(np.uint8))
    assert len(boxes) == 8 * 656  # eight boxes of 24 + 8 + 26 · 24 bytes
    pairs = made("pairs", "50-0-3", np.dtype(np.int32)).reshape(-1, 2)
    assert np.array_equal(pairs[1:, 0], np.cumsum(pairs[:-1, 1]))


def test_an_unknown_kind_of_array_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no array of kind 'noise'"):
        with_files("f32[4]=@noise-4.npy", tmp_path)


def test_what_is_read_off_instructions_equals_the_counters_of_the_same_code() -> None:
    compared = {one.name: one for one in compared_counts(read_public_records(DATA / "h200-others.jsonl.gz"))}
    # contention for L1's data pipe is estimated; tries to wait for an mbarrier are counted once
    contended = {"shared_load_wavefronts", "shared_store_wavefronts"}
    tries = {"instrumented_warp_instructions", "instrumented_barriers"}
    for name in compared.keys() - contended:
        expected = {"sgemm_12_asyncbarrier_2048"} if name in tries else set()
        assert {launch for launch, _ in compared[name].unequal} == expected, name
    assert compared["warp_instructions"].equal == compared["warp_instructions"].launches == 51
    assert compared["instrumented_integer"].launches == 51


def test_a_table_of_counts_names_what_is_not_equal(records: tuple[PublicRecord, ...]) -> None:
    record = next(one for one in records if one.profile and one.counters)
    executed = float(record.kernel_profile().counts.warp_instructions)
    changed = replace(record, counters={"smsp__inst_executed.sum": executed * 2.0})
    (found,) = compared_counts([changed])
    assert (found.launches, found.equal, found.close, found.unequal) == (1, 0, 0, ((record.launch.id, -0.5),))
    assert f"| warp_instructions | 1 | 0 | 0 | {record.launch.id} -0.5 |" in compared_table([found])


def test_answers_of_atomics_are_no_misses_of_l1(records: tuple[PublicRecord, ...]) -> None:
    counts = next(one for one in records if one.profile).kernel_profile().counts
    sent, atomics = "l1tex__m_xbar2l1tex_read_sectors.sum", "lts__t_sectors_srcunit_tex_op_atom.sum"
    twice = 2.0 * float(counts.l1_missed_sectors)
    assert traffic_errors(counts, {sent: twice}) == {"l1_missed_sectors": -0.5}
    assert traffic_errors(counts, {sent: twice, atomics: 0.0}) == {"l1_missed_sectors": -0.5}
    assert traffic_errors(counts, {sent: twice, atomics: 1.0}) == {}


def test_few_bytes_written_to_dram_have_no_relative_error(records: tuple[PublicRecord, ...]) -> None:
    counts = next(one for one in records if one.profile).kernel_profile().counts
    assert traffic_errors(counts, {"dram__bytes_write.sum": 3.9e6}) == {}
    assert "dram_write_bytes" in traffic_errors(counts, {"dram__bytes_write.sum": 4e6})


def test_a_table_of_traffic_has_a_row_for_each_set() -> None:
    rows = traffic_table({"a": [{"dram_read_bytes": 0.1}, {"dram_read_bytes": -0.3}], "b": []}).splitlines()
    assert rows[2:] == ["| a |  |  |  | 50 % of 2, 20.0 % |  |", "| b |  |  |  |  |  |"]


def test_what_was_executed_before_an_end_is_not_executed_again(tmp_path: Path) -> None:
    whole, other = [one for one in read_public_records(NAMED) if one.profile][:2]
    bare = replace(whole, profile={}, traces=b"")
    records, folder = tmp_path / "records.jsonl", tmp_path / "folder"
    write_public_records(records, [bare, other])
    folder.mkdir()
    write_public_records(folder / EXECUTED, [whole])
    execute(records, sources=tmp_path, folder=folder, only=whole.launch.id)  # there are no sources to execute it from
    assert read_public_records(records) == (whole, other)
    assert not (folder / EXECUTED).exists()


def test_jumps_in_the_code_and_lines_that_all_read_are_those_of_the_list() -> None:
    found = {one.launch.id: one for one in read_public_records(PLACES)}
    assert [one.launch for one in found.values()] == list(place_launches(load_gpu("h200")))
    assert all(one.gpu == "h100-sxm-80gb" and one.counters for one in found.values())
