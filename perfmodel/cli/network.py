"""``perfmodel network``: every layer of a network with its best configuration, and totals along the critical path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.choices import one_of
from ..core.units import interval_text, time_text
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
from .output import note, print_csv, print_json, print_table, progress_bar, require_writable, write_target

if TYPE_CHECKING:
    from ..networks.estimate import NetworkReport


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("network")(network)


def network(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE.toml|FILE.onnx|FILE.py:MODULE", help="What to estimate.")],
    gpu: GpuOption,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size; by default the file's, or 1.")] = None,
    input_shape: Annotated[
        str | None, typer.Option(metavar="N,C,H,W", help="Input shape, for a PyTorch module only.")
    ] = None,
    fidelity: FidelityOption = "analytic",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE.json", help="Also write the layers over time, for Perfetto or about:tracing."
        ),
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Estimate a network layer by layer: a shipped one, a TOML list, an ONNX file or a PyTorch module in a Python file.

    Shipped: mobilenet_v1, mobilenet_v2, efficientnet_b0, diffusion_policy_unet, ssim_4k_video. Times are those of this
    package's FP32 kernels, not cuDNN's; layers that only move data have the time of their bytes at DRAM bandwidth; the others
    are named with the reason.
    """
    from ..networks.estimating import estimate, load
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    if trace is not None:
        require_writable("--trace", trace, [Path(name)])
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    layers = load(name, batch, _shape(input_shape))
    with progress_bar("layers", len(layers.layers)) as advance:
        report = estimate(layers, scenario, depth, advance)
    if trace is not None:
        from ..networks.trace import trace_of

        write_target("--trace", trace, json.dumps(trace_of(report)))
        note(f"wrote {trace}")
    if as_json:
        print_json(report.to_json())
    elif as_csv:
        print_csv(report.to_rows())
    else:
        _print(report)


def _with_interval(seconds: float, bounds: tuple[float, float] | None) -> str:
    within = "" if bounds is None else f" (90 % within {interval_text(bounds)})"
    return f"{time_text(seconds)}{within}"


def _shape(text: str | None) -> list[int] | None:
    if text is None:
        return None
    sizes = text.split(",")
    if not all(size.strip().isdecimal() for size in sizes):
        raise InputError(f"--input-shape {text!r} must be positive integers such as 1,3,224,224")
    return [int(size) for size in sizes]


def _print(report: NetworkReport) -> None:
    from ..core.json_values import plain
    from ..networks.estimate import KERNELS, TimeBasis

    typer.echo(f"{report.title}, batch {report.batch}, on {report.gpu} ({report.fidelity.value}): {KERNELS}")
    rows = []
    for entry in report.layers:
        best = entry.best
        chosen = "–" if best is None else " ".join(str(v) for v in plain(best.configuration).values() if v != "none")
        time = entry.reason or "" if entry.basis is TimeBasis.NONE else time_text(entry.seconds)
        family = "–" if best is None else best.kernel
        rows.append((entry.layer.name, entry.layer.operation, family, chosen, time, entry.limiter))
    print_table("", ("layer", "operation", "family", "best configuration", "time", "limiter"), rows, left=4)
    path, every = report.critical_path_interval_s, report.total_interval_s
    typer.echo(
        f"critical path {_with_interval(report.critical_path_s, path)}, all layers one after the other "
        f"{_with_interval(report.total_s, every)}"
    )
    covered = report.coverage
    unknown = f", {covered.unknown_layers} layers of unknown size" if covered.unknown_layers else ""
    typer.echo(
        f"of all operations {covered.predicted:.1%} by this package's kernels, {covered.floor:.1%} at the bandwidth floor, "
        f"{covered.none:.1%} without a time{unknown}"
    )
    for reason, count in report.uncovered.items():
        typer.echo(f"not covered: {count} × {reason}")
