"""``perfmodel rank``: the best configurations of a family for a problem on a GPU."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..choices import one_of
from .options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    SourceArgument,
    SpaceOption,
    conditions_from,
    source_problem,
)
from .output import note, print_json, print_table, progress_bar, time_text


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("rank", context_settings=EXTRA_OPTIONS)(rank)


def rank(
    context: typer.Context,
    family_name: SourceArgument,
    gpu: GpuOption,
    space: SpaceOption = None,
    top: Annotated[int, typer.Option(min=1, help="How many configurations to show.")] = 10,
    refine: Annotated[int, typer.Option(min=1, help="How many of the analytic best to compile.")] = 24,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rank the configurations of FAMILY for a problem, fastest first.

    The problem's options (--height 2160 --filter-width 5 …) are listed by `perfmodel families`.
    """
    from ..prediction import Fidelity
    from ..ranking import rank_under

    problem = source_problem(family_name, space, context.args)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    under = conditions_from(gpu, sm_clock_mhz, l2, calibration)
    with progress_bar(f"{depth.value} candidates", None) as advance:
        ranking = rank_under(problem, under, depth, top, advance, refine)
    for text in ranking.notes:
        note(text)
    if as_json:
        print_json(ranking.to_json())
        return
    _print(ranking)


def _print(ranking: Any) -> None:
    from ..explanation import why_first
    from ..prediction import plain

    problem = " ".join(f"{name}={value}" for name, value in plain(ranking.problem).items())
    typer.echo(f"{ranking.kernel} on {ranking.gpu}: {problem}")
    refused = sum(ranking.rejected.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in ranking.rejected.items())
    typer.echo(f"{ranking.candidates:,} candidates, {refused:,} rejected{f' ({reasons})' if reasons else ''}")
    fields = list(plain(ranking.best.configuration))
    columns = ("#", *fields, "regs", "blocks/SM", "occupancy", "predicted", "90 % interval", "limiter", "counts")
    rows = []
    for place, found in enumerate(ranking.top, 1):
        bounds = found.time.interval_s
        rows.append(
            (
                place,
                *plain(found.configuration).values(),
                found.resources.registers_per_thread,
                found.occupancy.blocks_per_sm,
                f"{found.occupancy.fraction:.0%}",
                time_text(found.time.predicted_s),
                "–" if bounds is None else f"{time_text(bounds[0])} … {time_text(bounds[1])}",
                found.time.limiter,
                "exact" if found.exact else "estimated",
            )
        )
    print_table(f"best by predicted time ({ranking.fidelity.value}, {ranking.best.time.evidence})", columns, rows)
    typer.echo(why_first(ranking.top))
