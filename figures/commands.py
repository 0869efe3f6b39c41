"""``perfmodel plot``: figures of what the model says, as SVG and PNG."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.options import JsonOption
from perfmodel.cli.output import print_json, print_table, require_folder
from perfmodel.core.documents import nearest
from perfmodel.errors import InputError

FIGURES = {
    "design_space": "tuning space of tiled_conv2d on the H200: predicted time by block and tile shape",
    "time_terms": "time of every resource for the best and the worst configurations",
    "occupancy_cliffs": "occupancy by registers per thread, for several blocks and GPUs",
    "roofline": "hierarchical roofline of one GPU with the best configuration of every family",
}
"""What each figure shows; its name is its module's and its file's."""
ALL = "all"


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("plot")(plot)


def plot(
    name: Annotated[str | None, typer.Argument(metavar="NAME|all", help="A figure, or all of them.")] = None,
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the files; made where it is missing.")] = Path(
        "out/figures"
    ),
    listed: Annotated[bool, typer.Option("--list", help="Name the figures and draw none.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw figure NAME, or all, as NAME.svg and NAME.png; `--list` says what there is.

    `perfmodel report` draws a ranking of yours, and predictions beside times that were measured.
    """
    if listed or name is None:
        if as_json:
            print_json({"figures": [{"name": figure, "shows": shows} for figure, shows in FIGURES.items()]})
        else:
            print_table("figures", ("figure", "shows"), list(FIGURES.items()), left=2)
        return
    if name != ALL and name not in FIGURES:
        raise InputError(f"unknown figure {name!r}; {nearest(name, (ALL, *FIGURES))}")
    from .style import require_matplotlib

    require_matplotlib()
    require_folder("--output", output)
    drawn = [(one, *draw_figure(one, output)) for one in (FIGURES if name == ALL else (name,))]
    if as_json:
        print_json(
            {
                "figures": [
                    {"name": one, "shows": FIGURES[one], "svg": str(svg), "png": str(png)} for one, svg, png in drawn
                ]
            }
        )
        return
    print_table("figures drawn", ("figure", "SVG", "PNG"), drawn, left=3)


def draw_figure(name: str, folder: Path) -> tuple[Path, Path]:
    """Draw one of `FIGURES` into a folder; gives the SVG and the PNG."""
    drawn: tuple[Path, Path] = import_module(f".{name}", __package__).draw(folder)
    return drawn
