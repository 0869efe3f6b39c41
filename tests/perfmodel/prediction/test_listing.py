from perfmodel.ir.instruction import SourceLine, Space
from perfmodel.memory.access_counts import InstructionCount
from perfmodel.prediction.listing import by_line, listing
from perfmodel.simulator.access import Action


def count(space: Space, line: int, **values: int) -> InstructionCount:
    zero = {"requests": 0, "lanes": 0, "sectors": 0, "lines": 0, "wavefronts": 0, "conflict_free_wavefronts": 0}
    return InstructionCount(
        instruction=line,
        opcode=f"ld.{space.value}.f32",
        action=Action.LOAD,
        space=space,
        width_bytes=4,
        ptx_line=line,
        source=SourceLine("/some/folder/k.cu", line),
        **(zero | values),
    )


def test_global_efficiency_is_bytes_asked_for_over_bytes_moved() -> None:
    (row,) = listing([count(Space.GLOBAL, 3, requests=2, lanes=64, sectors=64)])
    assert row.efficiency == 64 * 4 / (64 * 32)
    assert row.excess_bytes == 64 * 32 - 64 * 4
    assert row.sectors_per_request == 32
    assert (row.file, row.line) == ("k.cu", 3)


def test_lanes_that_share_what_they_read_waste_nothing() -> None:
    (row,) = listing([count(Space.GLOBAL, 3, requests=1, lanes=32, sectors=1)])
    assert row.efficiency == 1
    assert row.excess_bytes == 0


def test_shared_efficiency_is_wavefronts_without_conflicts_over_wavefronts() -> None:
    (row,) = listing([count(Space.SHARED, 5, requests=1, lanes=32, wavefronts=32, conflict_free_wavefronts=1)])
    assert row.efficiency == 1 / 32
    assert row.excess_bytes == 31 * 128


def test_the_lines_that_waste_most_stand_first() -> None:
    rows = listing(
        [
            count(Space.GLOBAL, 1, requests=1, lanes=32, sectors=4),  # 0 wasted
            count(Space.GLOBAL, 2, requests=1, lanes=32, sectors=32),  # 32 * 32 - 128 = 896
            count(Space.SHARED, 3, requests=1, lanes=32, wavefronts=9, conflict_free_wavefronts=1),  # 8 * 128 = 1024
        ]
    )
    assert [(row.line, row.excess_bytes) for row in rows] == [(3, 1024), (2, 896), (1, 0)]


def test_instructions_of_one_line_are_joined() -> None:
    rows = listing([count(Space.GLOBAL, 2, requests=1, lanes=32, sectors=n) for n in (4, 12)])
    (row,) = by_line(rows)
    assert (row.places, row.requests, row.sectors, row.sectors_per_request) == (2, 2, 16, 8)
    assert row.efficiency == 2 * 128 / (16 * 32)
    assert row.excess_bytes == 16 * 32 - 2 * 128
    assert "places" not in row.to_json()
