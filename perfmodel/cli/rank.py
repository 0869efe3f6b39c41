"""``perfmodel rank``: the best configurations of a family for a problem on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..choices import one_of
from ..errors import InputError
from .options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    conditions_from,
    problem_from,
)
from .output import note, print_json, print_table, progress_bar, time_text


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("rank", context_settings=EXTRA_OPTIONS)(rank)


def rank(
    context: typer.Context,
    family_name: Annotated[
        str, typer.Argument(metavar="FAMILY|FILE.cu", help="A name of `perfmodel families`, or a source of your own.")
    ],
    gpu: GpuOption,
    space: Annotated[
        Path | None, typer.Option("--space", metavar="SPACE.toml", help="Tuning space of FILE.cu; see the manual.")
    ] = None,
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
    from ..families.registry import family
    from ..prediction import Fidelity
    from ..ranking import rank_under

    if family_name.endswith(".cu") or space is not None:
        problem = _own_problem(family_name, space, context.args)
    else:
        chosen = family(family_name)
        problem = problem_from(chosen.problem_type, chosen.default_problem(), context.args)
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


def _own_problem(file: str, space: Path | None, arguments: list[str]) -> Any:
    """A user's own file over its tuning space."""
    from ..analysis.user_space import user_problem

    if space is None:
        raise InputError(f"{file} needs --space SPACE.toml, the file of its tuning space")
    if arguments:
        raise InputError(f"unexpected argument {arguments[0]!r}: sizes of {file} stand in {space}")
    return user_problem(file, space)


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
