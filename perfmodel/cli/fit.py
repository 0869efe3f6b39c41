"""``perfmodel fit``: the coefficients of the time model fitted to measurements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .options import FidelityOption, JsonOption, SeedOption, SpaceOption, source_families
from .output import print_json, print_table, progress_bar
from .pairs import FilesOption, FiltersOption, GpusOption, read_pairs, runs_of
from .targets import require_writable, write_target


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("fit")(fit)


def fit(
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
    residual: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Also learn what the model leaves on one GPU; needs the extra `learn`."),
    ] = None,
    space: SpaceOption = None,
    fidelity: FidelityOption = "compiled",
    where: FiltersOption = None,
    held_out: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GPU",
            help="A --gpu that is not fitted to: its runs say how far GPUs are off that were not measured.",
        ),
    ] = None,
    sample: Annotated[int | None, typer.Option(min=10, help="Draw this many rows of each file.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit the time model to measurements and write a calibration for `--calibration`.

    Each --gpu goes with the --measurements at the same place, and with the family and the --filter there if several are given.
    Errors are those of groups of launches that were held out.
    """
    from ..calibration.fit import calibrate, calibration_text, fits
    from ..core.choices import one_of
    from ..families.profiling import fidelity_of
    from ..profiles.kernel_profile import Fidelity

    chosen = source_families(family_name, space)
    if residual is not None and len(gpu) != 1:
        raise InputError(f"--residual is learned on one GPU; {len(gpu)} times --gpu were given")
    require_writable("--output", output, [*measurements, residual])
    if residual is not None:
        require_writable("--residual", residual, measurements)
    pairs = read_pairs(chosen, gpu, measurements, where or [], sample, seed)
    asked = one_of(Fidelity, "--fidelity", fidelity)
    depths = {fidelity_of(one, asked) for one in chosen}
    if len(depths) > 1:
        raise InputError(f"{family_name} are looked at in different depths; give --fidelity simulated")
    data = runs_of(pairs, depths.pop())
    with progress_bar("fits", fits(data, held_out or ())) as advance:
        found = calibrate(data, seed=seed, held_out=held_out or (), advance=advance)
    if residual is not None:
        from ..calibration.residual_learning import learn
        from ..prediction.residual import write_residual

        write_residual(learn(data[0], found.fit), residual)
    write_target("--output", output, calibration_text(found))
    if as_json:
        print_json(_json(found))
    else:
        _print(found)


def _json(found: Any) -> dict[str, Any]:
    """The calibration that is written, and the interval of all runs held out."""
    from ..calibration.fit import calibration_file
    from ..core.documents import to_builtins

    return to_builtins(calibration_file(found)) | {"held_out_log_error_90": found.log_error_90}  # type: ignore[no-any-return]


def _print(found: Any) -> None:
    content = _json(found)
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
        told = [
            (name, e["gpu"], e["runs"], f"{math.exp(e['log_error_90']):.3f}") for name, e in content["held_out"].items()
        ]
        print_table("not fitted to", ("name", "GPU", "runs", "90 % within a factor of"), told, left=2)
    typer.echo(f"90 % of the runs held out were within a factor of {math.exp(found.log_error_90):.3f}")


def _with_uncertainty(entry: dict[str, float]) -> str:
    """A value with the standard error of its logarithm, where it was fitted."""
    error = entry.get("log_standard_error")
    return f"{entry['value']:.4g}" + ("" if error is None else f" ± {error:.0%}")
