"""Mutated machine code gives a result or one line of error."""

from __future__ import annotations

import pytest

from .fuzz import fuzz, sources

pytestmark = [pytest.mark.compiler, pytest.mark.filterwarnings("ignore")]


def test_two_hundred_mutants() -> None:
    outcomes = fuzz(200, 3, sources())
    assert sum(outcomes.values()) == 200
    assert outcomes["result"] < 160  # many changes must be noticed, or the mutants test nothing
