"""Where profiles come from: the store first, the compiler for what it lacks, errors as values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfmodel.core.counts import Counts
from perfmodel.errors import CompileError
from perfmodel.families.base import Batch
from perfmodel.families.profiling import APPROXIMATE_NOTE, Depth, _key, configuration_profile, gather_profiles
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.profiles.counts_store import empty_store, store_key, with_profiles
from perfmodel.profiles.kernel_profile import Fidelity, KernelProfile

pytestmark = pytest.mark.compiler

GPU = load_gpu("rtx-2080-ti")
PROBLEM = TiledConv2d(height=32, width=32, filter_height=3, filter_width=3)
STORED, NEW = (TiledConv2dConfiguration(block_size_x=32, block_size_y=4, tile_size_x=t, tile_size_y=1) for t in (1, 2))
MARK = 77
"""Registers that no compiler would give, so that a row of the store is known again."""


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> KernelProfile:
    """The profile of STORED as the store has it, with MARK registers."""
    profile = configuration_profile(FAMILY, PROBLEM, STORED, GPU, Depth.WHOLE)
    profile = replace(profile, resources=replace(profile.resources, registers_per_thread=MARK))
    key = store_key(FAMILY.compile_request(PROBLEM, STORED, GPU), PROBLEM, GPU.architecture.name, "any compiler")
    store = with_profiles(empty_store("any compiler"), {key: profile})
    monkeypatch.setattr("perfmodel.families.profiling.load_store", lambda name: store)
    return profile


def registers(outcomes: list[object]) -> list[int]:
    return [outcome.resources.registers_per_thread for outcome in outcomes if isinstance(outcome, KernelProfile)]


def test_the_store_is_asked_first_and_the_rest_is_compiled(marked: KernelProfile) -> None:
    steps: list[None] = []
    batch = Batch.of([NEW, STORED])
    found = registers(list(gather_profiles(FAMILY, PROBLEM, batch, GPU, advance=lambda: steps.append(None))))
    own = configuration_profile(FAMILY, PROBLEM, NEW, GPU, Depth.MIDDLE_BLOCK).resources.registers_per_thread
    assert found == [own, MARK]
    assert len(steps) == 2


def test_what_the_store_lacks_may_be_left_alone(marked: KernelProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "perfmodel.families.profiling.run_many", lambda *given, **named: pytest.fail("something was compiled")
    )
    absent, stored = gather_profiles(FAMILY, PROBLEM, Batch.of([NEW, STORED]), GPU, stored_only=True)
    assert registers([stored]) == [MARK]
    assert str(absent) == "not in the counts store of tiled_conv2d for sm_75"


def test_simulated_fidelity_and_recounting_pass_the_store_by(marked: KernelProfile) -> None:
    batch = Batch.of([STORED])
    for outcomes in (
        gather_profiles(FAMILY, PROBLEM, batch, GPU, fidelity=Fidelity.SIMULATED),
        gather_profiles(FAMILY, PROBLEM, batch, GPU, use_store=False),
    ):
        assert registers(list(outcomes)) != [MARK]


def test_an_equivalent_is_taken_only_where_that_is_asked_for(marked: KernelProfile) -> None:
    """The same with the read-only path: its instructions may differ, so its counts are marked as estimated."""
    batch = Batch.of([replace(STORED, read_only=1)])
    assert registers(list(gather_profiles(FAMILY, PROBLEM, batch, GPU))) != [MARK]
    (found,) = gather_profiles(FAMILY, PROBLEM, batch, GPU, equivalents=True)
    assert isinstance(found, KernelProfile)
    assert (found.resources.registers_per_thread, found.exact, found.notes) == (MARK, False, APPROXIMATE_NOTE)


def test_an_equivalents_wavefronts_are_in_the_proportion_of_the_closed_forms(marked: KernelProfile) -> None:
    """With padding the shared accesses conflict otherwise: executed requests times the closed form's wavefronts for each."""
    from perfmodel.prediction.scenario import scenario_of

    narrow = TiledConv2dConfiguration(block_size_x=16, block_size_y=4, tile_size_x=1, tile_size_y=1, use_padding=1)
    batch, scenario = Batch.of([narrow]), scenario_of(GPU)
    closed = FAMILY.profile(PROBLEM, batch, GPU).counts
    approximate = replace(marked, approximate=True, exact=False)
    merged = evaluate_batch(FAMILY, PROBLEM, batch, scenario, [approximate]).profile.counts
    expected = float(marked.counts.shared_load_requests) * float(closed.shared_load_wavefronts[0])
    assert merged.shared_load_wavefronts[0] == pytest.approx(expected / float(closed.shared_load_requests[0]))


def test_a_profile_of_one_block_is_kept_under_what_closed_forms_say_of_the_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    depths, before = (Depth.MIDDLE_BLOCK, Depth.WHOLE), type(FAMILY).closed_counts

    def more_loads(*arguments: Any) -> Counts:
        counts = before(*arguments)
        return replace(counts, global_load_requests=2 * counts.global_load_requests)

    of_one, of_all = (_key(FAMILY, PROBLEM, STORED, GPU, depth) for depth in depths)
    monkeypatch.setattr(type(FAMILY), "closed_counts", more_loads)
    again = [_key(FAMILY, PROBLEM, STORED, GPU, depth) for depth in depths]
    assert again[0] != of_one
    assert again[1] == of_all


def test_what_does_not_compile_is_a_value() -> None:
    """128 × 32 threads of 8 × 8 outputs: a patch of 1,026 × 258 words is more than ptxas allocates."""
    large = TiledConv2dConfiguration(block_size_x=128, block_size_y=32, tile_size_x=8, tile_size_y=8)
    (outcome,) = gather_profiles(FAMILY, PROBLEM, Batch.of([large]), GPU, use_store=False)
    assert isinstance(outcome, CompileError)
    assert "shared" in str(outcome)
