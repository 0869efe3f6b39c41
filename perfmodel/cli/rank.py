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
    ResidualOption,
    SourceArgument,
    SpaceOption,
    require_one_format,
    scenario_from,
    source_problem,
)
from .output import note, print_csv, print_json, print_table, progress_bar

if TYPE_CHECKING:
    from ..prediction.prediction import Corrected
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
    refine: Annotated[int, typer.Option(min=1, help="How many candidates to compile.")] = 16,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    residual: ResidualOption = None,
    order: Annotated[
        str, typer.Option("--order", metavar="predicted|corrected", help="Sort by the model's time, or the residual's.")
    ] = "predicted",
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Rank the configurations of FAMILY for a problem, fastest first.

    `rank FAMILY --help` lists the problem's options (--height 2160 --filter-width 5 …).
    """
    from ..prediction.ranking import Order, rank_problem
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    problem = source_problem(family_name, space, context.args)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    sorted_by = one_of(Order, "--order", order)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration, residual)
    with progress_bar(f"{depth.value} candidates", None) as advance:
        ranking = rank_problem(problem, scenario, depth, top, advance, refine, sorted_by)
    for text in ranking.notes:
        note(text)
    if as_json:
        print_json(ranking.to_json())
    elif as_csv:
        print_csv(ranking.to_rows())
    else:
        _print(ranking)


def _print(ranking: Ranking) -> None:
    from ..core.json_values import plain

    problem = " ".join(f"{name}={value}" for name, value in plain(ranking.problem).items())
    typer.echo(f"{ranking.kernel} on {ranking.gpu}: {problem}")
    refused = sum(ranking.rejected.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in ranking.rejected.items())
    typer.echo(f"{ranking.candidates:,} candidates, {refused:,} rejected{f' ({reasons})' if reasons else ''}")
    configurations = [plain(found.configuration) for found in ranking.top]
    fields = [name for name in configurations[0] if any(values[name] != "none" for values in configurations)]
    residual = ("corrected", "its 90 % interval") if ranking.best.residual is not None else ()
    times = ("predicted", "90 % interval", *residual)
    columns = ("#", *fields, "registers/thread", "blocks/SM", "occupancy", *times, "limiter", "counts")
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
                *_corrected(found.residual),
                found.time.limiter,
                "exact" if found.exact else "estimated",
            )
        )
    learned = "" if ranking.best.residual is None else f"; corrected by {ranking.best.residual.calibration_status}"
    title = f"best by {ranking.order.value} time ({ranking.fidelity.value}, {ranking.best.time.calibration_status}{learned})"
    print_table(title, columns, rows)
    typer.echo(_why(ranking))


def _corrected(residual: Corrected | None) -> tuple[str, ...]:
    return () if residual is None else (time_text(residual.corrected_s), interval_text(residual.interval_s))


def _why(ranking: Ranking) -> str:
    """What the model's terms say; of an order that is not the model's they say nothing."""
    from ..prediction.explanation import why_first
    from ..prediction.ranking import Order

    if ranking.order is Order.PREDICTED:
        return why_first(ranking.top)
    times = [found.time.predicted_s for found in ranking.top]
    return f"the first is number {1 + sum(time < times[0] for time in times)} of these by the model's own time"
