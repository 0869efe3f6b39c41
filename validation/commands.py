"""``perfmodel measure``: configurations of a family run, checked and timed on the GPU of this machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from perfmodel.cli.options import EXTRA_OPTIONS, FamilyCommand, JsonOption, SeedOption, problem_from
from perfmodel.cli.output import note, print_json, print_table, progress_bar
from perfmodel.cli.targets import require_writable
from perfmodel.core.units import time_text
from perfmodel.errors import InputError

DEFAULT_TOP = 10
MOST_REASONS = 3
"""Different reasons for which records have no time that are said, the most frequent first."""


def register(app: typer.Typer) -> None:
    """Add the commands that need a GPU to the program."""
    app.command("measure", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(measure)


def measure(
    context: typer.Context,
    family_name: Annotated[str, typer.Argument(metavar="FAMILY", help="A name of `perfmodel families`.")],
    records: Annotated[
        Path, typer.Option(metavar="FILE.jsonl", help="Records are appended here; what is there stays.")
    ],
    gpu: Annotated[
        str, typer.Option("--gpu", metavar="auto|ID|FILE.toml", help="What the GPU of this machine is predicted as.")
    ] = "auto",
    top: Annotated[
        int | None, typer.Option(min=1, help="Measure this many of the predicted best [default: 10].")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Measure this many, drawn at random from all that fit.")
    ] = None,
    spread: Annotated[
        int | None,
        typer.Option(min=1, help="Measure this many that are unlike one another: to learn a residual from."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Measure every configuration that fits.")] = False,
    time_limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which to stop; run again to resume.")] = 600,
    kernel_tuner_cache: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Write the records as a cache of Kernel Tuner, too.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run configurations of FAMILY on this machine's GPU: check each result, time it, write a record.

    The problem's options (--height 2160 --filter-width 5 …) are listed by `perfmodel families`. What FILE.jsonl already
    holds is not run again. Without a GPU the command says so in one line and ends with status 2.
    """
    from perfmodel.families.registry import family
    from perfmodel.prediction.scenario import scenario_of

    from .device import require_device
    from .measuring import MeasureRequest, measure_choice

    chosen = family(family_name)
    problem = problem_from(chosen.problem_type, chosen.default_problem(), context.args)
    require_writable("--records", records)
    if kernel_tuner_cache is not None:
        require_writable("--kernel-tuner-cache", kernel_tuner_cache, [records])
    device = require_device()
    scenario = scenario_of(device.gpu_id if gpu == "auto" else gpu)
    if scenario.gpu.architecture.name != device.architecture:
        raise InputError(
            f"--gpu {gpu}: is {scenario.gpu.architecture.name}, the GPU of this machine is {device.architecture}"
        )
    request = MeasureRequest(
        problem=problem,
        configurations=tuple(_chosen(problem, scenario, top, sample, spread, every, seed)),
        scenario=scenario,
        device=device,
        records=records,
        time_limit_s=time_limit,
        seed=seed,
    )
    with progress_bar("measured", len(request.configurations)) as advance:
        summary = measure_choice(request, advance)
    note(
        f"{summary.done} run ({summary.failed} failed), {summary.already_recorded} recorded before, {summary.left} left"
    )
    _show(chosen, problem, records, as_json)
    if kernel_tuner_cache is not None:
        _export(chosen, records, kernel_tuner_cache)


def _chosen(
    problem: Any, scenario: Any, top: int | None, sample: int | None, spread: int | None, every: bool, seed: int
) -> list[Any]:
    from .measuring import all_of, best_of, sample_of, spread_of

    if sum(count is not None for count in (top, sample, spread)) + every > 1:
        raise InputError("--top, --sample, --spread and --all exclude one another")
    if every:
        return all_of(problem, scenario)
    if spread:
        return spread_of(problem, scenario, spread, seed)
    return sample_of(problem, scenario, sample, seed) if sample else best_of(problem, scenario, top or DEFAULT_TOP)


def _show(family: Any, problem: Any, path: Path, as_json: bool) -> None:
    """The records of the problem, fastest first, and why others have no time."""
    from perfmodel.core.documents import to_builtins
    from perfmodel.core.json_values import plain
    from perfmodel.launch.launch import L2State
    from perfmodel.records.own_records import read_records

    wanted = plain(problem)
    found = [r for r in read_records(path) if r.name == family.name and dict(r.problem) == wanted]
    reasons = Counter(record.failure.message for record in found if record.failure is not None)
    for message, times in reasons.most_common(MOST_REASONS):
        note(f"{times} of {len(found)} records have no time: {message}")
    if as_json:
        print_json({"family": family.name, "problem": wanted, "records": [to_builtins(record) for record in found]})
        return
    timed = [(timing.median_s, record) for record in found if (timing := record.timing(L2State.COLD)) is not None]
    timed.sort(key=lambda pair: pair[0])
    names = list(timed[0][1].configuration) if timed else []
    rows = [(n, *record.configuration.values(), time_text(s)) for n, (s, record) in enumerate(timed, 1)]
    print_table(f"{family.name}: measured, cold L2", ("#", *names, "median"), rows)


def _export(family: Any, path: Path, target: Path) -> None:
    from perfmodel.records.kernel_tuner_export import write_kernel_tuner_cache
    from perfmodel.records.measurements import read_measurements

    write_kernel_tuner_cache(target, read_measurements(path, family), family)
