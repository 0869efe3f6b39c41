"""``perfmodel validate``: predictions against measurements, for people and for continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..choices import one_of
from .options import (
    CalibrationOption,
    ClockOption,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    SeedOption,
    conditions_from,
)
from .output import note, print_json, print_table, progress_bar

CHECK_FAILED_STATUS = 1


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("validate")(validate)


def validate(
    family_name: Annotated[str, typer.Argument(metavar="FAMILY", help="A name of `perfmodel families`.")],
    gpu: GpuOption,
    measurements: Annotated[Path, typer.Option(metavar="FILE", help="CSV, Kernel Tuner cache or own records.")],
    fidelity: FidelityOption = "compiled",
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Rows to take: a pandas query on the columns.")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=2, help="Draw this many rows.")] = None,
    seed: SeedOption = 0,
    max_mape: Annotated[
        float | None, typer.Option(min=0.0, help="Exit 1 if mape_scaled is above (a fraction).")
    ] = None,
    min_tau: Annotated[float | None, typer.Option(min=-1.0, max=1.0, help="Exit 1 if kendall_tau is below.")] = None,
    recount: Annotated[
        bool, typer.Option("--recount", help="Compile and execute anew; exit 1 if the store differs.")
    ] = False,
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare predictions with the measurements in FILE: errors, rank correlation, regret, counters."""
    from ..families.registry import family
    from ..prediction import Fidelity
    from ..records import read_measurements
    from ..validating import validate_under

    chosen = family(family_name)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    under = conditions_from(gpu, sm_clock_mhz, l2, calibration)
    rows = _rows(read_measurements(measurements, chosen, under.l2), where, sample, seed)
    if recount:
        _recount(chosen, rows, under.gpu)
    with progress_bar(f"{depth.value} predictions", len(rows)) as advance:
        result = validate_under(chosen, rows, under, depth, advance)
    for text in result.notes:
        note(text)
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)
    _check("mape_scaled", result.accuracy.mape_scaled, max_mape, above=True)
    _check("kendall_tau", result.accuracy.kendall_tau, min_tau, above=False)


def _rows(measurements: Any, where: str | None, sample: int | None, seed: int) -> Any:
    import numpy as np

    rows = measurements if where is None else measurements.where(where)
    if sample is not None and sample < len(rows):
        chosen = np.random.default_rng(seed).choice(len(rows), size=sample, replace=False)
        rows = rows.take(np.sort(chosen))
    return rows


def _recount(chosen: Any, rows: Any, gpu: Any) -> None:
    from ..recounting import recount_store

    with progress_bar("recounted", len(rows)) as advance:
        found = recount_store(chosen, rows, gpu, advance)
    note(f"recounted {found.compared} stored configurations: {len(found.differences)} differ")
    for text in found.differences:
        note(text)
    if found.differences:
        raise typer.Exit(CHECK_FAILED_STATUS)


def _check(name: str, value: float, bound: float | None, *, above: bool) -> None:
    if bound is not None and not (value <= bound if above else value >= bound):
        note(f"check failed: {name} = {value:.4f} is {'above' if above else 'below'} {bound:g}")
        raise typer.Exit(CHECK_FAILED_STATUS)


def _print(result: Any) -> None:
    found = result.accuracy
    rows = [
        ("rows compared", f"{found.n:,}"),
        ("rows rejected", f"{result.rejected:,}"),
        ("MAPE", f"{found.mape:.2%}"),
        ("MAPE after one scale factor", f"{found.mape_scaled:.2%}"),
        ("median error", f"{found.median_ape:.2%}"),
        ("90 % quantile of the error", f"{found.p90_ape:.2%}"),
        ("scale (median measured / predicted)", f"{found.scale:.3f}"),
        ("Kendall tau-b", f"{found.kendall_tau:.4f}"),
        ("Spearman", f"{found.spearman:.4f}"),
        (
            "regret top-1 / top-5 / top-10",
            f"{found.regret_top1:.3f} / {found.regret_top5:.3f} / {found.regret_top10:.3f}",
        ),
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
