"""Estimate a network that a user names: a shipped one, a file, or a PyTorch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.choices import one_of
from ..core.progress import Advance, no_progress
from ..core.value_types import require_type
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.ranking import Ranking, rank_problem
from ..prediction.scenario import Scenario, scenario_of
from ..profiles.kernel_profile import Fidelity
from .estimate import NetworkReport, network_report
from .graph import Network


def network(
    source: Any,
    *,
    gpu: str | Gpu,
    batch: int | None = None,
    input_shape: Sequence[int] | None = None,
    fidelity: Fidelity | str = Fidelity.ANALYTIC,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> NetworkReport:
    """The best configuration of each layer of a network and the totals, as ``perfmodel network``.

    Args:
        source: the name of a shipped network, a TOML or ONNX file, ``FILE.py:MODULE``, or a PyTorch module itself.
        gpu: name, file or record of the GPU.
        batch: batch size; 1, or the file's, where None.
        input_shape: of a PyTorch module; its first size is the batch.
        fidelity: where counts and registers come from.
        sm_clock_mhz: SM clock; the boost clock where None.
        l2: what the L2 holds when a kernel starts.
        calibration: file with coefficients of the user's own.

    Raises:
        InputError: an argument does not fit; the message names it.

    >>> report = network("mobilenet_v1", gpu="h200")
    >>> len(report) > 20, report.total_s < 1e-2
    (True, True)
    """
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    layers = load(source, batch, input_shape)
    return estimate(layers, scenario, one_of(Fidelity, "fidelity", fidelity))


def estimate(layers: Network, scenario: Scenario, fidelity: Fidelity, advance: Advance = no_progress) -> NetworkReport:
    """The report of a network that was loaded; ``advance`` is called as each layer is done."""

    def best(problem: Any) -> Ranking:
        return rank_problem(problem, scenario, fidelity, top=1)

    return network_report(layers, scenario.gpu, best, fidelity, lambda _: advance(), scenario.l2)


def load(source: Any, batch: int | None = None, input_shape: Sequence[int] | None = None) -> Network:
    """The layers of a network that a user names.

    Raises:
        InputError: there is no such network or file, or batch and input shape do not fit it.
    """
    from .importer_onnx import import_onnx
    from .importer_torch import import_torch, load_torch_module
    from .library import load_network

    is_module = not isinstance(source, str) and hasattr(source, "forward")
    if not is_module:
        source = str(source)
    shape = None if input_shape is None else [int(size) for size in input_shape]
    if is_module or ".py:" in source:
        name = type(source).__name__ if is_module else source
        if shape is None:
            raise InputError(f"{name}: a PyTorch module needs --input-shape N,C,H,W (input_shape in Python)")
        if batch not in (None, shape[0]):
            given = ",".join(map(str, shape))
            raise InputError(f"--batch {batch}, but --input-shape {given!r} begins with a batch of {shape[0]}")
        return import_torch(source if is_module else load_torch_module(source), shape, name)
    if shape is not None:
        given = ",".join(map(str, shape))
        raise InputError(f"--input-shape {given!r} goes with a PyTorch module, FILE.py:MODULE, only")
    if source.endswith(".onnx"):
        return import_onnx(source, batch)
    require_type((int, type(None)), "an integer", batch=batch)
    return load_network(source, 1 if batch is None else batch)
