"""What a campaign's records say, worked out without a GPU: the machine's rates, kernels beside libraries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.output import print_json, print_table, progress_bar, require_writable, write_target
from perfmodel.core.choices import one_of
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.own_records import read_records
from perfmodel.validation.comparison import Table, comparison_rows, comparisons, summary_rows

from .losses import loss_rows, losses
from .metrics import counts_of_metrics
from .micro.facts import compare_facts, gpu_file, measured_facts
from .public_kernels.command import app as public_kernels
from .tools import import_counters

RecordsOption = Annotated[Path, typer.Option("--records", help="JSON-lines file of records.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the campaign's program."""
    app.command()(facts)
    app.command()(libraries)
    app.command()(counters)
    app.add_typer(public_kernels, name="public-kernels")


def facts(
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU that was measured.")],
    records: RecordsOption,
    output: Annotated[Path | None, typer.Option("--output", help="Write a GPU file with the measured values.")] = None,
) -> None:
    """Say what the micro-benchmarks measured, beside the GPU's file; needs no GPU."""
    if output is not None:
        require_writable("--output", output, [records])
    known = scenario_of(gpu).gpu
    found = measured_facts(read_records(records))
    rows = [
        (
            entry.fact.name,
            f"{entry.fact.value:.5g}",
            f"{entry.fact.spread:.1%}",
            "–" if entry.file_value is None else f"{entry.file_value:.5g}",
            "–" if entry.ratio is None else f"{entry.ratio:.3f}",
        )
        for entry in compare_facts(found, known)
    ]
    print_table(f"micro-benchmarks on {gpu}", ("fact", "measured", "spread", "file", "ratio"), rows)
    if output is not None:
        write_target("--output", output, gpu_file(known, found))


def libraries(
    records: Annotated[
        list[Path], typer.Option("--records", metavar="FILE.jsonl", help="Records; of several files if given again.")
    ],
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Say what limits the kernel where a library is faster; needs the compiler."),
    ] = False,
    l2: Annotated[
        str | None, typer.Option("--l2", metavar="cold|warm", help="Only what was timed with this L2.")
    ] = None,
) -> None:
    """Print, as Markdown, how kernels compare with libraries: means by family, then every problem; needs no GPU."""
    states = tuple(L2State) if l2 is None else (one_of(L2State, "--l2", l2),)
    found = [
        one for one in comparisons(record for path in records for record in read_records(path)) if one.l2 in states
    ]
    typer.echo(markdown(summary_rows(found)))
    if explain:
        with progress_bar("predicted", sum(one.ratio < 1 for one in found)) as advance:
            typer.echo(markdown(loss_rows(losses(found, advance=advance))))
    typer.echo(markdown(comparison_rows(found)), nl=False)


def markdown(table: Table) -> str:
    """The table in Markdown.

    >>> print(markdown((("a", "b"), [("1", "2")])), end="")
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    columns, rows = table
    lines = [columns, ("---",) * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def counters(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv|FILE.ncu-rep", help="Counters that Nsight Compute read.")],
) -> None:
    """Print the counts of every launch in a counter file made elsewhere, as JSON; needs no GPU."""
    launches = [
        {
            "id": launch.launch_id,
            "kernel": launch.kernel,
            "counts": {one.name: float(one.launches[0]) for one in counts_of_metrics(launch.metrics)},
        }
        for launch in import_counters(file)
    ]
    print_json({"launches": launches})
