"""``perfmodel tune``: the fastest configuration with few runs, on this machine's GPU or replayed from a cache file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfmodel.cli.options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    FamilyCommand,
    JsonOption,
    L2Option,
    SeedOption,
    SpaceOption,
    family_completion,
    scenario_from,
    source_problem,
)
from perfmodel.cli.output import note, print_json, print_table, progress_bar, require_writable
from perfmodel.core.units import time_text
from perfmodel.errors import InputError

if TYPE_CHECKING:
    from perfmodel.prediction.scenario import Scenario

    from .tuning_session import Candidates, TuningLimits, TuningReport

SHOWN = 5
"""Configurations in the table."""
MOST_REASONS = 3
NOTHING_RAN_STATUS = 1
"""Exit status where no configuration has a time."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("tune", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(tune)


def tune(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[FAMILY|FILE.cu|TUNE.py]",
            autocompletion=family_completion,
            help="What to tune: a family, a source of your own with --space, or a script that calls Kernel Tuner. "
            "Not needed with --replay.",
        ),
    ] = None,
    space: SpaceOption = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="Kernel Tuner cache that every run is added to; what it holds is not run again."
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Take the times from this cache of a whole space; needs no GPU."),
    ] = None,
    gpu: Annotated[
        str,
        typer.Option("--gpu", metavar="auto|NAME|FILE.toml", help="GPU to predict for; auto: this machine's."),
    ] = "auto",
    reference: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PARAMETER=FILE.npy",
            help="What an output must hold; by default what the first configuration computes.",
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(min=0.0, help="Largest accepted error of an output, relative to its largest value.")
    ] = 1e-4,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare every configuration's outputs with the reference.")
    ] = True,
    runs: Annotated[int, typer.Option(min=1, help="Measure at most this many.")] = 200,
    time_limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which no run begins.")] = 600.0,
    gain: Annotated[
        float,
        typer.Option(min=0.0, help="Stop when none is expected to beat the best by more than this fraction; 0: never."),
    ] = 0.003,
    executions: Annotated[
        int, typer.Option(min=0, help="Configurations to execute on the CPU first, for predictions; 0: none.")
    ] = 48,
    l2: L2Option = "warm",
    calibration: CalibrationOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Find the fastest configuration of a kernel with few runs on this machine's GPU.

    The first run is the configuration that is predicted fastest; each run corrects the predictions, and tuning ends where no
    other is expected to be faster. After an interruption the same command goes on. Without a GPU it ends with an error;
    --replay needs none.
    """
    from .tuning_session import TuningLimits

    if source is None and replay is None:
        raise InputError("what to tune is missing: FAMILY, FILE.cu with --space, or TUNE.py; or --replay FILE.json")
    if cache is None and replay is None:
        raise InputError("--cache FILE.json is missing: every run is written there")
    if cache is not None and replay is not None:
        raise InputError("--cache and --replay exclude each other: a replay measures nothing")
    limits = TuningLimits(runs=runs, time_limit_s=time_limit, gain=gain, seed=seed)
    problem = None if source is None else source_problem(source, space, context.args)
    if replay is not None:
        scenario = None if problem is None else scenario_from(_named(gpu), None, l2, calibration)
        report = _replay(replay, problem, scenario, executions, limits)
    else:
        expected = _references(reference or [])
        require_writable("--cache", cache or Path())
        given = (gpu, l2, calibration)
        report = _measure(problem, cache or Path(), given, expected, tolerance if check else None, executions, limits)
    if as_json:
        print_json(report.to_json())
    else:
        _show(report, limits)
    if not report.fastest:
        raise typer.Exit(NOTHING_RAN_STATUS)


def _named(gpu: str) -> str:
    if gpu == "auto":
        raise InputError("--gpu NAME is missing: a replay predicts for the GPU of the cache file, which may be any")
    return gpu


def _references(texts: Sequence[str]) -> Mapping[str, Any]:
    import numpy as np

    found = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or not path:
            raise InputError(f"--reference {text!r}: the output's parameter is missing; give PARAMETER=FILE.npy")
        try:
            found[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"--reference {text}: {error}") from error
    return found


def _replay(path: Path, problem: Any, scenario: Scenario | None, executions: int, limits: TuningLimits) -> TuningReport:
    from dataclasses import replace

    from perfmodel.records.tuning_cache import read_tuning_cache

    from .tuning_session import candidates_of, candidates_of_cache, tune_candidates

    whole = read_tuning_cache(path)
    if scenario is None:
        candidates = candidates_of_cache(whole)
    else:
        candidates = _predicted(candidates_of(problem, scenario).among(whole), problem, scenario, executions)
    begun = replace(whole, runs={})
    with progress_bar("replayed", None) as advance:
        return tune_candidates(
            candidates, begun, lambda index: whole.runs[candidates.values[index]], limits, lambda _: None, advance
        )


def _measure(
    problem: Any,
    path: Path,
    given: tuple[str, str, Path | None],
    expected: Mapping[str, Any],
    tolerance: float | None,
    executions: int,
    limits: TuningLimits,
) -> TuningReport:
    from perfmodel.records.tuning_cache import read_tuning_cache, write_tuning_cache

    from .device import require_device
    from .tuned_kernel import DeviceTuning
    from .tuning_session import candidates_of, empty_cache, tune_candidates

    device = require_device()
    gpu, l2, calibration = given
    scenario = scenario_from(device.gpu_id if gpu == "auto" else gpu, None, l2, calibration)
    if scenario.gpu.architecture.name != device.architecture:
        raise InputError(
            f"--gpu {gpu}: is {scenario.gpu.architecture.name}, the GPU of this machine is {device.architecture}"
        )
    candidates = candidates_of(problem, scenario)
    cache = empty_cache(problem, candidates, device.name)
    if path.exists():
        before = read_tuning_cache(path)
        before.require_same_tuning(cache, path)
        cache = before
    candidates = _predicted(candidates, problem, scenario, executions)
    with (
        DeviceTuning(
            problem, scenario.gpu, l2=scenario.l2, tolerance=tolerance, expected=expected, seed=limits.seed
        ) as tuning,
        progress_bar("measured", None) as advance,
    ):
        first = next((values for values, run in cache.runs.items() if run.seconds is not None), None)
        if first is not None and first in candidates.values:
            tuning.run(
                candidates.records[candidates.values.index(first)]
            )  # the others are compared with what it computes
        return tune_candidates(
            candidates,
            cache,
            lambda index: tuning.run(candidates.records[index]),
            limits,
            lambda now: write_tuning_cache(path, now),
            advance,
        )


def _predicted(candidates: Candidates, problem: Any, scenario: Scenario, executions: int) -> Candidates:
    from .tuning_session import with_predictions

    with progress_bar("executed on the CPU", min(executions, len(candidates.values))) as advance:
        return with_predictions(candidates, problem, scenario, executions, advance)


def _show(report: TuningReport, limits: TuningLimits) -> None:
    from perfmodel.tuning.tuning_run import TuningEnd

    why = {
        TuningEnd.SETTLED: f"no other is expected to be faster by more than {limits.gain:.1%}",
        TuningEnd.RUNS: f"--runs {limits.runs} are done",
        TuningEnd.TIME: f"--time-limit {limits.time_limit_s:g} is over",
        TuningEnd.ALL_MEASURED: "all are measured",
    }
    total = len(report.cache.runs)
    for message, times in report.failures.most_common(MOST_REASONS):
        note(f"{times} of {total} have no time: {message}")
    before = f", {report.known:,} before" if report.known else ""
    typer.echo(
        f"{report.cache.kernel_name} on {report.cache.device_name}: {len(report.candidates.values):,} candidates, "
        f"{report.measured:,} measured{before}; {why[report.end]}"
    )
    if not report.fastest:
        return
    rows = []
    for place, values in enumerate(report.fastest[:SHOWN], 1):
        predicted = report.predicted_s(values)
        measured = report.cache.runs[values].seconds or 0.0
        rows.append((place, *values, "–" if predicted is None else time_text(predicted), time_text(measured)))
    print_table("fastest measured", ("#", *report.candidates.names, "predicted", "measured"), rows)
