"""What a network costs: best configurations, totals along the critical path, floors."""

import json
from collections import Counter
from typing import Any

import pytest

from perfmodel.errors import InfeasibleError
from perfmodel.families.conv1d import Conv1d
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.networks.estimate import NetworkReport, network_report
from perfmodel.networks.graph import Layer, Network, assemble
from perfmodel.networks.library import load_network
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
        *zip(("efficientnet_b0", "mobilenet_v2", "mobilenet_v1"), GPUS, strict=True),
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
    assert first["prediction"]["config"].keys() == {"variant", "channels_per_thread"}
    assert first["prediction"]["time"]["predicted_us"] >= first["dram_floor_us"] > 0
    strided = next(row for row in document["layers"] if row["name"] == "down1.downsample")
    assert strided["prediction"] is None
    assert strided["uncovered"].startswith("stride 2")
