"""``perfmodel plot``: figures drawn from records and predictions, as SVG and PNG."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.options import JsonOption
from perfmodel.cli.output import note, print_json, print_table
from perfmodel.errors import InputError

from .registry import (
    FIGURES,
    MEASUREMENTS_HINT,
    PUBLISHED_AT,
    FigureEntry,
    Request,
    figure_entry,
)

DATA_VARIABLE = "PERFMODEL_DATA"
ALL = "all"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("plot")(plot)


def plot(
    name: Annotated[str | None, typer.Argument(metavar="NAME|all", help="A figure, or all of them.")] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the files; made where it is missing.")] = Path(
        "out/figures"
    ),
    measurements: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"Folder of the published measurements; else {DATA_VARIABLE} names it."),
    ] = None,
    fidelity: Annotated[
        str, typer.Option(metavar="analytic|compiled", help="How measured configurations are predicted.")
    ] = "compiled",
    listed: Annotated[bool, typer.Option("--list", help="Name the figures and draw none.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw figure NAME, or all, as NAME.svg and NAME.png; `--list` says what there is.

    Some figures compare with published measurements; where these are not at hand, `plot all` leaves them out and says so.

    Measured configurations are predicted from the shipped counts store, or with `--fidelity analytic` from closed forms.
    """
    if listed or name is None:
        _list(as_json)
        return
    from perfmodel.core.choices import one_of
    from perfmodel.profiles.kernel_profile import Fidelity

    from .style import require_matplotlib

    chosen = FIGURES if name == ALL else (figure_entry(name),)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    if depth is Fidelity.SIMULATED:
        raise InputError(f"--fidelity {fidelity!r} must be one of analytic, compiled")
    request = Request(
        folder=_folder(output),
        measurements=_measurements(measurements),
        fidelity=depth,
    )
    require_matplotlib()
    if name == ALL:
        chosen = _possible(chosen, request)
    drawn = [(entry, *entry.draw(request)) for entry in chosen]
    if as_json:
        print_json({"figures": [_described(entry) | {"svg": str(svg), "png": str(png)} for entry, svg, png in drawn]})
        return
    print_table("figures drawn", ("figure", "SVG", "PNG"), [(e.name, svg, png) for e, svg, png in drawn], left=3)


def _possible(chosen: Sequence[FigureEntry], request: Request) -> tuple[FigureEntry, ...]:
    """The figures whose data are at hand; the others are named."""
    if request.measurements is not None:
        return tuple(chosen)
    lacking = [entry.name for entry in chosen if entry.needs_measurements]
    if lacking:
        note(f"left out: {', '.join(lacking)}; {MEASUREMENTS_HINT}")
    return tuple(entry for entry in chosen if not entry.needs_measurements)


def _folder(path: Path) -> Path:
    """The output folder, made where it is missing."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--output {path}: {error.strerror or error}") from error
    return path


def _measurements(given: Path | None) -> Path | None:
    """The folder of published measurements: the option's, else the environment's, else None."""
    named = os.environ.get(DATA_VARIABLE)
    origin, folder = ("--measurements", given) if given is not None else (DATA_VARIABLE, Path(named) if named else None)
    if folder is not None and not folder.is_dir():
        raise InputError(f"{origin} {folder}: is no folder; {MEASUREMENTS_HINT}")
    return folder


def _described(entry: FigureEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "shows": entry.shows,
        "needs_measurements": entry.needs_measurements,
    }


def _list(as_json: bool) -> None:
    if as_json:
        print_json({"figures": [_described(entry) for entry in FIGURES]})
        return
    rows = [
        (entry.name, entry.shows, "published measurements" if entry.needs_measurements else "nothing")
        for entry in FIGURES
    ]
    print_table("figures", ("figure", "shows", "needs"), rows, left=3)
    note(f"the published measurements are at {PUBLISHED_AT}")
