"""ONNX files as networks: what is covered, what is named, what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.networks.graph import Demand, LayerKind
from perfmodel.networks.importer_onnx import import_onnx

from .residual_block import RESIDUAL_EDGES, RESIDUAL_PROBLEMS

onnx = pytest.importorskip("onnx")
helper = onnx.helper
Extents = tuple[int | str | None, ...]


def saved(
    path: Path, nodes: list[Any], weights: dict[str, tuple[int, ...]], shape: Extents, output_rank: int | None = None
) -> Path:
    graph = helper.make_graph(
        nodes,
        "example",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * (output_rank or len(shape)))],
        [onnx.numpy_helper.from_array(np.zeros(extents, np.float32), name) for name, extents in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))
    return path


def conv(source: str, weights: str, target: str, **attributes: Any) -> Any:
    return helper.make_node("Conv", [source, weights], [target], name=target, **attributes)


@pytest.fixture
def residual(tmp_path: Path) -> Path:
    nodes = [
        conv("x", "w0", "depthwise", group=8, pads=[1, 1, 1, 1], strides=[2, 2]),
        conv("depthwise", "w1", "project"),
        conv("x", "w2", "shortcut", strides=[2, 2]),
        helper.make_node("Add", ["project", "shortcut"], ["add"], name="add"),
        helper.make_node("GlobalAveragePool", ["add"], ["mean"], name="mean"),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w3"], ["y"], name="head", transB=1),
    ]
    weights = {"w0": (8, 1, 3, 3), "w1": (16, 8, 1, 1), "w2": (16, 8, 1, 1), "w3": (10, 16)}
    return saved(tmp_path / "residual.onnx", nodes, weights, (4, 8, 20, 20), output_rank=2)


def test_a_residual_block_becomes_a_graph(residual: Path) -> None:
    network = import_onnx(residual)
    assert (network.name, network.batch) == ("residual", 4)
    problems = {layer.name: layer.problem for layer in network.layers}
    assert problems == RESIDUAL_PROBLEMS
    assert set(network.graph.edges) == RESIDUAL_EDGES


def test_layers_that_move_data_know_their_bytes(residual: Path) -> None:
    layers = {layer.name: layer for layer in import_onnx(residual).layers}
    outputs = 4 * 16 * 10 * 10
    assert (layers["add"].kind, layers["add"].demand) == (
        LayerKind.ELEMENT_WISE,
        Demand(dram_bytes=4 * 3 * outputs, flops=2 * outputs),  # two terms read, the sum written
    )
    assert (layers["mean"].kind, layers["mean"].demand) == (
        LayerKind.POOLING,
        Demand(dram_bytes=4 * (outputs + 4 * 16), flops=outputs),
    )


def test_what_no_family_covers_has_its_operations_where_the_sizes_say_them(tmp_path: Path) -> None:
    nodes = [
        conv("x", "w", "grouped", group=2),
        helper.make_node("MatMul", ["grouped", "m"], ["product"], name="product"),
        helper.make_node("Softmax", ["product"], ["soft"], name="soft"),
        helper.make_node("Slice", ["soft", "starts", "ends"], ["part"], name="part"),
        helper.make_node("TopK", ["part", "k"], ["y", "places"], name="top"),
    ]
    path = saved(tmp_path / "a.onnx", nodes, {"w": (8, 2, 1, 1), "m": (6, 5)}, (1, 4, 6, 6))
    model = onnx.load(str(path))
    for name, values in (("starts", [0]), ("ends", [1]), ("k", [2])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(values, np.int64), name))
    onnx.save(model, str(path))
    layers = {layer.name: layer for layer in import_onnx(path).layers}
    assert {name: layer.kind for name, layer in layers.items()} == {
        "grouped": LayerKind.CONVOLUTION,
        "product": LayerKind.MATRIX_PRODUCT,
        "soft": LayerKind.SOFTMAX,
        "part": LayerKind.COPY,
        "top": LayerKind.OTHER,
    }
    flops = {name: None if layer.demand is None else layer.demand.flops for name, layer in layers.items()}
    assert flops == {
        "grouped": 2 * 36 * 8 * 2,  # outputs, each of two inputs
        "product": 2 * (8 * 6) * 6 * 5,
        "soft": 8 * 6 * 5,
        "part": 0,
        "top": None,
    }


@pytest.mark.parametrize(
    ("attributes", "kernel", "uncovered"),
    [
        ({"dilations": [2]}, 3, "dilation 2: families cover 1"),
        ({"group": 2}, 3, "groups 2 with 1 spatial axis: conv1d is dense over channels"),
        ({"auto_pad": "SAME_UPPER"}, 4, "padding 1 before and 2 after: must be equal"),
        ({"auto_pad": "SAME_LOWER"}, 4, "padding 2 before and 1 after: must be equal"),
        ({"pads": [0, 2]}, 3, "padding 0 before and 2 after: must be equal"),
        ({"auto_pad": "SAME"}, 3, "auto_pad 'SAME' is none of NOTSET, VALID, SAME_UPPER, SAME_LOWER"),
        ({"kernel_shape": [5]}, 3, "kernel_shape 5 is not that of the weights, 3"),
    ],
)
def test_what_no_family_covers_is_named(
    tmp_path: Path, attributes: dict[str, Any], kernel: int, uncovered: str
) -> None:
    groups = attributes.get("group", 1)
    path = saved(tmp_path / "a.onnx", [conv("x", "w", "y", **attributes)], {"w": (8, 4 // groups, kernel)}, (1, 4, 32))
    assert import_onnx(path).layers[0].uncovered == uncovered


def test_automatic_padding_that_is_even_is_covered(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.onnx", [conv("x", "w", "y", auto_pad="SAME_UPPER")], {"w": (8, 4, 5)}, (1, 4, 32))
    assert import_onnx(path).layers[0].problem == Conv1d(in_channels=4, out_channels=8, length=32)


def test_a_dynamic_size_is_refused_unless_it_is_the_batch_and_given(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.onnx", [conv("x", "w", "y")], {"w": (8, 4, 1, 1)}, ("N", 4, 6, 6))
    with pytest.raises(InputError, match="input 'x' has a dynamic size, 'N' at axis 0; give the batch, or fix it"):
        import_onnx(path)
    assert import_onnx(path, batch=3).layers[0].problem == PointwiseConv2d(
        batch=3, in_channels=4, out_channels=8, height=6, width=6
    )
    wide = saved(tmp_path / "b.onnx", [conv("x", "w", "y")], {"w": (8, 4, 1, 1)}, (1, 4, None, 6))
    with pytest.raises(InputError, match=r"input 'x' has a dynamic size, '\?' at axis 2"):
        import_onnx(wide, batch=3)
    nothing = saved(tmp_path / "c.onnx", [conv("x", "w", "y")], {"w": (8, 4, 1, 1)}, (1, 4, 0, 6))
    with pytest.raises(InputError, match=r"input 'x' has the size 0 at axis 2"):
        import_onnx(nothing)


def test_a_batch_that_the_file_does_not_have_is_refused(residual: Path) -> None:
    assert import_onnx(residual, batch=4).batch == 4
    with pytest.raises(InputError, match=r"residual\.onnx: batch=8, but input 'x' is fixed to 4$"):
        import_onnx(residual, batch=8)


def test_damaged_files_are_refused_in_one_line(tmp_path: Path, residual: Path) -> None:
    content = residual.read_bytes()
    for name, damaged in (
        ("empty.onnx", b""),
        ("noise.onnx", bytes(range(256)) * 4),
        ("cut.onnx", content[: len(content) // 2]),
        ("text.onnx", b"this is not a network\n"),
    ):
        path = tmp_path / name
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=rf"ONNX file .*{name} is damaged: ") as caught:
            import_onnx(path)
        assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.onnx cannot be read: No such file"):
        import_onnx(tmp_path / "nowhere.onnx")


def test_shapes_that_contradict_one_another(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.onnx", [conv("x", "w", "y")], {"w": (8, 5, 1, 1)}, (1, 4, 6, 6))
    assert import_onnx(path).layers[0].uncovered == "weights 8x5x1x1 do not fit an input of 4 channels"
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    path = saved(tmp_path / "b.onnx", [product], {"w": (5, 6)}, (2, 4))
    with pytest.raises(InputError, match=r"b\.onnx: shapes do not fit together: ") as caught:
        import_onnx(path)
    assert "\n" not in str(caught.value)
