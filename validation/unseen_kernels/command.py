"""``unseen_kernels``: predictions for timed kernels that no coefficient was fitted to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.output import progress_bar
from perfmodel.errors import InputError
from perfmodel.prediction.scenario import Scenario, scenario_of
from perfmodel.records.own_records import read_records

from .benchmarks import benchmark_launches
from .launches import LeftOut, UnseenLaunch, UnseenPrediction, predict_unseen
from .table import kernel_table, launch_table, left_out_lines
from .variants import variant_launches


def unseen_kernels(
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU that was measured.")],
    records: Annotated[
        list[Path] | None, typer.Option("--records", help="Records with micro-benchmarks; may be repeated.")
    ] = None,
    variants: Annotated[
        Path | None, typer.Option("--variants", metavar="FILE.json.gz", help="Timed variants of the pointwise kernel.")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=3, help="Variants that are drawn.")] = 60,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the draw.")] = 0,
    only: Annotated[str, typer.Option("--only", help="Kernels or kinds, separated by commas.")] = "",
    each: Annotated[bool, typer.Option("--each", help="Every launch with its largest terms, too.")] = False,
    calibration: Annotated[str | None, typer.Option("--calibration", metavar="FILE.toml")] = None,
) -> None:
    """Print, as Markdown, how predictions fare for kernels that nothing was fitted to; needs the compiler and no GPU.

    Micro-benchmarks and variants are compiled, executed and predicted as `perfmodel analyze` does with a user's kernel.
    """
    scenario = scenario_of(gpu, calibration=calibration)
    launches: list[UnseenLaunch] = []
    if records:
        launches += benchmark_launches([record for path in records for record in read_records(path)], scenario.gpu)
    if variants is not None:
        launches += variant_launches(variants, sample, seed)
    wanted = only.split(",") if only else None
    launches = [one for one in launches if wanted is None or one.group in wanted]
    if not launches:
        raise InputError("no timed launches: name --records with micro-benchmarks or --variants")
    found, left_out = _predictions(launches, scenario)
    typer.echo(kernel_table(found), nl=False)
    if each:
        typer.echo("\n" + launch_table(found), nl=False)
    if left_out:
        typer.echo("\nLeft out:\n\n" + left_out_lines(left_out), nl=False)


def _predictions(launches: Sequence[UnseenLaunch], scenario: Scenario) -> tuple[list[UnseenPrediction], list[LeftOut]]:
    found: list[UnseenPrediction] = []
    left_out: list[LeftOut] = []
    with progress_bar("predicted, unseen_kernels", len(launches)) as advance:
        for launch in launches:
            outcome = predict_unseen(launch, scenario)
            if isinstance(outcome, LeftOut):
                left_out.append(outcome)
            else:
                found += outcome
            advance()
    return found, left_out
