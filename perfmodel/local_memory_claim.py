"""The claim that a register array with a lane-dependent index ends in local memory, put to the compiler.

The work that brought column reuse says that its exchange must be written with shifts, because the compiler would place a
dynamically indexed array in local memory. ``python -m perfmodel.local_memory_claim`` compiles all four ways to write the
exchange for every architecture and writes what the compiler did into ``docs/local_memory.md``; nothing there is typed in.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import product
from pathlib import Path
from statistics import median

from .compiler import CompiledKernel, CompileRequest, compile_many
from .errors import PerfmodelError
from .families.direct_conv2d import Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from .families.direct_conv2d.source import compile_request
from .records.files import write_text

ARCHITECTURES = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
FILTER_WIDTHS = (3, 5, 7, 9, 11)
DEFAULT_OUTPUT = Path("docs") / "local_memory.md"


class Context(Enum):
    """The code around the exchange."""

    ONE_ROW = "one filter row, one output"
    WINDOW = "square filter, one output"
    ROLLING = "square filter, 16 outputs of a column in a rolling loop"
    UNTOLD = "square filter, one output, the compiler not told that a warp's threads share their row"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRow:
    """What the compiler made of one way to write the exchange; bytes for each thread.

    ``instructions`` are those in the code, each once; ``estimated`` where they are taken from PTX.
    """

    context: Context
    filter_width: int
    exchange: Exchange
    architecture: str
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    registers_per_thread: int
    instructions: int
    estimated: bool


def request_of(context: Context, filter_width: int, exchange: Exchange) -> CompileRequest:
    """The direct kernel that holds the exchange.

    >>> dict(request_of(Context.WINDOW, 5, Exchange.SELECT).defines)["PLAN_LOADS"]
    'LOAD(0) LOAD(4)'
    """
    rolling = context is Context.ROLLING
    filter_height = 1 if context is Context.ONE_ROW else filter_width
    problem = Conv2d(height=1024, width=1024, filter_height=filter_height, filter_width=filter_width)
    configuration = DirectConv2dConfiguration(
        reuse=Reuse.COLUMN_ROW if rolling else Reuse.COLUMN,
        exchange=exchange,
        accumulators=Accumulators.ROLLING if rolling else None,
        rows_per_thread=16 if rolling else 1,
        block_x=32,
        block_y=8,
    )
    request = compile_request(problem, configuration)
    untold = (("SHARE_WARP_ROW", 0),) if context is Context.UNTOLD else ()
    return replace(request, defines=request.defines + untold)


def _row(
    context: Context,
    filter_width: int,
    exchange: Exchange,
    architecture: str,
    compiled: CompiledKernel | PerfmodelError,
) -> ClaimRow:
    if isinstance(compiled, PerfmodelError):
        raise compiled
    resources, profile = compiled.resources, compiled.profile()
    return ClaimRow(
        context=context,
        filter_width=filter_width,
        exchange=exchange,
        architecture=architecture,
        stack_bytes=resources.stack_bytes_per_thread,
        spill_store_bytes=resources.spill_store_bytes,
        spill_load_bytes=resources.spill_load_bytes,
        registers_per_thread=resources.registers_per_thread,
        instructions=profile.instructions,
        estimated=profile.estimated,
    )


def compile_claim(
    architectures: Sequence[str] = ARCHITECTURES,
    filter_widths: Sequence[int] = FILTER_WIDTHS,
    contexts: Iterable[Context] = tuple(Context),
    advance: Callable[[], None] = lambda: None,
) -> tuple[ClaimRow, ...]:
    """Compile every exchange in every context; one row each, in the order of the arguments.

    Raises ``CompileError`` where the compiler refuses an architecture, ``CompilerMissingError`` without the compiler.

    >>> rows = compile_claim(("sm_90",), (5,), (Context.ONE_ROW,))
    >>> [(row.exchange.value, row.stack_bytes) for row in rows]
    [('dynamic_index', 0), ('pack_shift', 0), ('select', 0), ('rotate', 0)]
    """
    cases = list(product(contexts, filter_widths, Exchange, architectures))
    jobs = [(request_of(context, width, exchange), architecture) for context, width, exchange, architecture in cases]
    outcomes = compile_many(jobs, advance=advance)
    return tuple(_row(*case, outcome) for case, outcome in zip(cases, outcomes, strict=True))


def _summary(rows: Sequence[ClaimRow]) -> list[str]:
    """Per exchange: how many kernels have a stack frame, how many spill, and instructions beside ``select``."""
    select = {
        (row.context, row.filter_width, row.architecture): row.instructions
        for row in rows
        if row.exchange is Exchange.SELECT
    }
    lines = [
        "| exchange | kernels | with a stack frame | with spills | instructions ÷ `select`, median |",
        "|---|---|---|---|---|",
    ]
    for exchange in Exchange:
        own = [row for row in rows if row.exchange is exchange]
        ratio = median(row.instructions / select[row.context, row.filter_width, row.architecture] for row in own)
        framed = sum(row.stack_bytes > 0 for row in own)
        spilled = sum(row.spill_store_bytes + row.spill_load_bytes > 0 for row in own)
        lines.append(f"| `{exchange.value}` | {len(own)} | {framed} | {spilled} | {ratio:.2f} |")
    return lines


def _by_architecture(rows: Sequence[ClaimRow]) -> list[str]:
    """Filter widths whose array lies in local memory with ``dynamic_index``, by context and architecture."""
    own = [row for row in rows if row.exchange is Exchange.DYNAMIC_INDEX]
    architectures = list(dict.fromkeys(row.architecture for row in own))
    lines = [f"| `dynamic_index` in | {' | '.join(architectures)} |", "|---" * (len(architectures) + 1) + "|"]
    for context in dict.fromkeys(row.context for row in own):
        framed = [
            [r.filter_width for r in own if (r.context, r.architecture) == (context, a) and r.stack_bytes]
            for a in architectures
        ]
        lines.append(f"| {context.value} | {' | '.join(', '.join(map(str, widths)) or '–' for widths in framed)} |")
    return lines


def _cell(row: ClaimRow) -> str:
    spills = row.spill_store_bytes + row.spill_load_bytes
    instructions = f"{'~' if row.estimated else ''}{row.instructions}"
    return f"{row.stack_bytes} / {spills} / {row.registers_per_thread} / {instructions}"


def _table(rows: Sequence[ClaimRow]) -> list[str]:
    """One line for each filter width and exchange, one column for each architecture."""
    architectures = list(dict.fromkeys(row.architecture for row in rows))
    cells = {(row.filter_width, row.exchange, row.architecture): _cell(row) for row in rows}
    lines = [f"| F | exchange | {' | '.join(architectures)} |", "|---" * (len(architectures) + 2) + "|"]
    for width, exchange in dict.fromkeys((row.filter_width, row.exchange) for row in rows):
        values = " | ".join(cells[width, exchange, architecture] for architecture in architectures)
        lines.append(f"| {width} | `{exchange.value}` | {values} |")
    return lines


def to_markdown(rows: Sequence[ClaimRow]) -> str:
    """The document: summaries first, then every kernel."""
    lines = [
        "# Does a dynamically indexed register array end in local memory?",
        "",
        "Written by `python -m perfmodel.local_memory_claim`; every number is the compiler's. The claim is that column reuse",
        "needs a special exchange because the compiler places an array with a lane-dependent index in local memory.",
        "",
        *_summary(rows),
        "",
        f"Filter widths (of {', '.join(map(str, dict.fromkeys(row.filter_width for row in rows)))}) that end in local memory:",
        "",
        *_by_architecture(rows),
        "",
        "Where a line or a column of this table has both kinds of entries, the index alone does not decide. The model takes it",
        "from the compiler.",
        "",
        "Cells: stack bytes / spilled bytes / registers per thread / instructions in the code (`~`: from PTX).",
    ]
    for context in dict.fromkeys(row.context for row in rows):
        lines += ["", f"## {context.value[0].upper()}{context.value[1:]}", ""]
        lines += _table([row for row in rows if row.context is context])
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compile and write the document."""
    parser = argparse.ArgumentParser(
        description="write what the compiler makes of each exchange", prog="local_memory_claim"
    )
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    output: Path = parser.parse_args(arguments).output
    text = to_markdown(compile_claim())
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(output, text)


if __name__ == "__main__":
    main()
