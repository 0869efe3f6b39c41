"""``perfmodel fit``: the coefficients of the time model fitted to measurements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .options import EXTRA_WORDS, FidelityOption, JsonOption, SeedOption, SpaceOption, for_each, source_families
from .output import note, print_json, print_table, progress_bar, require_writable, write_target

GpusOption = Annotated[
    list[str], typer.Option("--gpu", metavar="NAME|FILE.toml|auto", help="GPU of a file; once for each file.")
]
FilesOption = Annotated[
    list[Path],
    typer.Option(
        "--measurements", metavar="FILE", help="CSV, Kernel Tuner cache, or records of `measure`; one for each --gpu."
    ),
]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "--where",
        metavar="EXPR",
        help="Only rows for which this holds, as for `validate`: one, or one for each --gpu ('' takes all).",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("fit", context_settings=EXTRA_WORDS)(fit)


def fit(
    context: typer.Context,
    family_name: Annotated[
        str,
        typer.Argument(
            metavar="FAMILY[,FAMILY…]",
            help="Names of `perfmodel families`, FILE.cu or TUNE.py: one, or one for each --gpu.",
        ),
    ],
    gpu: GpusOption,
    measurements: FilesOption,
    output: Annotated[Path, typer.Option(metavar="FILE.toml", help="Where the calibration is written.")],
    space: SpaceOption = None,
    fidelity: FidelityOption = "compiled",
    where: FiltersOption = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPU",
            help="A --gpu that is left out of the fit: its runs give the interval of GPUs that were not measured.",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=10, help="Use this many rows of each file, drawn at random.")
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit the time model to measurements and write a calibration for `--calibration`.

    Give one --measurements for each --gpu, in the same order; FAMILY and --filter once, or once for each --gpu. The errors shown
    are those of launches that were held out of the fit. Words after the options are arguments of TUNE.py.
    """
    from ..calibration.fit import calibrate, calibration_text, fits
    from ..calibration.fitted import measured_file, runs_of
    from ..core.choices import one_of
    from ..prediction.scenario import scenario_of
    from ..profiles.kernel_profile import Fidelity

    chosen = source_families(family_name, space, context.args)
    require_writable("--output", output, measurements)
    if len(gpu) != len(measurements):
        raise InputError(f"{len(gpu)} times --gpu and {len(measurements)} times --measurements: one for each is needed")
    families = for_each("families", chosen, len(gpu))
    filters = for_each("--filter", where or [""], len(gpu))
    pairs = [
        measured_file(file, family, scenario_of(name), query, sample, seed)
        for file, family, name, query in zip(measurements, families, gpu, filters, strict=True)
    ]
    data = runs_of(pairs, one_of(Fidelity, "--fidelity", fidelity), progress_bar)
    with progress_bar("fits", fits(data, held_out or ())) as advance:
        found = calibrate(data, seed=seed, held_out=held_out or (), advance=advance)
    write_target("--output", output, calibration_text(found))
    for text in found.notes:
        note(text)
    if as_json:
        print_json(found.to_json())
    else:
        _print(found)


def _print(found: Any) -> None:
    content = found.to_json()
    own = content.get("architectures", {})
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
    if "held_out" in content:
        unfitted = [
            (name, e["gpu"], e["runs"], f"{math.exp(e['log_error_90']):.3f}") for name, e in content["held_out"].items()
        ]
        print_table("not fitted to", ("name", "GPU", "runs", "90 % within a factor of"), unfitted, left=2)
    typer.echo(f"90 % of the runs held out were within a factor of {math.exp(found.log_error_90):.3f}")


def _with_uncertainty(entry: dict[str, float]) -> str:
    """A value with the standard error of its logarithm, where it was fitted."""
    error = entry.get("log_standard_error")
    return f"{entry['value']:.4g}" + ("" if error is None else f" ± {error:.0%}")
