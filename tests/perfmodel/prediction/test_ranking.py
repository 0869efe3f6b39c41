"""Rankings: the analytic order is the whole space's, nothing stands twice, what is left out is counted and told."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.compiler.resources import Resources
from perfmodel.core.counts import Counts
from perfmodel.core.json_values import plain
from perfmodel.errors import CompileError, InfeasibleError, InputError
from perfmodel.families.base import Batch, Space
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.profiling import Outcome
from perfmodel.families.registry import family, family_names, family_of
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.families.user.family import user_problem
from perfmodel.launch.launch import Launch
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.ranking import REFINED_CANDIDATES, rank_problem, shortlist, survey
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity, KernelProfile

EXAMPLES = Path(__file__).parents[3] / "examples"
UNDER = scenario_of("rtx-2080-ti")
PROBLEM = TiledConv2d(height=256, width=256, filter_height=5, filter_width=5)


def every_time(problem: Any) -> tuple[Batch[Any], np.ndarray, Counter[str]]:
    """All candidates at once, without chunks or products: what the survey must equal."""
    kind = family_of(problem)
    batch = kind.space(problem, UNDER.gpu).batch()
    batch = batch.take(~kind.redundant(problem, batch, UNDER.gpu))
    found = evaluate_batch(kind, problem, batch, UNDER)
    return batch, found.seconds, Counter(found.feasibility.rejected())


@pytest.mark.parametrize("problem", [PROBLEM, Conv2d(height=64, width=64, filter_height=5, filter_width=5)])
def test_the_analytic_ranking_is_the_order_of_the_whole_space(problem: Any) -> None:
    batch, seconds, rejected = every_time(problem)
    ranking = rank_problem(problem, UNDER, Fidelity.ANALYTIC, top=25)
    assert ranking.candidates == len(batch)
    assert Counter(ranking.rejected) == rejected
    assert [p.time.predicted_s for p in ranking.top] == pytest.approx(np.sort(seconds)[:25].tolist())
    by_configuration = {str(batch.configuration(i)): seconds[i] for i in np.argsort(seconds)[:200].tolist()}
    for prediction in ranking.top:
        assert by_configuration[str(prediction.configuration)] == pytest.approx(prediction.time.predicted_s)
        assert prediction.fidelity is Fidelity.ANALYTIC
        assert not prediction.exact


@pytest.mark.parametrize("name", family_names())
def test_no_configuration_of_a_space_stands_twice(name: str) -> None:
    """The default problem's candidates, each a row of columns, all different; the union's parts are disjoint too."""
    kind = family(name)
    space = kind.space(kind.default_problem(), UNDER.gpu)
    rows = np.concatenate([np.stack(list(chunk.columns.values()), axis=1) for chunk in space.chunks()])
    assert len(rows) == len(space)
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("name", family_names())
def test_the_top_of_every_family_is_feasible_ordered_and_without_repetition(name: str) -> None:
    ranking = rank_problem(family(name).default_problem(), UNDER, Fidelity.ANALYTIC, top=30)
    times = [prediction.time.predicted_s for prediction in ranking.top]
    assert times == sorted(times)
    assert 0 < times[0] < np.inf
    assert all(prediction.occupancy.blocks_per_sm >= 1 for prediction in ranking.top)
    assert len({str(prediction.configuration) for prediction in ranking.top}) == len(times)
    assert sum(ranking.rejected.values()) + len(times) <= ranking.candidates


def test_the_shortlist_sees_every_product_of_the_space() -> None:
    """Half of it are the fastest of all; the other half are drawn from every product, the best of each first."""
    kind = family_of(PROBLEM)
    found = survey(kind, PROBLEM, UNDER, REFINED_CANDIDATES)
    chosen = Batch.joined([batch for batch, _ in found.best]).take(shortlist(found, REFINED_CANDIDATES))
    names = [str(chosen.configuration(i)) for i in range(len(chosen))]
    assert len(set(names)) == REFINED_CANDIDATES
    products = kind.space(PROBLEM, UNDER.gpu).products
    assert len(found.best) == len(products) == 2
    for product in products:
        part = np.concatenate(
            [evaluate_batch(kind, PROBLEM, chunk, UNDER).seconds for chunk in Space((product,)).chunks()]
        )
        best = product.batch(0, len(product)).configuration(int(part.argmin()))
        assert str(best) in names
    fastest = [
        str(p.configuration) for p in rank_problem(PROBLEM, UNDER, Fidelity.ANALYTIC, REFINED_CANDIDATES // 2).top
    ]
    assert set(fastest) <= set(names)
    assert names[: len(fastest)] == fastest


def test_the_shortlist_leaves_out_products_that_are_too_slow_whatever_closed_forms_are_off() -> None:
    """Twice the error apart or less: one may be that much too slow, the other that much too fast."""
    found = survey(family_of(PROBLEM), PROBLEM, UNDER, REFINED_CANDIDATES)
    fastest = [float(seconds.min()) for _, seconds in found.best]
    apart = abs(np.log(fastest[1] / fastest[0]))
    first_of_slower = len(found.best[0][0]) if fastest[1] > fastest[0] else 0
    assert first_of_slower in shortlist(found, REFINED_CANDIDATES, 0.51 * apart)
    assert first_of_slower not in shortlist(found, REFINED_CANDIDATES, 0.49 * apart)


def test_a_shortlist_may_be_larger_than_what_fits() -> None:
    found = survey(family_of(PROBLEM), PROBLEM, UNDER, 3)
    assert len(shortlist(found, 100)) == sum(len(batch) for batch, _ in found.best) == 6


def test_rejected_counts_and_reasons_are_those_of_single_predictions() -> None:
    """4,096 threads in a block break the GPU's limit; the reason is in the counts of a space that holds them."""
    ranking = rank_problem(PROBLEM, UNDER, Fidelity.ANALYTIC, top=1)
    assert ranking.rejected["threads per block"] > 0
    assert list(ranking.rejected.values()) == sorted(ranking.rejected.values(), reverse=True)
    found = evaluate_batch(
        family_of(PROBLEM), PROBLEM, Batch.of([TiledConv2dConfiguration(block_size_x=128, block_size_y=32)]), UNDER
    )
    assert found.feasibility.rejected() == {"threads per block": 1}
    assert "4096 threads" in str(found.feasibility.rejection(0, UNDER.gpu))


def test_where_nothing_fits_the_error_names_a_limit() -> None:
    """A register file of 256 holds no warp of this kernel; the reason that rejects most candidates is the one told."""
    tiny = replace(UNDER.gpu, registers_per_sm=256, registers_per_block=256, id="tiny")
    with pytest.raises(InfeasibleError, match="tiny") as refused:
        rank_problem(PROBLEM, replace(UNDER, gpu=tiny), Fidelity.ANALYTIC)
    assert "tiled_conv2d" in str(refused.value)
    assert "256" in str(refused.value)


def test_top_must_be_positive_and_may_exceed_the_space() -> None:
    with pytest.raises(InputError, match="top=0"):
        rank_problem(PROBLEM, UNDER, Fidelity.ANALYTIC, top=0)
    kind = family("ssim")
    ranking = rank_problem(kind.default_problem(), UNDER, Fidelity.ANALYTIC, top=10_000)
    assert len(ranking.top) == ranking.candidates - sum(ranking.rejected.values())


def test_analytic_notes_say_that_counts_are_estimates() -> None:
    ranking = rank_problem(PROBLEM, UNDER, Fidelity.ANALYTIC, top=2)
    assert ranking.notes == ()
    assert all("nothing was compiled" in prediction.notes[0] for prediction in ranking.top)
    content = ranking.to_json()
    assert content["candidates"] == ranking.candidates
    assert content["problem"] == plain(PROBLEM)
    assert content["top"][0]["config"] == plain(ranking.best.configuration)


@pytest.mark.compiler
def test_the_compiled_ranking_compiles_so_many_candidates_and_no_more() -> None:
    """32 × 32 outputs of 3 × 3 taps compile in no time; every candidate is asked for once."""
    problem = TiledConv2d(height=32, width=32, filter_height=3, filter_width=3)
    steps: list[None] = []
    ranking = rank_problem(problem, UNDER, Fidelity.COMPILED, top=3, advance=lambda: steps.append(None))
    assert len(steps) == REFINED_CANDIDATES
    assert len(ranking.top) == 3
    assert all(prediction.fidelity is Fidelity.COMPILED for prediction in ranking.top)
    assert all(prediction.resources.code_bytes > 0 for prediction in ranking.top)
    times = [prediction.time.predicted_s for prediction in ranking.top]
    assert times == sorted(times)


def known(registers: int) -> KernelProfile:
    resources = Resources(
        registers_per_thread=registers,
        static_shared_bytes=0,
        stack_bytes_per_thread=0,
        spill_load_bytes=0,
        spill_store_bytes=0,
        code_bytes=64,
    )
    return KernelProfile(
        launch=Launch(grid_x=64, block_x=64), resources=resources, counts=Counts(fp32_fma=1e6), exact=True
    )


def given(monkeypatch: pytest.MonkeyPatch, outcome: Callable[[int], Outcome]) -> None:
    """Let ``outcome(i)`` be what compiling the i-th candidate gives."""
    number = itertools.count()

    def gathered(family: Any, problem: Any, batch: Batch[Any], gpu: Any, **rest: Any) -> list[Outcome]:
        return [outcome(next(number)) for _ in range(len(batch))]

    monkeypatch.setattr("perfmodel.prediction.ranking.gather_profiles", gathered)


def test_what_does_not_compile_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, lambda i: known(32) if i % 2 else CompileError("too long"))
    ranking = rank_problem(PROBLEM, UNDER, Fidelity.COMPILED, top=REFINED_CANDIDATES)
    assert len(ranking.top) == REFINED_CANDIDATES // 2
    assert len(ranking.notes) == REFINED_CANDIDATES // 2
    assert all("left out: too long" in note and "block_size_x" in note for note in ranking.notes)


def test_what_compiles_but_does_not_fit_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, lambda i: known(300 if i == 3 else 32))
    ranking = rank_problem(PROBLEM, UNDER, Fidelity.COMPILED, top=REFINED_CANDIDATES)
    assert len(ranking.top) == REFINED_CANDIDATES - 1
    (note,) = ranking.notes
    assert "300 registers" in note


@pytest.mark.parametrize(("outcome", "told"), [(CompileError("too long"), "too long"), (known(300), "300 registers")])
def test_where_nothing_is_left_the_error_says_why(outcome: Outcome, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, lambda i: outcome)
    with pytest.raises(InfeasibleError, match=told):
        rank_problem(PROBLEM, UNDER, Fidelity.COMPILED)


def test_a_space_of_ones_own_is_searched_by_some_executions() -> None:
    problem = user_problem(EXAMPLES / "blur.cu", EXAMPLES / "blur.toml")
    whole = rank_problem(problem, UNDER, top=24)
    some = rank_problem(problem, UNDER, top=24, executions=16)
    assert len(some) == 16
    assert (some.candidates, some.rejected) == (whole.candidates, whole.rejected)
    times = {found.configuration: found.time.predicted_s for found in whole}
    assert all(found.time.predicted_s == times[found.configuration] for found in some)
    assert some.best.time.predicted_s <= sorted(times.values())[3]


@pytest.mark.parametrize(("problem", "executions", "named"), [(PROBLEM, 8, "closed forms"), (None, 0, "at least 1")])
def test_executions_are_for_spaces_of_ones_own(problem: Any, executions: int, named: str) -> None:
    given = problem or user_problem(EXAMPLES / "blur.cu", EXAMPLES / "blur.toml")
    with pytest.raises(InputError, match=named):
        rank_problem(given, UNDER, executions=executions)
