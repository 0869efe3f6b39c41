"""The networks that come with the project, and a user's own files."""

from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d.problem import Conv2d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.ssim.problem import Ssim
from perfmodel.networks.graph import Demand, LayerKind
from perfmodel.networks.library import load_network, network_names


def multiply_adds(problem: Any) -> int:
    """As papers count them: padding included, the bias not."""
    if isinstance(problem, PointwiseConv2d):
        return problem.outputs * problem.in_channels
    assert isinstance(problem, Conv2d)
    outputs = problem.batch * problem.out_channels * problem.output_height * problem.output_width
    return outputs * problem.filter_channels * problem.filter_taps


@pytest.mark.parametrize(
    ("name", "published_millions", "depthwise"),
    [("mobilenet_v1", 569, 13), ("mobilenet_v2", 300, 17), ("efficientnet_b0", 386, 16)],
)
def test_multiply_adds_are_the_papers(name: str, published_millions: float, depthwise: int) -> None:
    problems = [layer.problem for layer in load_network(name).layers]
    total = sum(multiply_adds(problem) for problem in problems)
    assert total / 1e6 == pytest.approx(published_millions, rel=0.005)
    assert sum(isinstance(problem, Conv2d) and problem.depthwise for problem in problems) == depthwise


@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "efficientnet_b0"])
def test_each_layer_takes_what_the_layers_before_it_make(name: str) -> None:
    graph = load_network(name, batch=2).graph
    for before, after in graph.edges:
        first, second = graph.nodes[before]["layer"].problem, graph.nodes[after]["layer"].problem
        if isinstance(second, PointwiseConv2d) and second.image_positions == 1:  # behind a global average
            continue
        made_rows = first.height if isinstance(first, PointwiseConv2d) else first.output_height
        assert made_rows in (second.height, 1)
        assert first.out_channels == second.in_channels


def test_residual_connections_of_mobilenet_v2() -> None:
    graph = load_network("mobilenet_v2").graph
    assert set(graph.predecessors("block4.expand")) == {
        "block3.project",
        "block2.project",
    }  # the second 24-channel block
    assert set(graph.predecessors("block2.expand")) == {"block1.project"}  # 32 to 16 channels: no residual


def test_squeeze_and_excitation_joins_the_depthwise_result() -> None:
    graph = load_network("efficientnet_b0").graph
    assert set(graph.predecessors("block2.project")) == {"block2.depthwise", "block2.excite"}
    assert graph.nodes["block2.squeeze"]["layer"].problem == PointwiseConv2d(
        in_channels=96, out_channels=16 // 4, height=1, width=1
    )


def test_diffusion_policy_has_the_nine_shapes_in_the_unets_order() -> None:
    layers = load_network("diffusion_policy_unet").layers
    filters = [
        layer.problem for layer in layers if isinstance(layer.problem, Conv1d) and layer.problem.filter_width == 5
    ]
    order = list(dict.fromkeys((p.in_channels, p.out_channels, p.length) for p in filters))
    assert order == [
        (2, 256, 16),  # the actions' two channels, beside the nine
        *((256, 256, 16), (256, 512, 8), (512, 512, 8), (512, 1024, 4), (1024, 1024, 4)),  # down
        *((2048, 512, 4), (512, 512, 4), (1024, 256, 8), (256, 256, 8)),  # up, after the skip connections
    ]
    strided = [layer for layer in layers if layer.uncovered is not None]
    assert [layer.name for layer in strided] == [
        *("down1.downsample", "down2.downsample", "up2.upsample", "up1.upsample")
    ]


def test_a_4k_frame() -> None:
    (layer,) = load_network("ssim_4k_video", batch=30).layers
    assert layer.problem == Ssim(batch=30, channels=3, height=2160, width=3840)


def test_every_network_loads_with_its_batch() -> None:
    for name in network_names():
        assert {layer.problem.batch for layer in load_network(name, batch=7).layers if layer.problem} == {7}


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="unknown network 'mobilenet_v3'; nearest: mobilenet_v"):
        load_network("mobilenet_v3")
    with pytest.raises(InputError, match=r"or FILE\.toml, FILE\.onnx, FILE\.py:MODULE"):
        load_network("net.py")


ONE_LAYER = '[[layer]]\nname = "a"\nfamily = "conv1d"\nproblem = { length = 4 }\n'


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("title = ", "is not TOML"),
        ('title = "x"\n', "layer is missing"),
        ('title = "x"\nlayer = 3\n', "layer = 3 must be a list"),
        ('title = "x"\ncolour = 1\n' + ONE_LAYER, "unknown key 'colour'"),
        ('title = "x"\n[[layer]]\nfamily = "conv1d"\n', "layer[0]: name is missing"),
        ('title = "x"\n[[layer]]\nname = "a"\nfamily = "conv1d"\n', "layer 'a': needs either family and problem, or"),
        ('title = "x"\n' + ONE_LAYER.replace("length = 4", "length = 0"), "layer 'a': length=0 must be an integer"),
        (
            'title = "x"\n' + ONE_LAYER.replace("length", "lenght"),
            "layer 'a': unknown field 'lenght' of conv1d; nearest: length",
        ),
        ('title = "x"\n' + ONE_LAYER.replace("conv1d", "conv9d"), "unknown family 'conv9d'"),
        ('title = "x"\n' + ONE_LAYER + 'after = "b"\n', "layer[0].after = 'b' must be a list"),
        ('title = "x"\n' + ONE_LAYER.replace("{ length = 4 }", "4"), "layer[0].problem = 4 must be a table"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_network(str(path))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_network(str(tmp_path / "nowhere.toml"))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load_network(str(binary))


def test_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "mine"\n' + ONE_LAYER)
    assert load_network(str(path), batch=3).layers[0].problem == Conv1d(batch=3, length=4)


def test_the_list_of_the_manual_knows_what_its_layers_move(tmp_path: Path) -> None:
    manual = (Path(__file__).parents[3] / "docs" / "networks.md").read_text(encoding="utf-8")
    path = tmp_path / "two.toml"
    path.write_text(manual.partition("```toml\n")[2].partition("```")[0])
    conv, relu = load_network(str(path), batch=2).layers
    outputs = 32 * 224 * 224
    assert (conv.kind, relu.kind) == (LayerKind.CONVOLUTION, LayerKind.ELEMENT_WISE)
    assert relu.demand == Demand(dram_bytes=2 * 4 * 2 * outputs, flops=2 * outputs)
    path.write_text(path.read_text().replace("element-wise", "elementwise"))
    with pytest.raises(
        InputError, match=r"layer\[1\].kind = 'elementwise' must be one of convolution, matrix product, element-wise"
    ):
        load_network(str(path))
    path.write_text(path.read_text().replace('"elementwise"', '"pooling"').replace("= 1605632", "= -1"))
    with pytest.raises(InputError, match=r"layer\[1\].flops = -1 must be an integer >= 0"):
        load_network(str(path))
