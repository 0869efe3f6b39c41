"""``perfmodel validate``: predictions against measurements, for people and for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..core.choices import one_of
from ..errors import InputError
from .options import (
    EXTRA_WORDS,
    CalibrationOption,
    ClockOption,
    CsvOption,
    FidelityOption,
    FilterOption,
    GpuOption,
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

CHECK_FAILED_STATUS = 1


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("validate", context_settings=EXTRA_WORDS)(validate)


def validate(
    context: typer.Context,
    family_name: SourceArgument,
    gpu: GpuOption,
    measurements: Annotated[
        Path, typer.Option(metavar="FILE", help="CSV, Kernel Tuner cache, or records of `measure`.")
    ],
    space: SpaceOption = None,
    fidelity: FidelityOption = "compiled",
    row_filter: FilterOption = None,
    sample: Annotated[int | None, typer.Option(min=2, help="Use this many rows of the file, drawn at random.")] = None,
    seed: SeedOption = 0,
    max_mape: Annotated[
        float | None,
        typer.Option(min=0.0, help="Exit status 1 if the MAPE after one scale factor is above; 0.1 is 10 %."),
    ] = None,
    min_tau: Annotated[
        float | None, typer.Option(min=-1.0, max=1.0, help="Exit status 1 if Kendall's tau-b is below.")
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            "--recount",
            help="Compile and execute again the rows whose counts are shipped; exit status 1 if any differ.",
        ),
    ] = False,
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Compare predictions with the measurements in FILE: errors, rank correlation, regret, counters.

    Words after the options are arguments of TUNE.py.
    """
    from ..families.profiling import fidelity_of
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    (chosen,) = source_families(require_one(family_name), space, context.args)
    depth = fidelity_of(chosen, one_of(Fidelity, "--fidelity", fidelity))
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    result = _validated(chosen, scenario, measurements, depth, (row_filter, sample, seed), verify)
    for text in result.notes:
        note(text)
    if as_json:
        print_json(result.to_json())
    elif as_csv:
        print_csv(result.to_rows())
    else:
        _print(result)
    _check("mape_scaled", result.accuracy.mape_scaled, max_mape, above=True)
    _check("kendall_tau", result.accuracy.kendall_tau, min_tau, above=False)


_Choice = tuple[str | None, int | None, int]
"""Query, number of rows to draw, seed."""


def _validated(chosen: Any, scenario: Any, path: Path, depth: Any, choice: _Choice, verify: bool) -> Any:
    from ..accuracy.validating import validate_measurements
    from ..records.measurements import read_measurements

    rows = read_measurements(path, chosen, scenario.l2).drawn(*choice)
    if verify:
        _verify(chosen, rows, scenario.gpu)
    with progress_bar(f"{depth.value} predictions", int(rows.ran.sum())) as advance:
        return validate_measurements(chosen, rows, scenario, depth, advance)


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
