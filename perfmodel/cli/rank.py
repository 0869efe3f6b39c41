"""``perfmodel rank``: the best configurations of a family for a problem on a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..core.choices import one_of
from ..core.units import interval_text, time_text
from .options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    CsvOption,
    FamilyCommand,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    SourceArgument,
    SpaceOption,
    require_one_format,
    scenario_from,
    source_problem,
)
from .output import note, print_csv, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from ..prediction.ranking import Ranking


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("rank", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(rank)


def rank(
    context: typer.Context,
    family_name: SourceArgument,
    gpu: GpuOption,
    space: SpaceOption = None,
    top: Annotated[int, typer.Option(min=1, help="How many configurations to show.")] = 10,
    refine: Annotated[int, typer.Option(min=1, help="Compile at most this many (a source of your own: all).")] = 16,
    executions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="A source of your own: execute at most this many, chosen by a search on predicted times (default: all).",
        ),
    ] = None,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Rank the configurations of a kernel by predicted time, fastest first.

    `rank FAMILY --help` lists the problem's options (--height 2160 --filter-width 5 …).
    """
    from ..prediction.ranking import rank_problem
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    problem = source_problem(family_name, space, context.args)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    with progress_bar(f"{depth.value} candidates", None) as advance:
        ranking = rank_problem(problem, scenario, depth, top, advance, refine, executions)
    for text in ranking.notes:
        note(text)
    if as_json:
        print_json(ranking.to_json())
    elif as_csv:
        print_csv(ranking.to_rows())
    else:
        _print(ranking)


def _print(ranking: Ranking) -> None:
    from ..core.json_values import fields_text, plain
    from ..prediction.explanation import why_first

    problem = fields_text(plain(ranking.problem).items())
    typer.echo(f"{ranking.kernel} on {ranking.gpu}: {problem}")
    refused = sum(ranking.rejected.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in ranking.rejected.items())
    typer.echo(f"{ranking.candidates:,} candidates, {refused:,} rejected{f' ({reasons})' if reasons else ''}")
    configurations = [plain(found.configuration) for found in ranking.top]
    fields = [name for name in configurations[0] if any(values[name] != "none" for values in configurations)]
    columns = (
        "#",
        *fields,
        "registers/thread",
        "blocks/SM",
        "occupancy",
        "predicted",
        "90 % interval",
        "limiter",
        "counts",
    )
    rows = []
    for place, (found, values) in enumerate(zip(ranking.top, configurations, strict=True), 1):
        rows.append(
            (
                place,
                *(values[name] for name in fields),
                found.resources.registers_per_thread,
                found.occupancy.blocks_per_sm,
                f"{found.occupancy.fraction:.0%}",
                time_text(found.time.predicted_s),
                interval_text(found.time.interval_s),
                found.time.limiter,
                "exact" if found.exact else "estimated",
            )
        )
    title = f"best by predicted time ({ranking.fidelity.value}, {ranking.best.time.calibration_status})"
    print_table(title, columns, rows)
    typer.echo(why_first(ranking.top))
