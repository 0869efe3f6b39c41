"""``perfmodel validate``: predictions against measurements, for people and for continuous integration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.choices import one_of
from ..errors import InputError
from .options import (
    CalibrationOption,
    ClockOption,
    CsvOption,
    FidelityOption,
    JsonOption,
    L2Option,
    SeedOption,
    SourceArgument,
    SpaceOption,
    require_one,
    require_one_format,
    scenario_from,
    source_families,
)
from .output import note, print_csv, print_json, print_table, progress_bar
from .pairs import FilesOption, FilterOption, GpusOption, read_pairs
from .study import STUDIES, accuracies_of, markdown_of, require_bounded, show, studies_of
from .targets import require_writable, write_target

CHECK_FAILED_STATUS = 1


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("validate")(validate)


def validate(
    family_name: SourceArgument,
    gpu: GpusOption,
    measurements: FilesOption,
    space: SpaceOption = None,
    fidelity: FidelityOption = "compiled",
    row_filter: FilterOption = None,
    sample: Annotated[int | None, typer.Option(min=2, help="Draw this many rows of each file.")] = None,
    seed: SeedOption = 0,
    max_mape: Annotated[
        float | None, typer.Option(min=0.0, help="Exit 1 if mape_scaled is above (a fraction).")
    ] = None,
    min_tau: Annotated[float | None, typer.Option(min=-1.0, max=1.0, help="Exit 1 if kendall_tau is below.")] = None,
    study: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(STUDIES), help="Fit to these runs, predict those that were held out; may be repeated."
        ),
    ] = None,
    residual: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Also show what `perfmodel fit --residual` learned.")
    ] = None,
    residual_runs: Annotated[
        int | None,
        typer.Option(min=20, metavar="N", help="Also learn a residual from N drawn runs; needs the extra `learn`."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Write what the studies found as Markdown.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", "--recount", help="Compile and execute anew; exit 1 if the store differs.")
    ] = False,
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Compare predictions with the measurements in FILE: errors, rank correlation, regret, counters.

    With --study or --residual-runs the coefficients are fitted to the given runs, several pairs of --gpu and --measurements
    if there are, and errors are those of runs that were held out.
    """
    from ..families.profiling import fidelity_of
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    (chosen,) = source_families(require_one(family_name), space)
    depth = fidelity_of(chosen, one_of(Fidelity, "--fidelity", fidelity))
    if study or residual_runs is not None:
        unused = {"--calibration": calibration, "--sm-clock-mhz": sm_clock_mhz, "--residual": residual}
        _refuse("studies are printed as tables or as --json", {"--csv": as_csv or None})
        _refuse("a study fits its own coefficients to the runs", unused | {"--verify": verify or None})
        if max_mape is not None or min_tau is not None:
            require_bounded(study or [])
        if report is not None:
            require_writable("--report", report, measurements)
        pairs = read_pairs([chosen], gpu, measurements, [row_filter] if row_filter else [], sample, seed, l2)
        found = studies_of(chosen, pairs, depth, study or [], residual_runs, row_filter, seed)
        if report is not None:
            write_target("--report", report, markdown_of(found))
        show(found, as_json)
        for name, accuracy in accuracies_of(found):
            _check(f"{name} mape_scaled", accuracy.mape_scaled, max_mape, above=True)
            _check(f"{name} kendall_tau", accuracy.kendall_tau, min_tau, above=False)
        return
    _refuse("needs --study", {"--report": report})
    if len(gpu) != 1 or len(measurements) != 1:
        raise InputError(
            f"{len(gpu)} times --gpu and {len(measurements)} times --measurements: without --study one each"
        )
    scenario = scenario_from(gpu[0], sm_clock_mhz, l2, calibration)
    result = _validated(chosen, scenario, measurements[0], depth, (row_filter, sample, seed), verify)
    for text in result.notes:
        note(text)
    learned = (
        None
        if residual is None
        else _learned(chosen, scenario, measurements[0], depth, (row_filter, sample, seed), residual)
    )
    if as_json:
        print_json(result.to_json() | ({} if learned is None else {"residual": learned.to_json()}))
    elif as_csv:
        print_csv(result.to_rows())
    else:
        _print(result)
        if learned is not None:
            print_table(f"with the residual learned in {residual}", ("", ""), _accuracy_rows(learned))
    _check("mape_scaled", result.accuracy.mape_scaled, max_mape, above=True)
    _check("kendall_tau", result.accuracy.kendall_tau, min_tau, above=False)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{name}: {why}" if why.startswith("needs") else f"{name} has no place here: {why}")


_Choice = tuple[str | None, int | None, int]
"""Query, number of rows to draw, seed."""


def _validated(chosen: Any, scenario: Any, path: Path, depth: Any, choice: _Choice, verify: bool) -> Any:
    from ..accuracy.validating import validate_measurements
    from ..records.measurements import read_measurements

    rows = read_measurements(path, chosen, scenario.l2).drawn(*choice)
    if verify:
        _verify(chosen, rows, scenario.gpu)
    with progress_bar(f"{depth.value} predictions", len(rows)) as advance:
        return validate_measurements(chosen, rows, scenario, depth, advance)


def _learned(chosen: Any, scenario: Any, path: Path, depth: Any, choice: _Choice, residual: Path) -> Any:
    """Agreement of the predictions that a learned residual corrects, on the rows that can be predicted."""
    from ..accuracy.metrics import accuracy
    from ..calibration.measured_runs import measured_runs
    from ..calibration.residual_learning import corrected_s
    from ..prediction.residual import read_residual
    from ..records.measurements import read_measurements

    known = read_residual(residual)
    data = measured_runs(
        scenario.gpu.id, chosen, read_measurements(path, chosen, scenario.l2).drawn(*choice), scenario, depth
    )
    return accuracy(corrected_s(data, known), data.runs.seconds, data.problem_index)


def _verify(chosen: Any, rows: Any, gpu: Any) -> None:
    from ..accuracy.verification import verify_store

    with progress_bar("verified", len(rows)) as advance:
        found = verify_store(chosen, rows, gpu, advance)
    if not found.compared:
        raise InputError(f"--verify: the counts store has none of these {len(rows)} rows for {gpu.id}")
    note(f"verified {found.compared} stored configurations: {len(found.differences)} differ")
    for text in found.differences:
        note(text)
    if found.differences:
        raise typer.Exit(CHECK_FAILED_STATUS)


def _check(name: str, value: float, bound: float | None, *, above: bool) -> None:
    if bound is not None and not (value <= bound if above else value >= bound):
        note(f"check failed: {name} = {value:.4f} is {'above' if above else 'below'} {bound:g}")
        raise typer.Exit(CHECK_FAILED_STATUS)


def _print(result: Any) -> None:
    rows = [
        ("rows compared", f"{result.accuracy.n:,}"),
        ("rows rejected", f"{result.rejected:,}"),
        *_accuracy_rows(result.accuracy),
    ]
    print_table(f"{result.kernel} on {result.gpu} ({result.fidelity.value})", ("", ""), rows)
    if result.counts:
        lines = [
            (
                c.count,
                f"{c.n:,}",
                f"{c.exact_fraction:.1%}",
                f"{c.median_relative_error:.3%}",
                f"{c.max_relative_error:.2%}",
            )
            for c in result.counts
        ]
        print_table("counts against hardware counters", ("count", "n", "exact", "median error", "largest error"), lines)


def _accuracy_rows(found: Any) -> list[tuple[str, str]]:
    regrets = f"{found.regret_top1:.3f} / {found.regret_top5:.3f} / {found.regret_top10:.3f}"
    return [
        ("MAPE", f"{found.mape:.2%}"),
        ("MAPE after one scale factor", f"{found.mape_scaled:.2%}"),
        ("median error", f"{found.median_ape:.2%}"),
        ("90 % quantile of the error", f"{found.p90_ape:.2%}"),
        ("scale (median measured / predicted)", f"{found.scale:.3f}"),
        ("Kendall tau-b", f"{found.kendall_tau:.4f}"),
        ("Spearman", f"{found.spearman:.4f}"),
        ("regret top-1 / top-5 / top-10", regrets),
        *_rows_within(found.within_problems),
    ]


def _rows_within(found: Any) -> list[tuple[str, str]]:
    """What holds inside problems, where there are any of enough runs."""
    if found is None:
        return []
    rows = [("tau-b", found.problems, found.kendall_tau_mean, found.kendall_tau_worst)]
    rows.append(("regret top-1", found.regret_problems, found.regret_top1_mean, found.regret_top1_worst))
    rows.append(("regret top-5", found.regret_problems, found.regret_top5_mean, found.regret_top5_worst))
    return [
        (f"{name} inside problems ({number})", f"{mean:.3f} mean, {worst:.3f} worst")
        for name, number, mean, worst in rows
        if number
    ]
