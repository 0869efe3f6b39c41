"""What the compiler makes of the configurations that are predicted best on an H200: bank conflicts, spills, registers."""

from typing import Any

import numpy as np
import pytest

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.compiler.pool import compile_many
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY as CONV1D
from perfmodel.families.pointwise_conv2d import FAMILY as POINTWISE
from perfmodel.families.pointwise_conv2d.blocking.tiles import limits
from perfmodel.families.registry import family_of
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.networks.library import load_network
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity

pytestmark = pytest.mark.compiler

GPU = load_gpu("h200")
NETWORKS = ("mobilenet_v1", "diffusion_policy_unet")


@pytest.fixture(scope="module")
def chosen() -> list[tuple[Prediction, CompiledKernel]]:
    """The configuration of each different layer, and its code."""
    layers = (layer.problem for name in NETWORKS for layer in load_network(name).layers if layer.problem is not None)
    best = [rank_problem(problem, scenario_of(GPU), Fidelity.ANALYTIC, top=1).best for problem in dict.fromkeys(layers)]
    requests = [family_of(one.problem).compile_request(one.problem, one.configuration, GPU) for one in best]
    kernels = compile_many([(request, GPU.architecture.name) for request in requests])
    assert len(kernels) > 30
    return [(one, kernel) for one, kernel in zip(best, kernels, strict=True) if isinstance(kernel, CompiledKernel)]


def test_pointwise_kernels_have_no_bank_conflict(chosen: list[tuple[Any, Any]]) -> None:
    counts_of = {one.problem: one.counts for one, _ in chosen if family_of(one.problem) is POINTWISE}
    assert all(float(counts.shared_load_wavefronts) > 0 for counts in counts_of.values())
    assert dict.fromkeys(counts_of, 0.0) == {  # exact closed forms: the families' tests hold them to the simulator
        problem: float(counts.shared_bank_conflicts) for problem, counts in counts_of.items()
    }


def test_conv1d_has_at_most_the_conflicts_of_the_published_padding(chosen: list[tuple[Any, Any]]) -> None:
    """A pad behind each thread's row: where a thread has more than 32 inputs, or eight channels' weights, lanes share banks."""
    for one, _ in chosen:
        if family_of(one.problem) is CONV1D:
            channels = one.configuration.channels_per_thread
            wavefronts = float(one.counts.shared_load_wavefronts) + float(one.counts.shared_store_wavefronts)
            assert float(one.counts.shared_bank_conflicts) <= wavefronts / 3, one.problem
            if channels is not None and channels <= 4 and channels * one.problem.length <= 32:
                assert float(one.counts.shared_bank_conflicts) == 0, one.problem


def test_no_kernel_uses_local_memory(chosen: list[tuple[Any, Any]]) -> None:
    used = {one.problem: kernel.resources.stack_bytes_per_thread for one, kernel in chosen}
    assert used == dict.fromkeys(used, 0)
    assert all(kernel.resources.spill_store_bytes == 0 for _, kernel in chosen)


def test_registers_are_near_those_that_were_planned_for(chosen: list[tuple[Any, Any]]) -> None:
    ratios = []
    for one, kernel in chosen:
        if family_of(one.problem) is POINTWISE:
            actual, batch = kernel.resources.registers_per_thread, Batch.of([one.configuration])
            if one.configuration.blocks_per_sm is not None:
                assert actual <= int(limits(batch["blocks_per_sm"], GPU).registers_per_thread[0])
            ratios.append(actual / int(POINTWISE.profile(one.problem, batch, GPU).registers[0]))
    assert len(ratios) >= 10
    assert 0.9 <= np.median(ratios) <= 1.1
    assert np.quantile(ratios, 0.9) <= 1.3  # the bound that docs/accuracy.md states


def test_pointwise_slabs_are_copied_asynchronously(chosen: list[tuple[Any, Any]]) -> None:
    assert all(float(one.counts.async_copy_requests) > 0 for one, _ in chosen if family_of(one.problem) is POINTWISE)
