"""``perfmodel network``: every layer of a network with its best configuration, and totals along the critical path."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..core.choices import one_of
from ..core.units import time_text
from ..errors import InputError
from .options import (
    CalibrationOption,
    ClockOption,
    CsvOption,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    require_one_format,
    scenario_from,
)
from .output import print_csv, print_json, print_table, progress_bar


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("network")(network)


def network(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE.toml|FILE.onnx|FILE.py:MODULE", help="What to estimate.")],
    gpu: GpuOption,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size [default: 1, or the file's]")] = None,
    input_shape: Annotated[
        str | None, typer.Option(metavar="N,C,H,W", help="Input shape, for a PyTorch module only.")
    ] = None,
    fidelity: FidelityOption = "analytic",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Estimate a network layer by layer: a shipped one, a TOML list, an ONNX file or a PyTorch module in a Python file.

    Shipped: mobilenet_v1, mobilenet_v2, efficientnet_b0, diffusion_policy_unet, ssim_4k_video. Times are device times of the
    layers that a family covers; the others are named with the reason.
    """
    from ..networks.estimating import estimate, load
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    layers = load(name, batch, _shape(input_shape))
    with progress_bar("layers", len(layers.layers)) as advance:
        report = estimate(layers, scenario, depth, advance)
    if as_json:
        print_json(report.to_json())
    elif as_csv:
        print_csv(report.to_rows())
    else:
        _print(report)


def _shape(text: str | None) -> list[int] | None:
    if text is None:
        return None
    sizes = text.split(",")
    if not all(size.strip().isdecimal() for size in sizes):
        raise InputError(f"--input-shape {text!r} must be positive integers such as 1,3,224,224")
    return [int(size) for size in sizes]


def _print(report: Any) -> None:
    from ..core.json_values import plain

    typer.echo(f"{report.title}, batch {report.batch}, on {report.gpu} ({report.fidelity.value})")
    rows = []
    for entry in report.layers:
        best = entry.best
        if best is None:
            rows.append((entry.layer.name, entry.layer.operation, "–", "–", entry.reason or "", ""))
            continue
        chosen = " ".join(str(v) for v in plain(best.configuration).values() if v != "none")
        time = time_text(best.time.predicted_s)
        rows.append((entry.layer.name, entry.layer.operation, best.kernel, chosen, time, best.time.limiter))
    print_table("", ("layer", "operation", "family", "best configuration", "predicted", "limiter"), rows, left=4)
    typer.echo(
        f"critical path {time_text(report.critical_path_s)}, all layers one after the other {time_text(report.total_s)}"
    )
    for reason, count in report.uncovered.items():
        typer.echo(f"not covered: {count} × {reason}")
