"""``perfmodel report``: a ranking or a validation as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfmodel.cli.options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    FamilyCommand,
    FidelityOption,
    FilterOption,
    GpuOption,
    JsonOption,
    L2Option,
    SourceArgument,
    SpaceOption,
    command_line,
    require_one,
    scenario_from,
    source_families,
    source_problem,
)
from perfmodel.cli.output import note, print_json, progress_bar, require_writable, write_target
from perfmodel.cli.pages import AnalysisPages, bring_analysis_pages
from perfmodel.errors import InputError

if TYPE_CHECKING:
    from perfmodel.advice.advise import Advised
    from perfmodel.families.base import Family
    from perfmodel.prediction.analyze import Analysis
    from perfmodel.prediction.scenario import Scenario
    from perfmodel.profiles.kernel_profile import Fidelity

    from .parts import Page

TOP = 24
"""How many configurations the table shows where nothing is said: as many as a ranking compiles."""


def register(app: typer.Typer) -> None:
    """Add the command to the program, and the page of ``perfmodel analyze --html``."""
    bring_analysis_pages(AnalysisPages(require=_require_libraries, html=_analysis_html))
    app.command("report", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(report)


def _require_libraries() -> None:
    from .html import require_libraries

    require_libraries()


def _analysis_html(analysis: Analysis, advised: Advised, command: str) -> str:
    from .analysis_page import analysis_page
    from .html import html_text

    return html_text(analysis_page(analysis, advised, command))


def report(
    context: typer.Context,
    family_name: SourceArgument,
    gpu: GpuOption,
    output: Annotated[Path, typer.Option(metavar="PAGE.html", help="Where the page is written.")],
    measurements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="CSV, Kernel Tuner cache, or records of `measure`: report a validation against it."
        ),
    ] = None,
    row_filter: FilterOption = None,
    sample: Annotated[int | None, typer.Option(min=2, help="Use this many rows of FILE, drawn at random.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of --sample; by default 0.")] = None,
    space: SpaceOption = None,
    top: Annotated[
        int | None, typer.Option(min=1, help=f"How many configurations a ranking shows; by default {TOP}.")
    ] = None,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a ranking, or with --measurements a validation, as one HTML page that needs no network.

    `report FAMILY --help` lists the problem's options (--height 2160 --filter-width 5 …).
    """
    from perfmodel.core.choices import one_of
    from perfmodel.families.profiling import fidelity_of
    from perfmodel.profiles.kernel_profile import Fidelity
    from perfmodel.records.measurements import read_measurements

    from .html import html_text, require_libraries

    require_libraries()
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    command = command_line(context, without=("output", "as_json"))
    require_writable("--output", output, [calibration, space, measurements])
    if measurements is None:
        _refuse({"--filter": row_filter, "--sample": sample, "--seed": seed}, "needs --measurements FILE")
        problem = source_problem(family_name, space, context.args)
        page = _ranked(problem, scenario, depth, top or TOP, command)
    else:
        _refuse({"--top": top}, "belongs to a ranking, not to --measurements")
        if context.args and not family_name.endswith(".py"):
            raise InputError(f"unexpected argument {context.args[0]!r}: the problems are those of {measurements}")
        (chosen,) = source_families(require_one(family_name), space, context.args)
        rows = read_measurements(measurements, chosen, scenario.l2).drawn(row_filter, sample, seed or 0)
        page = _validated(chosen, rows, scenario, fidelity_of(chosen, depth), command)
    write_target("--output", output, html_text(page))
    if as_json:
        kind = "ranking" if measurements is None else "validation"
        print_json({"page": str(output), "shows": kind, "figures": [drawing.name for drawing in page.drawings]})
        return
    typer.echo(f"{page.title}: written to {output}")
    typer.echo(page.answer)


def _refuse(given: dict[str, Any], reason: str) -> None:
    """An option that means nothing here is named, not ignored."""
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option} {value} {reason}")


def _ranked(problem: Any, scenario: Scenario, depth: Fidelity, top: int, command: str) -> Page:
    from perfmodel.prediction.ranking import rank_problem

    from .ranking_page import ranking_page

    with progress_bar(f"{depth.value} candidates", None) as advance:
        ranking = rank_problem(problem, scenario, depth, top, advance)
    for text in ranking.notes:
        note(text)
    return ranking_page(ranking, scenario, command)


def _validated(chosen: Family[Any, Any], rows: Any, scenario: Scenario, depth: Fidelity, command: str) -> Page:
    from perfmodel.accuracy.validating import predict_rows, validation_of

    from .measured_runs import comparison
    from .validation_page import validation_page

    with progress_bar(f"{depth.value} predictions", int(rows.ran.sum())) as advance:
        predicted = predict_rows(chosen, rows, scenario, depth, advance)
    found = validation_of(rows, predicted, scenario, depth)
    for text in found.notes:
        note(text)
    return validation_page(found, comparison(rows, predicted, scenario, len(rows)), command)
