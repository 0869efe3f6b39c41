"""``perfmodel fit``: the coefficients of the time model fitted to measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .options import FidelityOption, JsonOption, SeedOption
from .output import print_json, print_table, progress_bar

if TYPE_CHECKING:
    from ..measured_runs import MeasuredRuns


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("fit")(fit)


def fit(
    family_name: Annotated[str, typer.Argument(metavar="FAMILY", help="A name of `perfmodel families`.")],
    gpu: Annotated[list[str], typer.Option("--gpu", metavar="ID|FILE.toml", help="GPU of a file; once for each file.")],
    measurements: Annotated[
        list[Path], typer.Option(metavar="FILE", help="CSV, Kernel Tuner cache or own records; once for each --gpu.")
    ],
    output: Annotated[Path, typer.Option(metavar="FILE.toml", help="Where the calibration is written.")],
    fidelity: FidelityOption = "compiled",
    where: Annotated[
        str | None, typer.Option(metavar="EXPR", help="Rows to take: a pandas query on the columns.")
    ] = None,
    sample: Annotated[int | None, typer.Option(min=10, help="Draw this many rows of each file.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit the time model to measurements and write a calibration for `--calibration`.

    Each --gpu goes with the --measurements at the same place. Errors are those of groups of launches that were held out.
    """
    from ..calibrating import calibrate, calibration_text

    found = calibrate(data_from(family_name, gpu, measurements, fidelity, where, sample, seed), seed=seed)
    output.write_text(calibration_text(found), encoding="utf-8")
    if as_json:
        print_json(_json(found))
    else:
        _print(found)


def data_from(
    family_name: str,
    gpu: Sequence[str],
    measurements: Sequence[Path],
    fidelity: str,
    where: str | None,
    sample: int | None,
    seed: int,
) -> list[MeasuredRuns]:
    """The data sets that pairs of --gpu and --measurements name, with the facts of every run."""
    from ..choices import one_of
    from ..conditions import conditions
    from ..families.registry import family
    from ..measured_runs import dataset_name, measured_runs
    from ..prediction import Fidelity
    from ..records import read_measurements

    if len(gpu) != len(measurements):
        raise InputError(f"{len(gpu)} times --gpu and {len(measurements)} times --measurements: one for each is needed")
    chosen = family(family_name)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    data = []
    for number, (name, path) in enumerate(zip(gpu, measurements, strict=True), start=1):
        under = conditions(name)
        rows = read_measurements(path, chosen).drawn(where, sample, seed)
        with progress_bar(f"{depth.value} facts, {name}", len(rows)) as advance:
            data.append(measured_runs(dataset_name(under.gpu, number), chosen, rows, under, depth, advance))
    return data


def _json(found: Any) -> dict[str, Any]:
    coefficients = {
        name: {
            "value": getattr(found.fit.coefficients, name),
            "log_standard_error": found.fit.log_standard_errors.get(name),
        }
        for name in found.fit.coefficients.__dataclass_fields__
    }
    datasets = {
        one.runs.name: {
            "gpu": one.runs.gpu.id,
            "runs": len(one.runs.seconds),
            "sha256": one.sha256,
            "scale": found.fit.scales.get(one.runs.name, 1.0),
        }
        for one in found.data
    }
    architectures = {
        architecture: {
            name: {"value": value, "log_standard_error": found.fit.architecture_log_standard_errors[architecture][name]}
            for name, value in own.items()
        }
        for architecture, own in found.fit.architectures.items()
    }
    return {
        "coefficients": coefficients,
        "architectures": architectures,
        "datasets": datasets,
        "held_out_log_error_90": found.log_error_90,
    }


def _print(found: Any) -> None:
    content = _json(found)
    own = content["architectures"]
    rows = [
        (
            name,
            _with_uncertainty(entry),
            *(_with_uncertainty(own[one][name]) if name in own[one] else "" for one in own),
        )
        for name, entry in content["coefficients"].items()
    ]
    print_table("fitted coefficients", ("coefficient", "shared", *own), rows)
    lines = [(name, e["gpu"], e["runs"], f"{e['scale']:.3f}") for name, e in content["datasets"].items()]
    print_table("data sets", ("name", "GPU", "runs", "scale"), lines, left=2)
    typer.echo(f"90 % of the runs held out were within a factor of {math.exp(found.log_error_90):.3f}")


def _with_uncertainty(entry: dict[str, float | None]) -> str:
    """A value with the standard error of its logarithm, where it was fitted."""
    error = entry["log_standard_error"]
    return f"{entry['value']:.4g}" + ("" if error is None else f" ± {error:.0%}")
