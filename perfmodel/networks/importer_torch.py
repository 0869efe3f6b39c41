"""Reads a PyTorch module into a network, by tracing it (``torch.fx``) with an input of a given shape. Extra ``torch``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from .covering import Convolution, covered_layer, first_line, pointwise, sizes_text
from .graph import Dataflow, Demand, Layer, LayerKind, Network, Shape, assemble, product_demand, streaming_demand

_CONVOLUTIONS = {f"Conv{kind}{rank}d": rank for kind in ("", "Transpose") for rank in (1, 2, 3)}
"""Names of convolution modules with the number of their spatial axes."""
_WITHOUT_WORK = {
    *("Dropout", "Dropout1d", "Dropout2d", "Flatten", "Identity", "Unflatten"),
    *("contiguous", "detach", "expand", "flatten", "getattr", "getitem", "permute", "reshape", "size", "squeeze"),
    *("transpose", "unsqueeze", "view", "chunk", "split", "dropout", "dropout1d", "dropout2d"),
}
"""Modules, functions and methods that compute nothing in inference, or only give another view of their input."""
_LABELS = {
    LayerKind.CONVOLUTION: "conv1d conv2d conv3d",
    LayerKind.MATRIX_PRODUCT: "bmm linear matmul mm",
    LayerKind.ELEMENT_WISE: (
        "abs add celu clamp clamp_max clamp_min clip cos div elu erf exp float floor gelu hardsigmoid hardswish hardtanh "
        "leakyrelu leaky_relu log maximum minimum mish mul neg pow prelu reciprocal relu relu6 rsqrt rsub selu sigmoid silu "
        "sin softplus softsign sqrt square sub tanh truediv where"
    ),
    LayerKind.POOLING: (
        "adaptiveavgpool1d adaptiveavgpool2d adaptiveavgpool3d adaptivemaxpool1d adaptivemaxpool2d adaptivemaxpool3d "
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d amax amin avgpool1d avgpool2d avgpool3d avg_pool1d avg_pool2d avg_pool3d max maxpool1d maxpool2d "
        "maxpool3d max_pool1d max_pool2d max_pool3d mean min sum"
    ),
    LayerKind.SOFTMAX: "logsoftmax log_softmax softmax softmax2d",
    LayerKind.NORMALISATION: (
        "batchnorm1d batchnorm2d batchnorm3d batch_norm groupnorm group_norm instancenorm1d instancenorm2d instancenorm3d "
        "instance_norm layernorm layer_norm normalize rmsnorm rms_norm"
    ),
    LayerKind.COPY: "cat concat interpolate pad pixelshuffle pixel_shuffle repeat roll stack upsample zeropad2d",
}
_KINDS = {name: kind for kind, names in _LABELS.items() for name in names.split()}
"""Kinds of modules, functions and methods by their names in small letters, without the last underscore of those in place."""
_USER_ERRORS = (Exception, SystemExit)
"""What a user's file may raise when it is executed, or their module when it is made, traced or run: anything."""


def import_torch(module: Any, input_shape: Sequence[int], name: str = "torch module") -> Network:
    """The network of a module in evaluation mode for one input of the given shape, the batch first.

    Raises ``InputError`` where torch is missing, the module cannot be traced (its control flow depends on data) or does not
    take an input of that shape.
    """
    torch = _torch()
    if not input_shape or min(input_shape) < 1:
        raise InputError(f"{name}: input shape {sizes_text(input_shape)} must be positive integers, the batch first")
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{name} is of type {type(module).__name__}, not a torch.nn.Module")
    traced, shapes = _traced(torch, module.eval(), tuple(input_shape), name)
    flow = Dataflow()
    for node in traced.graph.nodes:
        inputs = [argument.name for argument in node.all_input_nodes]
        label, target = _target(torch, traced, node)
        if node.op in ("placeholder", "get_attr", "output") or label in _WITHOUT_WORK:
            flow.pass_through(inputs, [node.name])
        else:
            given, made = [shapes[value] for value in inputs if value in shapes], shapes.get(node.name)
            flow.add(_layer(str(node.name), label, target, given, made), inputs, [node.name])
    return assemble(name, f"{name}, input {sizes_text(input_shape)}", int(input_shape[0]), flow.layers)


def load_torch_module(spec: str) -> Any:
    """The module that ``FILE.py:NAME`` names: a module, or something that makes one when called without arguments.

    The file is executed, as importing it would.
    """
    path_text, _, attribute = spec.rpartition(":")
    path = Path(path_text)
    if not path_text or not attribute.isidentifier() or not path.is_file():
        raise InputError(f"torch module {spec!r} must be FILE.py:NAME with a file that exists")
    torch = _torch()
    location = importlib.util.spec_from_file_location(path.stem, path)
    if location is None or location.loader is None:
        raise InputError(f"{path} is not a Python file")
    python = importlib.util.module_from_spec(location)
    sys.modules.setdefault(path.stem, python)
    try:
        location.loader.exec_module(python)
    except _USER_ERRORS as error:
        raise InputError(f"{path} cannot be executed: {first_line(error)}") from error
    if not hasattr(python, attribute):
        raise InputError(f"{path} defines no {attribute!r}")
    value = getattr(python, attribute)
    if isinstance(value, torch.nn.Module) or not callable(value):
        return value
    try:
        return value()
    except _USER_ERRORS as error:
        raise InputError(f"{spec} cannot be made without arguments: {first_line(error)}") from error


def _torch() -> Any:
    try:
        import torch
        import torch.fx
    except ImportError as error:
        raise InputError("reading a PyTorch module needs the extra `torch`: pip install perfmodel[torch]") from error
    return torch


def _traced(torch: Any, module: Any, shape: tuple[int, ...], name: str) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """The traced module and the shape of every tensor in it, from one run on zeros."""
    try:
        traced = torch.fx.symbolic_trace(module)
    except (torch.fx.proxy.TraceError, TypeError, NotImplementedError) as error:
        raise InputError(f"{name} cannot be traced, its control flow depends on data: {first_line(error)}") from error
    except _USER_ERRORS as error:
        raise InputError(f"{name} cannot be traced, its forward raises {first_line(error)}") from error
    shapes: dict[str, tuple[int, ...]] = {}

    class Shapes(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            if isinstance(result, torch.Tensor):
                shapes[node.name] = tuple(int(extent) for extent in result.shape)
            return result

    runner = Shapes(traced)
    runner.extra_traceback = False
    try:
        with torch.no_grad():
            runner.run(torch.zeros(shape))
    except _USER_ERRORS as error:
        raise InputError(f"{name} does not take an input of {sizes_text(shape)}: {first_line(error)}") from error
    return traced, shapes


def _target(torch: Any, traced: Any, node: Any) -> tuple[str, Any]:
    """What a node calls: its short name, and the module where it is one."""
    if node.op == "call_module":
        module = traced.get_submodule(node.target)
        return type(module).__name__, module
    if node.op == "call_function":
        return str(getattr(node.target, "__name__", node.target)), None
    return str(node.target), None


def _layer(name: str, label: str, module: Any, given: Sequence[Shape], made: Shape | None) -> Layer:
    """The layer of a node with the shapes of the tensors that it takes and of the one that it makes."""
    rank = _CONVOLUTIONS.get(label)
    if module is not None and rank is not None and given:
        if len(given[0]) != rank + 2:
            reason = f"input of rank {len(given[0])}: {label} must get a batch, channels and {rank} spatial axes"
            return Layer(name=name, operation=label, uncovered=reason, kind=LayerKind.CONVOLUTION)
        return _convolution_layer(name, module, given[0], transposed=label.startswith("ConvTranspose"))
    if module is not None and label == "Linear" and given:
        if len(given[0]) != 2:
            reason = f"linear layer of rank {len(given[0])}: must get rows, rank 2"
            needed = product_demand(given[0], (module.in_features, module.out_features))
            return Layer(name=name, operation="linear", uncovered=reason, kind=LayerKind.MATRIX_PRODUCT, demand=needed)
        dense = pointwise(given[0][0], module.in_features, module.out_features, (1, 1))
        return covered_layer(name, dense, f"linear, {module.in_features} to {module.out_features}")
    kind = _KINDS.get(label.lower().removesuffix("_"), LayerKind.OTHER)
    reason = f"{label}: no family computes it"
    if label in ("conv1d", "conv2d", "conv3d", "linear"):
        reason = f"{label} called as a function: only modules are read"
    return Layer(name=name, operation=label, uncovered=reason, kind=kind, demand=_demand(kind, given, made))


def _demand(kind: LayerKind, given: Sequence[Shape], made: Shape | None) -> Demand | None:
    """What a layer moves and computes by the shapes of its tensors; None where one of them or the layer is not known."""
    if not given or made is None:
        return None
    if kind is LayerKind.MATRIX_PRODUCT and len(given) == 2 and min(map(len, given)) > 1:
        return product_demand(*given)
    return streaming_demand(kind, given, [made]) if kind.is_streaming else None


def _convolution_layer(name: str, module: Any, given: tuple[int, ...], transposed: bool) -> Layer:
    before, after = _padding(module)
    convolution = Convolution(
        batch=given[0],
        in_channels=int(module.in_channels),
        out_channels=int(module.out_channels),
        spatial=given[2:],
        kernel=tuple(module.kernel_size),
        stride=tuple(module.stride),
        padding_before=before,
        padding_after=after,
        dilation=tuple(module.dilation),
        groups=int(module.groups),
        transposed=transposed,
    )
    if module.padding_mode != "zeros":
        reason = f"padding mode {module.padding_mode!r}: families pad with zeros"
        return Layer(
            name=name,
            operation=convolution.operation,
            uncovered=reason,
            kind=LayerKind.CONVOLUTION,
            demand=convolution.demand,
        )
    return covered_layer(name, convolution)


def _padding(module: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Zeros before and after each axis; ``"same"`` puts the odd one after."""
    if not isinstance(module.padding, str):
        return tuple(module.padding), tuple(module.padding)
    if module.padding == "valid":
        zeros = (0,) * len(module.kernel_size)
        return zeros, zeros
    totals = [d * (k - 1) for d, k in zip(module.dilation, module.kernel_size, strict=True)]
    return tuple(total // 2 for total in totals), tuple(total - total // 2 for total in totals)
