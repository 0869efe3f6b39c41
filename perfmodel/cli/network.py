"""``perfmodel network``: every layer of a network with its best configuration, and totals along the critical path."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..core.choices import one_of
from ..core.units import time_text
from .options import CalibrationOption, ClockOption, FidelityOption, GpuOption, JsonOption, L2Option, scenario_from
from .output import print_json, print_table, progress_bar


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
) -> None:
    """Estimate a network layer by layer: a shipped one, a TOML list, an ONNX file or a PyTorch module in a Python file.

    Shipped: mobilenet_v1, mobilenet_v2, efficientnet_b0, diffusion_policy_unet, ssim_4k_video. Times are device times of the
    layers that a family covers; the others are named with the reason.
    """
    from ..networks.estimate import network_report
    from ..prediction.ranking import rank_problem
    from ..profiles.kernel_profile import Fidelity

    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    layers = _load(name, batch, input_shape)

    def rank(problem: Any) -> Any:
        return rank_problem(problem, scenario, depth, top=1)

    with progress_bar("layers", len(layers.layers)) as advance:
        report = network_report(layers, scenario.gpu, rank, depth, lambda _: advance())
    if as_json:
        print_json(report.to_json())
    else:
        _print(report)


def _load(name: str, batch: int | None, input_shape: str | None) -> Any:
    from ..errors import InputError
    from ..networks.importer_onnx import import_onnx
    from ..networks.importer_torch import import_torch, load_torch_module
    from ..networks.library import load_network

    if input_shape is not None and ".py:" not in name:
        raise InputError(f"--input-shape {input_shape!r} goes with a PyTorch module, FILE.py:MODULE, only")
    if name.endswith(".onnx"):
        return import_onnx(name, batch)
    if ".py:" in name:
        if input_shape is None:
            raise InputError(f"{name}: a PyTorch module needs --input-shape N,C,H,W")
        sizes = input_shape.split(",")
        if not all(size.strip().isdecimal() for size in sizes):
            raise InputError(f"--input-shape {input_shape!r} must be positive integers such as 1,3,224,224")
        shape = [int(size) for size in sizes]
        if batch not in (None, shape[0]):
            raise InputError(f"--batch {batch}, but --input-shape {input_shape!r} begins with a batch of {shape[0]}")
        return import_torch(load_torch_module(name), shape, name)
    return load_network(name, 1 if batch is None else batch)


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
