"""The claim about local memory: what the compiler does today, and that the committed table says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.families.direct_conv2d import Exchange
from perfmodel.local_memory_claim import ClaimRow, Context, compile_claim, to_markdown

pytestmark = pytest.mark.compiler

DOCUMENT = Path(__file__).parents[2] / "docs" / "local_memory.md"
ARCHITECTURES = ("sm_80", "sm_90")


@pytest.fixture(scope="module")
def rows() -> tuple[ClaimRow, ...]:
    return compile_claim(ARCHITECTURES, (5,), (Context.WINDOW, Context.UNTOLD))


def table(text: str) -> dict[tuple[str, str, str, str], str]:
    """Cells of a document by heading, filter width, exchange, architecture."""
    cells: dict[tuple[str, str, str, str], str] = {}
    heading, architectures = "", [""]
    for line in text.splitlines():
        values = [value.strip() for value in line.strip("|").split("|")]
        if line.startswith("## "):
            heading = line
        elif heading and values[:2] == ["F", "exchange"]:
            architectures = values[2:]
        elif heading and values[0].isdigit():
            cells |= {(heading, values[0], values[1], a): v for a, v in zip(architectures, values[2:], strict=True)}
    return cells


def test_only_the_dynamic_index_leaves_registers(rows: tuple[ClaimRow, ...]) -> None:
    for row in rows:
        assert row.spill_load_bytes == row.spill_store_bytes == 0
        if row.exchange is not Exchange.DYNAMIC_INDEX:
            assert row.stack_bytes == 0


def test_where_it_lies_depends_on_the_code_around_it(rows: tuple[ClaimRow, ...]) -> None:
    stack = {(row.architecture, row.context): row.stack_bytes for row in rows if row.exchange is Exchange.DYNAMIC_INDEX}
    assert stack["sm_80", Context.WINDOW] >= 5 * 4  # five taps of four bytes
    assert stack["sm_80", Context.UNTOLD] == 0
    assert stack["sm_90", Context.WINDOW] == stack["sm_90", Context.UNTOLD] == 0


def test_a_chain_of_selections_is_longer_code(rows: tuple[ClaimRow, ...]) -> None:
    instructions = {
        row.exchange: row.instructions for row in rows if (row.architecture, row.context) == ("sm_90", Context.WINDOW)
    }
    assert instructions[Exchange.DYNAMIC_INDEX] > instructions[Exchange.SELECT]


def test_committed_table_is_the_compilers(rows: tuple[ClaimRow, ...]) -> None:
    committed, fresh = table(DOCUMENT.read_text(encoding="utf-8")), table(to_markdown(rows))
    assert len(fresh) == len(rows)
    assert {key: committed[key] for key in fresh} == fresh
