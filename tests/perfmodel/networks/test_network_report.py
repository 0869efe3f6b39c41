"""What a network costs: best configurations, totals along the critical path, floors."""

import itertools
import json
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest

from benchmarks.networks import RECORDS, compare, measured_times
from perfmodel.errors import InfeasibleError
from perfmodel.families.conv1d import Conv1d, Conv1dConfiguration
from perfmodel.families.ssim import Ssim
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.networks.estimate import NetworkReport, TimeBasis, network_report
from perfmodel.networks.graph import Layer, LayerKind, Network, assemble, product_demand, streaming_demand
from perfmodel.networks.library import load_network
from perfmodel.networks.trace import trace_of
from perfmodel.prediction.ranking import Ranking, rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity


def rank(problem: Any, gpu: str = "h200") -> Ranking:
    return rank_problem(problem, scenario_of(gpu), Fidelity.ANALYTIC, 1)


def report(network: Network, gpu: str = "h200") -> NetworkReport:
    return network_report(network, load_gpu(gpu), lambda problem: rank(problem, gpu), Fidelity.ANALYTIC)


def conv1d(name: str, **fields: int) -> Layer:
    return Layer(name=name, operation="conv", problem=Conv1d(**fields))


@pytest.fixture(scope="module")
def unet() -> NetworkReport:
    return report(load_network("diffusion_policy_unet"))


def test_totals_are_sums_over_layers(unet: NetworkReport) -> None:
    times = {row.layer.name: row.seconds for row in unet.layers}
    assert unet.total_s == pytest.approx(sum(times.values()))
    assert unet.critical_path_s == pytest.approx(sum(times[name] for name in unet.critical_path))
    assert 0 < unet.critical_path_s < unet.total_s  # shortcuts run beside the main branch


def test_the_main_branch_is_critical_and_the_shortcuts_are_not(unet: NetworkReport) -> None:
    assert unet.critical_path[0] == "down1.block1.conv1"
    assert unet.critical_path[-1] == "final.projection"
    assert not any(name.endswith("shortcut") for name in unet.critical_path)
    assert {row.layer.name for row in unet.layers if row.on_critical_path} == set(unet.critical_path)


def test_uncovered_layers_are_counted_by_reason_and_have_no_time(unet: NetworkReport) -> None:
    assert unet.uncovered == {
        "stride 2 with 1 spatial axis: conv1d covers 1": 2,
        "transposed convolution: families compute direct ones": 2,
    }
    assert all(row.seconds == 0 for row in unet.layers if row.reason is not None)


def test_equal_problems_are_ranked_once_and_progress_names_every_layer() -> None:
    asked: Counter[Any] = Counter()
    done: list[str] = []

    def counting(problem: Any) -> Ranking:
        asked[problem] += 1
        return rank(problem)

    network = load_network("diffusion_policy_unet")
    network_report(network, load_gpu("h200"), counting, Fidelity.ANALYTIC, done.append)
    assert done == [layer.name for layer in network.layers]
    assert set(asked) == {layer.problem for layer in network.layers} - {None}
    assert set(asked.values()) == {1}


def test_a_layer_that_cannot_run_names_the_limit() -> None:
    limit = "none of the 3 configurations of conv1d fits h200"

    def refusing(problem: Any) -> Ranking:
        if problem.length == 9000:
            raise InfeasibleError(limit)
        return rank(problem)

    network = assemble("x", "x", 1, [(conv1d("endless", length=9000), ()), (conv1d("short"), ("endless",))])
    estimate = network_report(network, load_gpu("h200"), refusing, Fidelity.ANALYTIC)
    assert estimate.layers[0].best is None
    assert estimate.layers[0].reason == limit
    assert estimate.total_s == estimate.layers[1].seconds > 0


GPUS = ("h200", "a100-sxm-80gb", "rtx-2080-ti")


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        *((name, gpu) for name in ("diffusion_policy_unet", "ssim_4k_video") for gpu in GPUS),
        ("mobilenet_v1", "rtx-2080-ti"),
    ],
)
def test_no_layer_is_faster_than_its_floors(name: str, gpu: str) -> None:
    assert_above_floors(report(load_network(name), gpu))


def assert_above_floors(report: NetworkReport) -> None:
    covered = [layer for layer in report.layers if layer.best is not None]
    assert covered
    for layer in covered:
        assert layer.floors is not None
        assert layer.seconds >= max(layer.floors.dram_s, layer.floors.fp32_s), layer.layer.name


def streaming(name: str, elements: int) -> Layer:
    needed = streaming_demand(LayerKind.ELEMENT_WISE, [(elements,)], [(elements,)])
    return Layer(name=name, operation="relu", uncovered="no family", kind=LayerKind.ELEMENT_WISE, demand=needed)


def test_a_streaming_layer_takes_its_bytes_at_the_bandwidth_of_the_data_sheet_and_a_launch() -> None:
    gpu = load_gpu("h200")
    elements = 10_000_000
    network = assemble("x", "x", 1, [(conv1d("conv"), ()), (streaming("relu", elements), ("conv",))])
    estimate = report(network)
    layer = estimate.layers[1]
    assert layer.basis is TimeBasis.FLOOR
    assert layer.seconds == pytest.approx(2 * 4 * elements / gpu.dram_bytes_per_s + gpu.empty_kernel_s)
    assert estimate.total_s == estimate.layers[0].seconds + layer.seconds
    assert estimate.critical_path == ("conv", "relu")
    assert estimate.uncovered == {}
    assert "this package's FP32 kernels, not cuDNN's" in estimate.headline


def test_coverage_is_by_operations() -> None:
    conv, relu = (
        conv1d("conv", in_channels=2, out_channels=3, length=1, filter_width=1, padding=0),
        streaming("relu", 6),
    )
    unknown = Layer(name="loop", operation="Loop", uncovered="no family")
    product = Layer(name="product", operation="MatMul", uncovered="no family", demand=product_demand((2, 3), (3, 4)))
    network = assemble("x", "x", 1, [(layer, ()) for layer in (conv, relu, unknown, product)])
    flops = (2 * 2 * 3, 6, 2 * 2 * 3 * 4)  # a product of 2 x 3 with 3 x 1; six elements; 2 x 3 with 3 x 4
    parts = report(network).coverage
    assert (parts.predicted, parts.floor, parts.none) == pytest.approx([part / sum(flops) for part in flops])
    assert parts.unknown_layers == 1


def test_errors_of_one_family_add_up_and_those_of_families_are_independent() -> None:
    two = report(assemble("x", "x", 1, [(conv1d("a"), ()), (conv1d("b", length=32), ())]))
    bounds = [layer.best.time.interval_s for layer in two.layers if layer.best is not None]
    assert two.total_interval_s == pytest.approx([sum(bound[end] for bound in bounds if bound) for end in (0, 1)])
    other = Layer(name="c", operation="ssim", problem=Ssim(height=64, width=64))
    both = report(assemble("x", "x", 1, [(conv1d("a"), ()), (other, ()), (streaming("d", 100), ())]))
    upward = [layer.best.time.interval_s[1] - layer.seconds for layer in both.layers[:2] if layer.best and bounds[0]]  # type: ignore[index]
    assert both.total_interval_s is not None
    assert both.total_interval_s[1] == pytest.approx(both.total_s + (upward[0] ** 2 + upward[1] ** 2) ** 0.5)
    assert both.total_interval_s[0] < both.total_s


def test_measured_totals_lie_inside() -> None:
    """On an H100, to which no coefficient was fitted: each layer by the predicted fastest of its measured configurations."""
    gpu, measured = "h100-sxm-80gb", measured_times(RECORDS["h100-sxm-80gb"])
    for name in ("mobilenet_v1", "mobilenet_v2"):
        found = compare(name, gpu, measured)
        bounds = found.report.total_interval_s
        assert bounds is not None
        assert bounds[0] <= found.measured_s <= bounds[1]
        assert bounds[0] < found.independent_s[0] < found.independent_s[1] < bounds[1]


def test_a_trace_has_every_layer_on_the_track_of_its_limiter(unet: NetworkReport) -> None:
    events = json.loads(json.dumps(trace_of(unet)))["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    timed = {event["name"]: event for event in events if event["ph"] == "X"}
    assert timed.keys() == {layer.layer.name for layer in unet.layers if layer.best is not None}
    for layer in unet.layers:
        if layer.best is not None:
            event = timed[layer.layer.name]
            assert tracks[event["tid"]] == layer.best.time.limiter
            assert event["dur"] == pytest.approx(layer.seconds * 1e6)
    in_order = sorted(timed.values(), key=lambda event: event["ts"])
    for event, later in itertools.pairwise(in_order):
        assert later["ts"] == pytest.approx(event["ts"] + event["dur"])
    assert in_order[-1]["ts"] + in_order[-1]["dur"] == pytest.approx(unet.total_s * 1e6)
    assert [tracks[event["tid"]] for event in events if event["ph"] == "i"] == ["no time"] * 4


def test_json_is_plain_and_complete(unet: NetworkReport) -> None:
    document = json.loads(json.dumps(unet.to_json()))
    assert {name: document[name] for name in ("network", "gpu", "batch", "fidelity", "covered")} == {
        "network": "diffusion_policy_unet",
        "gpu": "h200",
        "batch": 1,
        "fidelity": "analytic",
        "covered": len(unet.layers) - 4,
    }
    assert document["total_us"] == pytest.approx(unet.total_s * 1e6)
    first = document["layers"][0]
    assert first["prediction"]["config"].keys() == {field.name for field in fields(Conv1dConfiguration)}
    assert first["prediction"]["time"]["predicted_us"] >= first["dram_floor_us"] > 0
    strided = next(row for row in document["layers"] if row["name"] == "down1.downsample")
    assert strided["prediction"] is None
    assert strided["uncovered"].startswith("stride 2")
