"""Reads an ONNX file into a network. Extra ``onnx``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.constants import ceil_div
from ..errors import InputError
from .covering import Convolution, covered_layer, first_line, pointwise, sizes_text
from .graph import Dataflow, Demand, Layer, LayerKind, Network, Shape, assemble, product_demand, streaming_demand

_PAD_MODES = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
_WITHOUT_WORK = frozenset(
    ("Constant", "ConstantOfShape", "Dropout", "Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze")
)
"""Operators that compute nothing in inference, or only give another view of their input."""
_OPERATORS = {
    LayerKind.CONVOLUTION: "Conv ConvTranspose",
    LayerKind.MATRIX_PRODUCT: "Gemm MatMul",
    LayerKind.ELEMENT_WISE: (
        "Abs Add And Cast Ceil Celu Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish "
        "LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Sigmoid Sign "
        "Sin Softplus Softsign Sqrt Sub Sum Swish Tanh ThresholdedRelu Where"
    ),
    LayerKind.POOLING: (
        "AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool ReduceL1 ReduceL2 ReduceMax ReduceMean "
        "ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    ),
    LayerKind.SOFTMAX: "Hardmax LogSoftmax Softmax",
    LayerKind.NORMALISATION: (
        "BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
        "MeanVarianceNormalization RMSNormalization"
    ),
    LayerKind.COPY: ("Concat DepthToSpace Expand Gather Pad Resize Slice SpaceToDepth Split Tile Transpose Upsample"),
}
_KINDS = {name: kind for kind, names in _OPERATORS.items() for name in names.split()}


def import_onnx(path: str | Path, batch: int | None = None) -> Network:
    """The network of an ONNX file.

    Every size must be fixed; with ``batch`` a symbolic first axis of the inputs becomes that number. Raises ``InputError``
    where onnx is missing, the file is damaged, a shape is dynamic or all first axes are fixed to another batch.
    """
    path = Path(path)
    model = _checked(path)
    initializers: dict[str, Shape] = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initializers]
    for value in inputs:
        _fix_shape(path, value, batch)
    _require_batch(path, inputs, batch)
    shapes = {**initializers, **_inferred_shapes(path, model)}
    flow = Dataflow()
    for place, node in enumerate(model.graph.node):
        name = str(node.name) or f"{node.op_type}_{place}"
        if node.op_type in _WITHOUT_WORK:
            flow.pass_through(node.input, node.output)
        else:
            flow.add(_layer(name, node, shapes), node.input, node.output)
    first = shapes.get(inputs[0].name, ()) if inputs else ()
    return assemble(path.stem, path.name, first[0] if first else 1, flow.layers)


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.shape_inference
    except ImportError as error:
        raise InputError("reading an ONNX file needs the extra `onnx`: pip install perfmodel[onnx]") from error
    return onnx


def _checked(path: Path) -> Any:
    """The model of a file, after ONNX's own check of its structure."""
    onnx = _onnx()
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
        onnx.checker.check_model(model)
    except OSError as error:
        raise InputError(f"ONNX file {path} cannot be read: {error.strerror}") from error
    except (DecodeError, onnx.checker.ValidationError, ValueError) as error:
        raise InputError(f"ONNX file {path} is damaged: {first_line(error)}") from error
    return model


def _fix_shape(path: Path, value: Any, batch: int | None) -> None:
    """Put ``batch`` in place of a symbolic first axis; refuse every other axis without a number."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise InputError(f"ONNX file {path}: input {value.name!r} has no shape; every size must be fixed")
    for axis, extent in enumerate(tensor.shape.dim):
        if extent.dim_value > 0:
            continue
        if axis == 0 and batch is not None:
            extent.ClearField("dim_param")
            extent.dim_value = batch
            continue
        if extent.HasField("dim_value"):
            raise InputError(f"ONNX file {path}: input {value.name!r} has the size {extent.dim_value} at axis {axis}")
        shown, remedy = extent.dim_param or "?", "fix it" if axis else "give the batch, or fix it"
        raise InputError(
            f"ONNX file {path}: input {value.name!r} has a dynamic size, {shown!r} at axis {axis}; {remedy}"
        )


def _require_batch(path: Path, inputs: Sequence[Any], batch: int | None) -> None:
    """Refuse a batch that no input has: the file fixes another one."""
    firsts = [value.type.tensor_type.shape.dim[0].dim_value for value in inputs if value.type.tensor_type.shape.dim]
    if batch is not None and firsts and batch not in firsts:
        raise InputError(f"ONNX file {path}: batch={batch}, but input {inputs[0].name!r} is fixed to {firsts[0]}")


def _inferred_shapes(path: Path, model: Any) -> Mapping[str, Shape]:
    """Shapes of all values, where inference gives every size as a number."""
    onnx = _onnx()
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
        raise InputError(f"ONNX file {path}: shapes do not fit together: {first_line(error)}") from error
    shapes = {}
    for value in (*inferred.graph.input, *inferred.graph.value_info, *inferred.graph.output):
        extents = [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        if extents and all(extents):
            shapes[value.name] = tuple(extents)
    return shapes


def _layer(name: str, node: Any, shapes: Mapping[str, Shape]) -> Layer:
    operator = str(node.op_type)
    given = [shapes.get(value) for value in node.input]
    if operator in ("Conv", "ConvTranspose"):
        if given[0] is None or given[1] is None:
            reason = "dynamic shape: the input's size depends on data"
            return Layer(name=name, operation=operator, uncovered=reason, kind=LayerKind.CONVOLUTION)
        return _convolution_layer(name, node, given[0], given[1])
    dense = _dense_sizes(node, given) if operator in ("Gemm", "MatMul") else None
    if dense is not None:
        rows, in_features, out_features = dense
        shown = f"linear, {in_features} to {out_features}"
        return covered_layer(name, pointwise(rows, in_features, out_features, (1, 1)), shown)
    kind = _KINDS.get(operator, LayerKind.OTHER)
    return Layer(
        name=name,
        operation=operator,
        uncovered=f"{operator}: no family computes it",
        kind=kind,
        demand=_demand(kind, given, [shapes.get(value) for value in node.output if value]),
    )


def _demand(kind: LayerKind, given: Sequence[Shape | None], made: Sequence[Shape | None]) -> Demand | None:
    """What a layer moves and computes by the shapes of its tensors; None where one of them or the layer is not known.

    An input without a shape is a scalar or left out.
    """
    inputs, outputs = [shape for shape in given if shape is not None], [shape for shape in made if shape is not None]
    if not inputs or len(outputs) < len(made):
        return None
    if kind is LayerKind.MATRIX_PRODUCT and len(inputs) > 1 and min(len(inputs[0]), len(inputs[1])) > 1:
        return product_demand(inputs[0], inputs[1])
    return streaming_demand(kind, inputs, outputs) if kind.is_streaming else None


def _dense_sizes(node: Any, given: Sequence[Shape | None]) -> Shape | None:
    """Rows, inputs and outputs of a matrix product that is a fully connected layer on rows; None where it is not."""
    rows, weights = given[0], given[1]
    if rows is None or weights is None or len(rows) != 2 or len(weights) != 2 or _attributes(node).get("transA"):
        return None
    return rows[0], rows[1], weights[0] if _attributes(node).get("transB") else weights[1]


def _attributes(node: Any) -> dict[str, Any]:
    onnx = _onnx()
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


def _convolution_layer(name: str, node: Any, given: Shape, weights: Shape) -> Layer:
    attributes = _attributes(node)
    rank = len(given) - 2
    transposed = node.op_type == "ConvTranspose"
    contradiction = _contradiction(attributes, given, weights, transposed)
    if contradiction is not None:
        return Layer(name=name, operation="Conv", uncovered=contradiction, kind=LayerKind.CONVOLUTION)
    kernel = tuple(weights[2:])
    stride = tuple(attributes.get("strides", (1,) * rank))
    dilation = tuple(attributes.get("dilations", (1,) * rank))
    groups = int(attributes.get("group", 1))
    before, after = _padding(attributes, given[2:], kernel, stride, dilation)
    convolution = Convolution(
        batch=given[0],
        in_channels=given[1],
        out_channels=weights[1] * groups if transposed else weights[0],
        spatial=given[2:],
        kernel=kernel,
        stride=stride,
        padding_before=before,
        padding_after=after,
        dilation=dilation,
        groups=groups,
        transposed=transposed,
    )
    return covered_layer(name, convolution)


def _contradiction(attributes: Mapping[str, Any], given: Shape, weights: Shape, transposed: bool) -> str | None:
    """What of a convolution's attributes, input and weights cannot be together; None where all can."""
    if not transposed and weights[1] * int(attributes.get("group", 1)) != given[1]:
        return f"weights {sizes_text(weights)} do not fit an input of {given[1]} channels"
    kernel = tuple(attributes.get("kernel_shape", weights[2:]))
    if kernel != tuple(weights[2:]):
        return f"kernel_shape {sizes_text(kernel)} is not that of the weights, {sizes_text(weights[2:])}"
    mode = _pad_mode(attributes)
    return None if mode in _PAD_MODES else f"auto_pad {mode!r} is none of {', '.join(_PAD_MODES)}"


def _pad_mode(attributes: Mapping[str, Any]) -> str:
    return str(attributes.get("auto_pad", b"NOTSET").decode())


def _padding(
    attributes: Mapping[str, Any], spatial: Shape, kernel: Shape, stride: Shape, dilation: Shape
) -> tuple[Shape, Shape]:
    """Zeros before and after each axis, as the operator's ``auto_pad`` or ``pads`` say (ONNX operator ``Conv``)."""
    rank = len(spatial)
    mode = _pad_mode(attributes)
    if mode in ("NOTSET", "VALID"):
        pads = tuple(attributes.get("pads", (0,) * (2 * rank))) if mode == "NOTSET" else (0,) * (2 * rank)
        return pads[:rank], pads[rank:]
    totals = [
        max(0, (ceil_div(size, s) - 1) * s + d * (k - 1) + 1 - size)
        for size, k, s, d in zip(spatial, kernel, stride, dilation, strict=True)
    ]
    smaller, larger = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (smaller, larger) if mode == "SAME_UPPER" else (larger, smaller)
