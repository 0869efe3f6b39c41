"""Every kernel of the corpus gives NumPy's results and the counts of plain arithmetic, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from perfmodel.memory.access_counts import InstructionCount
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.simulator.simulation import Mode

from . import cases_control, cases_memory, cases_warp
from .corpus_case import Case, kernel_of

pytestmark = pytest.mark.compiler
MODULES = (cases_memory, cases_warp, cases_control)
CASES: list[Callable[[], Case]] = [case for module in MODULES for case in module.CASES]


def _names() -> Iterator[str]:
    for position, case in enumerate(CASES):
        yield f"{case.__name__.strip('<>')}-{position}"


def _run(case: Case, mode: Mode = Mode.EXECUTE, check: bool = False) -> CountedRun:
    kernel = kernel_of(case)
    return counted_run(kernel, case.launch, case.call, mode=mode, check=check)


def _totals(simulation: CountedRun) -> list[InstructionCount]:
    return list(simulation.instructions)


@pytest.mark.parametrize("make", CASES, ids=_names())
def test_results_counts_and_modes(make: Callable[[], Case]) -> None:
    case = make()
    executed = _run(case)
    for name, expected in case.expected.items():
        np.testing.assert_allclose(
            executed.outputs[name], expected, rtol=case.tolerance, atol=case.tolerance, err_msg=name
        )
    counts = dict(executed.counts.items())
    assert {name: counts[name] for name in case.counts} == {name: float(value) for name, value in case.counts.items()}
    traced = _run(case, Mode.TRACE)
    assert _totals(traced) == _totals(executed)
    assert traced.visits.tolist() == executed.visits.tolist()
    checked = _run(case, check=True)
    assert checked.completed
    if case.clean:
        assert [fault.text for fault in checked.faults] == []
