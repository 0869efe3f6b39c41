"""The model of one SM, by programs of a few instructions whose cycles can be worked out by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.machine_code.issue_table import Pipe, Wait
from perfmodel.profiles.load_streams import CUT
from perfmodel.time_model.sm_model import sm_model
from perfmodel.time_model.sm_records import Code, Machine, Paths, Run, Stall
from perfmodel.time_model.sm_run import simulate_sm

QUIET = Machine(
    schedulers=4,
    sms_per_tpc=1,
    warp_places=10**6,
    split_fma=True,
    l1_latency=30.0,
    shared_latency=20.0,
    l2_latency=200.0,
    dram_latency=500.0,
    l2_loaded_latency=0.0,
    dram_loaded_latency=0.0,
    dram_latency_spread=0.0,
    fill_cycles=0.0,
    miss_cycles=0.0,
    l2_bytes_per_cycle=64.0,
    l2_share=64.0,
    dram_bytes_per_cycle=16.0,
    dram_share=0.0,
    dram_scattered_cost=1.0,
    first_missed=1.0,
    first_far=0.0,
    first_joint=0.0,
    common_missed=0.0,
    common_far=0.0,
    common_joint=0.0,
    drift=0.0,
    data_queue=1000,
    loads_in_flight=1000,
    write_queue_cycles=1e9,
    operand_cycles=8.0,
    operand_queue_cycles=1.0,
    barrier_cycles=10.0,
    arrival_cycles=0.0,
    branch_cycles=0.0,
    block_start_cycles=0.0,
    first_cycles=0.0,
    dispatch_cycles=0.0,
    l0_lines=1000,
    fetch_cycles=0.0,
    fetch_latency=0.0,
    sm_lines=1000,
    line_fetch_cycles=0.0,
    jump_fetch_cycles=0.0,
    l1_lines=1000,
    far_fetch_cycles=0.0,
    code_lines=100,
    prefetched_lines=1,
    constant_sets=2,
    constant_ways=2,
    constant_line_cycles=10.0,
    constant_operand_line_cycles=20.0,
    constant_latency=50.0,
    constant_far_latency=100.0,
    cluster_barrier_cycles=60.0,
    phase_latency=30.0,
    bulk_bytes_per_cycle=64.0,
    bulk_first_cycles=0.0,
    bulk_port_bytes_per_cycle=64.0,
    bulk_asked=1.0,
    copies_asked=1.0,
    store_bytes_per_cycle=32.0,
    bulk_written=0.0,
    product_latency=50.0,
)
NONE = 7


@dataclass(frozen=True, kw_only=True)
class Step:
    """One instruction of a program."""

    pipe: Pipe = Pipe.NONE
    wait: Wait = Wait.FIXED
    stall: float = 1.0
    sets: int = NONE
    needs: int = 0
    issue: float = 1.0
    reads: tuple[int, int] = (0, 0)
    """Registers of the even bank and of the odd one."""
    lost: tuple[int, int] | None = None
    """Those where another warp has been issued among the last ``kept_for`` instructions; the same where None."""
    kept_for: int = 0
    occupies: float = 2.0
    data: float = 1.0
    misses: float = 0.0
    behind: float = 0.0
    atomic: float = 0.0
    lines_per_byte: float = 0.0
    far: float = 0.0
    write: float = 0.0
    written: float = 0.0
    constant: int = -1
    walk: int = -1
    left: int = 0
    past_l1: float = 0.0
    """Bytes that come past L1."""


def code_of(program: list[Step]) -> Code:
    """The program as arrays."""
    count = len(program)

    def column(name: str, kind: type = np.float64) -> Any:
        return np.array([getattr(step, name) for step in program], kind)

    return Code(
        pipe=column("pipe", np.int64),
        wait=column("wait", np.int64),
        stall_cycles=column("stall"),
        write_barrier=column("sets", np.int64),
        read_barrier=np.full(count, NONE),
        wait_mask=column("needs", np.int64),
        groups_left=column("left", np.int64),
        issue_cycles=column("issue"),
        bank_reads=np.array([[step.reads, step.lost or step.reads] for step in program], np.float64),
        kept_for=column("kept_for", np.int64),
        pipe_cycles=column("occupies"),
        latency=np.zeros(count),
        data_cycles=column("data"),
        miss_chance=column("misses"),
        missed_bytes=column("behind"),
        atomic_cycles=column("atomic"),
        lines_per_byte=column("lines_per_byte"),
        far_chance=column("far"),
        write_cycles=column("write"),
        written_bytes=column("written"),
        constant_line=column("constant", np.int64),
        constant_walk=column("walk", np.int64),
        past_l1_bytes=column("past_l1"),
    )


NO_LOADS: dict[str, Any] = dict.fromkeys(
    (
        "request_instruction",
        "request_group",
        "request_offsets",
        "group_sectors",
        "group_fresh",
        "group_common",
        "group_offsets",
    ),
    np.zeros(0, np.int64),
)
"""Loads go behind L1 by chance."""
NO_EVENTS: dict[str, Any] = dict.fromkeys(
    (
        "event_instruction",
        "event_phase",
        "event_sectors",
        "event_fresh",
        "event_common",
        "event_offsets",
        "phase_ends",
        "phase_offsets",
    ),
    np.zeros(0, np.int64),
)
"""Nobody meets at an ``mbarrier``, and nothing is copied in bulk."""
CONSTANTS: dict[str, Any] = {
    "walk_lines": np.array([0, 2, 4]),
    "walk_offsets": np.array([0, 3]),
    "walks": 1,
    "constant_far": np.zeros(6, np.int64),
    "constant_set": np.arange(6) % 2,
}
"""Six lines of constants in two sets, which come from L2 together; a walk over those of the first set."""


def run(
    program: list[Step],
    *,
    warps: int = 1,
    resident: int = 1,
    blocks: int = 1,
    loops: int = 1,
    loads: Any = NO_LOADS,
    budget: int = 10**7,
    events: Any = NO_EVENTS,
    **machine: Any,
) -> Run:
    """Run a program on all warps of some blocks, ``loops`` times over; ``loads`` and ``events`` are the streams of `Paths`."""
    count = len(program)
    first = np.zeros(warps * loops, np.int64)
    paths = Paths(
        first, np.full(warps * loops, count), np.arange(warps + 1) * loops, warps, 1, **loads, **events, **CONSTANTS
    )
    found: Run = simulate_sm(code_of(program), paths, QUIET._replace(**machine), resident, blocks, budget)
    return found


def test_a_lone_warp_issues_as_its_control_bits_say() -> None:
    assert run([Step(pipe=Pipe.FMA, stall=4)], loops=100).finished[-1] == 100 * 4


@pytest.mark.parametrize(("split", "cycles"), [(True, 1.0), (False, 2.0)])
def test_fp32_pipes_take_a_warp_each_cycle_where_they_have_two_halves(split: bool, cycles: float) -> None:
    found = run([Step(pipe=Pipe.FMA, stall=2)], warps=16, loops=1000, split_fma=split)
    assert found.cycles == pytest.approx(1000 * 16 / 4 * cycles, rel=0.01)  # four schedulers


def test_integer_multiplies_have_one_half_of_the_pipe() -> None:
    found = run([Step(pipe=Pipe.FMA_HEAVY)], warps=16, loops=1000)
    assert found.cycles == pytest.approx(1000 * 16 / 4 * 2, rel=0.01)


def test_a_third_register_of_a_bank_holds_the_issue_slot_of_narrow_pipes() -> None:
    found = run([Step(pipe=Pipe.FMA, issue=2.0)], warps=16, loops=1000)
    assert found.cycles == pytest.approx(1000 * 16 / 4 * 2, rel=0.01)


@pytest.mark.parametrize(
    ("reads", "cycles"),
    [
        ([(1, 1)], 1.02),
        ([(2, 0)], 2.01),
        ([(2, 1)], 2.01),
        ([(3, 0)], 3.01),
        ([(2, 0), (0, 2)], 1.02),
        ([(2, 1), (1, 2)], 1.51),
        ([(2, 1)] * 4 + [(1, 2)] * 4, 1.76),
        ([(2, 0), (1, 0)], 1.51),
        ([(2, 0), (0, 1)], 1.02),
        ([(3, 0), (0, 1), (0, 1), (0, 1)], 1.02),
    ],
)
def test_banks_of_registers_give_one_a_cycle_as_an_h200_was_seen_to_do(
    reads: list[tuple[int, int]], cycles: float
) -> None:
    """Cycles of each instruction, measured: docs/notes/2026-11-registers.md."""
    program = [Step(pipe=Pipe.FMA, reads=one) for one in reads]
    found = run(program, warps=8, loops=500, split_fma=True)
    assert found.cycles == pytest.approx(500 * 2 * len(reads) * cycles, rel=0.03)


@pytest.mark.parametrize(("kept_for", "cycles"), [(1, 2.02), (10**6, 3.01)])
def test_operands_are_kept_until_another_warp_is_issued(kept_for: int, cycles: float) -> None:
    """Three registers of a bank of which one is kept, for an instruction or for more than a warp has in a row: the same notes."""
    program = [Step(pipe=Pipe.FMA, reads=(2, 0), lost=(3, 0), kept_for=kept_for)]
    found = run(program, warps=8, loops=500, split_fma=True)
    assert found.cycles == pytest.approx(500 * 2 * cycles, rel=0.03)


@pytest.mark.parametrize(
    ("steps", "cycles"),
    [
        ([(Pipe.ALU, (3, 0))], 3.01),
        ([(Pipe.FMA, (1, 1)), (Pipe.ALU, (1, 1))], 1.02),
        ([(Pipe.FMA, (1, 1)), (Pipe.ALU, (2, 1))], 1.51),
        ([(Pipe.FMA, (1, 1)), (Pipe.ALU, (3, 0))], 2.01),
        ([(Pipe.FMA, (3, 0)), (Pipe.ALU, (0, 1))], 1.51),
        ([(Pipe.FMA, (1, 1)), (Pipe.FMA_HEAVY, (3, 0))], 2.01),
        ([(Pipe.ALU, (3, 0)), (Pipe.FMA_HEAVY, (3, 0))], 3.01),
    ],
)
def test_integers_read_the_banks_that_fp32_reads(steps: list[tuple[Pipe, tuple[int, int]]], cycles: float) -> None:
    """Cycles of each instruction, measured: docs/notes/2026-11-registers.md."""
    program = [Step(pipe=pipe, reads=reads) for pipe, reads in steps]
    found = run(program, warps=8, loops=500, split_fma=True)
    assert found.cycles == pytest.approx(500 * 2 * len(steps) * cycles, rel=0.03)


def test_a_branch_takes_more_than_a_slot_as_an_h200_was_seen_to_do() -> None:
    """A branch and three FFMA of enough warps for a scheduler, 4.73 cycles: docs/notes/2026-11-registers.md."""
    branch = Step(wait=Wait.BRANCH, stall=5, issue=sm_model().branch_issue_cycles)
    program = [branch, *[Step(pipe=Pipe.FMA, reads=(1, 1))] * 3]
    found = run(program, warps=12, loops=200, split_fma=True, branch_cycles=sm_model().branch_cycles)
    assert found.cycles == pytest.approx(200 * 3 * 4.73, rel=0.03)


def test_bank_conflicts_hold_the_data_pipe_of_all_schedulers() -> None:
    found = run([Step(wait=Wait.SHARED, data=32.0)], warps=16, loops=100, data_queue=8)
    assert found.cycles == pytest.approx(100 * 16 * 32, rel=0.01)
    assert found.stalls[Stall.THROTTLE] == pytest.approx(found.stalls.sum(), rel=0.05)


@pytest.mark.parametrize(("misses", "latency"), [(0.0, 30.0), (1.0, 200.0)])
def test_a_use_waits_for_the_memory_that_answers(misses: float, latency: float) -> None:
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=misses, behind=32.0)
    found = run([load, Step(needs=1)], loops=10)
    each = 1 + latency + 1 + (0.5 if misses else -1.0)  # a cycle of the data pipe, and half a cycle for 32 bytes of 64
    assert found.finished[-1] == pytest.approx(10 * each, rel=0.05)
    assert found.stalls[Stall.LONG_SCOREBOARD] > 0.8 * found.finished[-1]


def test_many_warps_hide_what_one_waits_for() -> None:
    program = [Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=32.0), Step(needs=1)]
    alone, many = (run(program, warps=warps, loops=20).finished[-1] for warps in (1, 32))
    assert many < 1.3 * alone


def test_dram_gives_its_bytes_and_no_more() -> None:
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=512.0, far=1.0)
    found = run([load, Step(needs=1)], warps=32, loops=200, dram_share=1.0)
    assert found.cycles == pytest.approx(32 * 200 * 512 / 16, rel=0.05)


@pytest.mark.parametrize(
    ("machine", "cycles"),
    [
        ({"miss_cycles": 2.0}, 32 * 2.0),  # asked for one after the other
        ({"fill_cycles": 0.5}, 1 + 32 * 0.5),  # the data pipe takes the request and each line that comes
        ({"miss_cycles": 0.1}, 32 * 32 / 64),  # no faster than their bytes
    ],
)
def test_lines_that_l1_lacks_come_one_after_the_other(machine: dict[str, float], cycles: float) -> None:
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=32.0 * 32, lines_per_byte=1 / 32)
    found = run([load, Step(needs=1)], warps=32, loops=50, **machine)
    assert found.cycles == pytest.approx(32 * 50 * cycles, rel=0.05)


def test_a_busy_memory_answers_later() -> None:
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=256.0)
    quiet, loaded = (run([load, Step(needs=1)], warps=32, loops=50, l2_loaded_latency=more) for more in (0.0, 1.0))
    busy = 32 * 256 / 64 / 200  # bytes of all warps in the latency, over what L2 gives in it
    assert quiet.cycles == pytest.approx(50 * 200, rel=0.05)
    assert 1 + 0.3 * busy**2 < loaded.cycles / quiet.cycles < 1 + busy**2


def test_a_warp_that_waits_for_several_lines_of_dram_waits_for_the_last_one() -> None:
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=32.0, far=1.0)
    for loads in (1, 2, 8):
        found = run([load] * loads + [Step(needs=1)], loops=4000, dram_latency_spread=0.1)
        assert found.cycles == pytest.approx(4000 * 500 * (1 + 0.1 * np.log(loads)), rel=0.02)


@pytest.mark.parametrize(("sectors", "places"), [(1, 32), (4, 1)])  # whole lines are neighbours
def test_a_load_of_sectors_of_many_lines_waits_for_the_last_one(sectors: int, places: int) -> None:
    size = 32.0 * 32 * sectors
    load = Step(wait=Wait.GLOBAL_LOAD, sets=0, misses=1.0, behind=size, far=1.0, lines_per_byte=32 / size)
    found = run([load, Step(needs=1)], loops=4000, dram_latency_spread=0.1, dram_share=1.0, dram_bytes_per_cycle=1e9)
    assert found.cycles == pytest.approx(4000 * (500 * (1 + 0.1 * np.log(places)) + size / 64), rel=0.02)


def test_a_barrier_opens_when_the_last_warp_is_there() -> None:
    slow, barrier = Step(stall=100), Step(wait=Wait.BARRIER)
    assert run([slow, barrier, Step()], warps=4).finished[-1] == pytest.approx(100 + 10 + 1, abs=2)


def test_warps_arrive_at_a_barrier_one_after_the_other() -> None:
    together, last = [Step(wait=Wait.BARRIER), Step()], [Step(stall=100), Step(wait=Wait.BARRIER), Step()]
    found = run(together, warps=32, loops=10, arrival_cycles=2.0)
    assert found.finished[-1] == pytest.approx(10 * (32 * 2 + 10), rel=0.05)
    alone = run(last, warps=1, loops=10, arrival_cycles=2.0)
    assert alone.finished[-1] == pytest.approx(10 * (100 + 2 + 10), rel=0.05)  # the others were there long before


def test_blocks_follow_one_another_where_they_do_not_fit_together() -> None:
    program = [Step(stall=50)]
    together, apart = (run(program, loops=10, resident=resident, blocks=8) for resident in (8, 1))
    assert together.finished[-1] == pytest.approx(500, abs=10)
    assert apart.finished[-1] == pytest.approx(8 * 500, abs=10)


def test_blocks_start_no_faster_than_they_are_launched() -> None:
    found = run([Step()], resident=4, blocks=100, dispatch_cycles=300.0)
    assert found.finished[-1] == pytest.approx(99 * 300, rel=0.01)


def test_code_beyond_the_schedulers_cache_is_fetched_again() -> None:
    program = [Step() for _ in range(800)]  # a hundred lines of eight instructions
    held, missed = (run(program, loops=20, l0_lines=lines, fetch_cycles=16.0).cycles for lines in (100, 50))
    assert held == pytest.approx(20 * 800, rel=0.1)
    assert missed == pytest.approx(20 * 100 * 16, rel=0.1)


def test_code_beyond_the_cache_of_an_sm_comes_line_by_line() -> None:
    program = [Step() for _ in range(800)]
    caches = {"l0_lines": 8, "line_fetch_cycles": 18.0}
    held, missed = (run(program, loops=20, sm_lines=lines, **caches).cycles for lines in (100, 50))
    assert held == pytest.approx(20 * 800, rel=0.1)
    assert missed == pytest.approx(20 * 100 * 18, rel=0.1)


def test_a_line_that_a_warp_jumps_to_comes_later_than_the_one_behind() -> None:
    program = [
        Step() for _ in range(16)
    ]  # two lines, of which a scheduler keeps one: the end of a loop is a jump to the first
    caches = {"l0_lines": 1, "sm_lines": 1, "code_lines": 2, "prefetched_lines": 0, "line_fetch_cycles": 10.0}
    ordered, jumping = (run(program, loops=50, jump_fetch_cycles=cycles, **caches).cycles for cycles in (0.0, 100.0))
    assert ordered == pytest.approx(50 * 2 * (8 + 9), rel=0.1)  # nine cycles later than the next instruction otherwise
    assert jumping - ordered == pytest.approx(49 * 100, rel=0.1)


def test_what_is_left_says_how_far_each_warp_has_come() -> None:
    whole = run([Step(stall=4)], loops=100, warps=2)
    cut = run([Step(stall=4)], loops=100, warps=2, budget=60)
    assert whole.left.tolist() == [[0, 0]]
    assert cut.left.sum() == 200 - 60
    assert cut.left.shape == cut.homes.shape == (1, 2)
    assert cut.begun == 1
    assert cut.warp_cycles() == pytest.approx(4.0, rel=0.1)


def uneven_blocks(lengths: list[int], working: int, warps: int, leaving: int = 1) -> Paths:
    """Blocks of which the first warps issue so many instructions, and the others some to leave."""
    each = np.array([[length] * working + [leaving] * (warps - working) for length in lengths]).ravel()
    return Paths(
        np.zeros(each.sum(), np.int64),
        np.ones(each.sum(), np.int64),
        np.append(0, np.cumsum(each)),
        warps,
        len(lengths),
        **NO_LOADS,
        **NO_EVENTS,
        **CONSTANTS,
    )


@pytest.mark.parametrize(("apart", "least", "most"), [(0.0, 4, 4), (20.0, 12, 17)])
def test_places_of_ended_warps_go_to_further_blocks_when_a_block_ends(apart: float, least: int, most: int) -> None:
    """One warp of eight works, for 1,000 cycles, and there are places for 32.

    Blocks that begin together end together: the first to end leaves places for three blocks, and the next ones none that these
    have not taken. Where blocks begin one after the other, one that ends leaves places for two or more as long as 16 others live
    or fewer (32 - 16 = 2 * 8), so that up to 17 share the SM.
    """
    paths = uneven_blocks([50], 1, 8)
    code, machine = code_of([Step(stall=20)]), QUIET._replace(dispatch_cycles=apart, warp_places=32)
    alone, shared = (simulate_sm(code, paths, machine, 4, 1024, 10**7, held) for held in (4, 32))
    assert alone.finished[-1] == pytest.approx(1024 / 4 * 1000, rel=0.1)
    assert 1024 / most * 1000 <= shared.finished[-1] * 1.01
    assert shared.finished[-1] <= 1.25 * 1024 / least * 1000


def test_registers_of_ended_warps_go_to_a_block_that_fits_on_each_scheduler() -> None:
    """Warps 0, 1, 4 and 5 of eight work: two schedulers keep all of their four places, and no third block begins."""
    lengths = [50, 50, 1, 1] * 2
    paths = uneven_blocks([50], 1, 8)._replace(
        first=np.zeros(sum(lengths), np.int64),
        length=np.ones(sum(lengths), np.int64),
        offsets=np.append(0, np.cumsum(lengths)),
    )
    machine = QUIET._replace(warp_places=16, dispatch_cycles=20.0)
    found = simulate_sm(code_of([Step(stall=20)]), paths, machine, 2, 64, 10**7, 4)
    assert found.finished[-1] >= 64 / 3 * 1000


RECORD = Path(__file__).parents[3] / "validation" / "data" / "h200-block-places.json.gz"


def recorded_launches() -> list[dict[str, Any]]:
    """Launches on an H200 whose blocks say when they began and ended, on the two SMs of a TPC."""
    launches: list[dict[str, Any]] = json.loads(gzip.decompress(RECORD.read_bytes()))["launches"]
    return launches


def average_blocks(blocks: list[list[int]]) -> float:
    """Blocks that share an SM, from begin and end of each."""
    begins, ends = np.array(blocks).T
    return float((ends - begins).sum() / ends.max())


def test_blocks_begin_when_a_block_of_the_tpc_ends_as_on_an_h200() -> None:
    """Behind the first ones, each begins within 1,000 cycles of an end on one of the two SMs, and many where none ended here."""
    behind_own, others = 0, 0
    for launch in recorded_launches():
        for number, blocks in enumerate(launch["blocks"]):
            own, both = (np.array([end for sm in sms for _, end in sm]) for sms in ([blocks], launch["blocks"]))
            for begin, _ in blocks:
                if begin > 1000:
                    assert (abs(begin - 500 - both) <= 500).any(), (number, launch)
                    here = bool((abs(begin - 500 - own) <= 500).any())
                    behind_own, others = behind_own + here, others + (not here)
    assert others > 0.3 * behind_own


@pytest.mark.parametrize(
    "index",
    [
        index
        for index, one in enumerate(recorded_launches())
        if one["threads_per_block"] == 1024 or one["working_warps"] == 4
    ],
)
def test_as_many_blocks_share_an_sm_as_on_an_h200(index: int) -> None:
    """Within 30 %, in step or not; of one warp in 256 and 512 threads an H200 holds fewer than have room (docs/notes)."""
    launch = recorded_launches()[index]
    warps, working = launch["threads_per_block"] // 32, launch["working_warps"]
    registers = -(-launch["registers_per_thread"] // 8) * 8
    machine = QUIET._replace(
        warp_places=min(64, 16384 // (32 * registers) * 4), sms_per_tpc=2, dispatch_cycles=3.0 * warps
    )
    blocks = launch["blocks"][0]
    lengths = [round((end - begin) / 20) for begin, end in blocks]
    found = simulate_sm(
        code_of([Step(stall=20)]),
        uneven_blocks(lengths, working, warps, leaving=20),
        machine,
        launch["blocks_per_sm"],
        len(blocks),
        10**7,
        32,
    )
    assert sum(lengths) * 20 / found.finished[-1] == pytest.approx(average_blocks(blocks), rel=0.3)


def test_warps_without_instructions_end_the_run() -> None:
    empty = Paths(
        np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(3, np.int64), 2, 1, **NO_LOADS, **NO_EVENTS, **CONSTANTS
    )
    assert simulate_sm(code_of([Step()]), empty, QUIET, 1, 4, 100).issued == 0


def loads_of(groups: list[list[int]], sectors: int) -> dict[str, Any]:
    """Streams of one block whose warps touch these groups by instruction 0, each of so many sectors."""
    count = 1 + max(group for warp in groups for group in warp)
    flat = np.array([group for warp in groups for group in warp], np.int64)
    return {
        "request_instruction": np.where(flat < 0, CUT, 0),
        "request_group": flat,
        "request_offsets": np.cumsum([0, *map(len, groups)]),
        "group_sectors": np.full(count, sectors),
        "group_fresh": np.ones(count, np.int64),
        "group_common": np.zeros(count, np.int64),
        "group_offsets": np.array([0, count]),
    }


def test_warps_that_touch_the_same_sectors_need_them_once() -> None:
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1)]
    own = [[8 * warp + step for step in range(8)] for warp in range(32)]
    same = [list(range(8)) for _ in range(32)]
    apart, together = (run(load, warps=32, loops=8, loads=loads_of(groups, 64)) for groups in (own, same))
    each = 64 * 32 / 64  # cycles of 64 sectors at 64 bytes a cycle
    assert apart.finished[-1] == pytest.approx(32 * 8 * each, rel=0.1)
    assert together.finished[-1] == pytest.approx(8 * (200 + each), rel=0.1)  # all wait for whoever came first


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_copies_run_ahead_by_the_groups_that_a_wait_leaves(left: int) -> None:
    """A copy comes after 200 cycles of L2 and 32 of its bytes; each turn has 100 cycles of its own beside three issues."""
    copy, group = Step(wait=Wait.ASYNC_COPY), Step(wait=Wait.COPY_GROUP)
    steps = [copy, group, Step(wait=Wait.COPY_WAIT, left=left), Step(stall=100)]
    found = run(steps, loops=80, loads=loads_of([list(range(80))], 64))
    assert found.finished[-1] / 80 == pytest.approx(max(103, (232 + 101) / (left + 1)), rel=0.04)


@pytest.mark.parametrize(("sent", "asked"), [(2048.0, 1.0), (4096.0, 1.0), (4096.0, 0.5)])
def test_copies_past_l1_always_bring_what_l2_sends(sent: float, asked: float) -> None:
    """Also of a group that has come; L2 is asked for a part of it where its answers serve other SMs, too."""
    copy = Step(wait=Wait.ASYNC_COPY, past_l1=sent, behind=sent, misses=1.0)
    found = run(
        [copy, Step(wait=Wait.COPY_GROUP), Step(wait=Wait.COPY_WAIT)],
        loops=10,
        loads=loads_of([[0] * 10], 64),
        first_missed=0.0,
        copies_asked=asked,
        fill_cycles=100.0,
    )
    assert found.finished[-1] == pytest.approx(10 * (200 + sent * asked / 64), rel=0.05)


def test_a_group_that_has_come_is_in_l1() -> None:
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1)]
    found = run(load, loops=10, loads=loads_of([[0] * 10], 1))
    assert found.finished[-1] == pytest.approx(200 + 9 * (30 + 2), rel=0.1)


def test_where_no_lane_takes_part_nothing_is_loaded() -> None:
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1)]
    found = run(load, loops=10, loads=loads_of([[0]], 1))
    assert found.finished[-1] == pytest.approx(200 + 9 * 8 + 10, rel=0.1)  # operands are read in 8 cycles


def test_the_run_ends_where_loads_were_not_kept() -> None:
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1)]
    found = run(load, loops=10, loads=loads_of([[0, 1, 2, CUT]], 1))
    assert found.issued == 3 * 2
    assert not len(found.finished)


def test_constants_come_one_word_after_the_other() -> None:
    found = run([Step(wait=Wait.CONSTANT, data=64.0)], warps=16, loops=100, data_queue=8)
    assert found.cycles == pytest.approx(100 * 16 * 64, rel=0.01)  # 32 words of 2 cycles


def test_operands_wait_for_lines_of_constants_that_their_set_does_not_keep() -> None:
    def cycles(lines: tuple[int, ...]) -> float:
        return float(run([Step(constant=line) for line in lines], loops=100).cycles)

    assert cycles((0, 2, 4)) == pytest.approx(
        100 * 3 * 50, rel=0.05
    )  # three lines of a set of two: each is missed again
    assert cycles((0, 1, 2)) == pytest.approx(
        100 + 100 * 3, abs=3 * 50
    )  # kept after the first pass, which waits for L2, too


def test_constants_loaded_by_index_come_a_line_at_a_time() -> None:
    walk = [Step(wait=Wait.CONSTANT, sets=0, walk=0), Step(needs=1)]
    one, many = (run(walk, warps=warps, loops=300) for warps in (1, 16))
    assert one.cycles == pytest.approx(100 + 300 * (50 + 2), rel=0.05)  # each line is missed again
    assert many.cycles < 1.2 * one.cycles  # warps that read the same together need it once
    shared = run(walk, loops=300, constant_ways=3)
    assert shared.cycles == pytest.approx(100 + 300 * 3, abs=3 * 60)


def test_a_fence_waits_until_l2_has_taken_what_its_warp_stored() -> None:
    fence = Step(wait=Wait.FENCE)
    store = Step(wait=Wait.GLOBAL_STORE, write=4.0)
    assert run([fence], loops=10).finished[-1] == pytest.approx(10 * 200, rel=0.01)
    assert run([store, fence], loops=10).finished[-1] == pytest.approx(10 * (4 + 200 + 200), rel=0.02)


def test_a_barrier_of_a_cluster_takes_longer_than_one_of_a_block() -> None:
    found = run([Step(stall=100), Step(wait=Wait.CLUSTER_BARRIER), Step()], warps=4)
    assert found.finished[-1] == pytest.approx(100 + 60 + 1, abs=2)


def test_a_branch_makes_its_warp_wait() -> None:
    assert run([Step(wait=Wait.BRANCH, stall=5)], loops=100, branch_cycles=6.0).finished[-1] == 100 * (5 + 6)


def test_reductions_wait_for_one_another_in_l2() -> None:
    reduction = Step(wait=Wait.GLOBAL_REDUCTION, atomic=50.0)
    found = run([Step(stall=300), reduction], warps=32)
    assert found.finished[-1] < 400  # nobody waits for a reduction
    assert found.atomics == pytest.approx(300 + 32 * 50, rel=0.02)


def test_stores_queue_on_their_way_to_l2() -> None:
    found = run([Step(wait=Wait.GLOBAL_STORE, write=8.0)], warps=16, loops=100, data_queue=8, write_queue_cycles=100.0)
    assert found.cycles == pytest.approx(100 * 16 * 8, rel=0.1)


def test_a_block_keeps_its_place_until_its_stores_have_left_the_sm() -> None:
    store = Step(wait=Wait.GLOBAL_STORE, write=500.0)
    found = run([store], resident=1, blocks=8)
    assert found.finished == pytest.approx(500.0 * np.arange(1, 9), rel=0.02)
    in_dram = run([Step(wait=Wait.GLOBAL_STORE, written=16.0 * 900)], resident=1, blocks=8)
    assert in_dram.finished[-1] == pytest.approx(
        8 * 900 - 500, rel=0.02
    )  # L2 holds what comes within a latency of DRAM


def test_an_atomic_that_returns_waits_for_those_before_it() -> None:
    atomic = Step(wait=Wait.GLOBAL_ATOMIC, sets=0, misses=1.0, write=60.0)
    found = run([atomic, Step(needs=1)], warps=32)
    assert found.finished[-1] == pytest.approx(32 * 60 + 200, rel=0.02)


def test_blocks_that_begin_together_wait_for_the_same_sectors() -> None:
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1)]
    loads = loads_of([list(range(8))], 1)
    together = run(load, loops=8, loads=loads, resident=2, blocks=2, first_missed=0.5)
    assert together.finished == pytest.approx(
        [8 * 200] * 2, rel=0.05
    )  # half of the requests are asked for by the other block
    common = loads | {"group_common": np.ones(len(loads["group_common"]), np.int64)}
    shared = run(load, loops=8, loads=common, resident=1, blocks=2, first_missed=0.5)
    assert shared.finished[-1] == pytest.approx(2 * 8 * 32, rel=0.05)  # common sectors have their own chance: 0 here
    later = run(load, loops=8, loads=loads, resident=1, blocks=2, first_missed=0.5)
    assert later.finished[-1] == pytest.approx(2 * 4 * (200 + 30), rel=0.05)  # what a block before has read is in L1


@pytest.mark.parametrize(("drift", "apart"), [(0.0, 0.0), (0.2, 0.2), (1.0, 1.0)])
def test_blocks_in_step_wait_for_dram_together_the_less_the_longer_ago_they_met(drift: float, apart: float) -> None:
    """Eight requests for what other blocks ask for at the same time, 100 cycles after the answer to the one before."""
    load = [Step(wait=Wait.GLOBAL_LOAD, sets=0), Step(needs=1, stall=100)]
    found = run(load, loops=8, loads=loads_of([list(range(8))], 1), first_joint=1.0, drift=drift)
    first = 200 + 300  # a latency of L2, and what DRAM needs beyond it: blocks begin in step
    since = 200 + 100  # from one meeting, at its answer, to the next request, beyond what was waited
    waited = 300 - apart * since
    assert found.finished[-1] == pytest.approx(first + 7 * (200 + waited) + 8 * 100, rel=0.05)


def events_of(warps: list[list[tuple[int, int, int]]], ends: list[int]) -> dict[str, Any]:
    """Events of one block: of each warp instruction, phase and sectors in order; and how many take part in each phase's end."""
    flat = np.array([event for warp in warps for event in warp], np.int64).reshape(-1, 3)
    instruction, phase, sectors = flat.T.copy()  # Numba compiles once for arrays that lie alike
    return {
        "event_instruction": instruction,
        "event_phase": phase,
        "event_sectors": sectors,
        "event_fresh": np.zeros(len(flat), np.int64),
        "event_common": np.zeros(len(flat), np.int64),
        "event_offsets": np.cumsum([0, *map(len, warps)]),
        "phase_ends": np.array(ends, np.int64),
        "phase_offsets": np.array([0, len(ends)]),
    }


WAITS, ARRIVES = Step(wait=Wait.PHASE_WAIT, sets=0), Step(wait=Wait.PHASE_ARRIVAL)


def two_warps(waits: bool) -> Run:
    """One of two warps arrives at cycle 500, where the other one waits for it or for nobody."""
    program = [WAITS, Step(needs=1), Step(stall=500), ARRIVES]
    paths = Paths(np.array([0, 2]), np.array([2, 2]), np.arange(3), 2, 1, **NO_LOADS, **NO_EVENTS, **CONSTANTS)
    paths = paths._replace(**events_of([[(0, 0 if waits else -1, 0)], [(3, 0, 0)]], [1]))
    found: Run = simulate_sm(code_of(program), paths, QUIET, 1, 1, 100)
    return found


def test_a_warp_waits_for_the_phase_that_another_one_ends() -> None:
    """From cycle 500 on the arrival reads its operands (8), and a try needs 30 until its result is there."""
    assert two_warps(waits=True).cycles == 500 + 8 + 30
    assert two_warps(waits=True).stalls[Stall.LONG_SCOREBOARD] == 538
    assert two_warps(waits=False).cycles == 500


@pytest.mark.parametrize(("sectors", "cycles"), [(4, 0 + 2 + 200 + 30), (1024, 0 + 512 + 200 + 30)])
def test_a_bulk_copy_takes_its_engine_and_a_latency(sectors: int, cycles: float) -> None:
    """64 bytes a cycle, 200 cycles of L2, and 30 until the waiting warp knows."""
    program = [Step(wait=Wait.BULK_LOAD), WAITS, Step(needs=1)]
    found = run(program, events=events_of([[(0, 0, sectors), (1, 0, 0)]], [1]))
    assert found.cycles == cycles


def test_bulk_copies_run_ahead_of_who_waits_for_them() -> None:
    """Four copies of 512 cycles each are one latency, not four."""
    copies = [Step(wait=Wait.BULK_LOAD)] * 4
    program = [*copies, *[WAITS, Step(needs=1)] * 4]
    events = [(number, number, 1024) for number in range(4)] + [(4 + 2 * number, number, 0) for number in range(4)]
    assert run(program, events=events_of([events], [1] * 4)).cycles == 4 * 512 + 200 + 30


def test_a_block_ends_when_what_it_copies_to_global_memory_has_left() -> None:
    found = run([Step(wait=Wait.BULK_STORE)], events=events_of([[(0, -1, 100)]], []))
    assert found.finished[-1] == 100 * 32 / 32


@pytest.mark.parametrize(("left", "cycles"), [(0, 2 * 64 + 50), (1, 64 + 50)])
def test_products_of_a_warpgroup_are_waited_for_by_groups(left: int, cycles: float) -> None:
    """Two groups of one product, 64 cycles each."""
    product = Step(pipe=Pipe.TENSOR, wait=Wait.GROUP_PRODUCT, occupies=64.0, left=1)
    waits = Step(wait=Wait.PRODUCT_WAIT, left=left)
    assert run([product, product, waits, Step()]).cycles == cycles
