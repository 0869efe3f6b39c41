"""What a campaign compiles beforehand, on any machine with the compiler: plans of kernels that the other steps run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from perfmodel.cli.output import note, progress_bar
from perfmodel.prediction.scenario import Scenario, scenario_of

from .campaign_plan import TIMED_PROBLEMS, CampaignSizes, checked_choices, timed_choices
from .micro.suite import micro_suite
from .prepared import PreparedFolder, PreparedKernel, Purpose
from .preparing import Choice, flush_benchmark, prepare_benchmarks, prepare_choices

SIZES = CampaignSizes()
ALL_FAMILIES = ",".join(TIMED_PROBLEMS)

GpuOption = Annotated[str, typer.Option("--gpu", help="Id of the GPU that the campaign will run on.")]
FolderOption = Annotated[Path, typer.Option("--folder", help="Folder of prepared kernels.")]
FamiliesOption = Annotated[str, typer.Option("--families", help="Families, separated by commas.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the campaign's program."""
    app.command()(prepare)


def prepare(
    gpu: GpuOption,
    folder: FolderOption,
    families: FamiliesOption = ALL_FAMILIES,
    best: Annotated[int, typer.Option(min=1)] = SIZES.best_per_problem,
    drawn: Annotated[int, typer.Option(min=0)] = SIZES.drawn_per_problem,
    checks: Annotated[int, typer.Option(min=0)] = SIZES.checks_per_family,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Compile everything that the campaign runs; needs the compiler and no GPU."""
    scenario = scenario_of(gpu)
    sizes = CampaignSizes(best_per_problem=best, drawn_per_problem=drawn, checks_per_family=checks)
    target = PreparedFolder(folder)
    names = families.split(",")
    choices: list[Choice] = [
        *timed_choices(scenario, sizes, seed, names),
        *checked_choices(scenario, sizes, seed, names),
    ]
    micro = [
        *prepare_benchmarks(micro_suite(scenario.gpu), Purpose.MICRO, scenario.gpu, target),
        *prepare_benchmarks([flush_benchmark(scenario.gpu)], Purpose.FLUSH, scenario.gpu, target),
    ]
    kernels = _compiled(choices, scenario, target, workers)
    target.write_plan([*micro, *kernels])
    broken = sum(kernel.failure is not None for kernel in kernels)
    note(f"{len(micro)} micro-benchmarks and {len(kernels)} kernels in {folder}, {broken} of them did not compile")


def _compiled(
    choices: Sequence[Choice], scenario: Scenario, target: PreparedFolder, workers: int | None
) -> list[PreparedKernel]:
    """The kernels of all choices in the folder, with progress."""
    with progress_bar("compiled", sum(len(choice.configurations) for choice in choices)) as advance:
        return prepare_choices(choices, scenario, target, workers=workers, advance=advance)
