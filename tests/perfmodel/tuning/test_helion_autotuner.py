"""The autotuner for Helion, on a stand-in of the class of Helion 1.5 that it builds on: what it calls, and what that gives."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.tuning.helion_autotuner import helion_autotuner


@dataclass(frozen=True)
class Config:
    """A configuration, hashable as Helion's."""

    block: int
    warps: int
    indexing: str

    @property
    def milliseconds(self) -> float:
        """A made-up time: blocks of 128 with 4 warps are best; 16 warps do not run."""
        if self.warps == 16:
            return math.inf
        slower = 0.0 if self.indexing == "pointer" else 0.2
        return 1.0 + abs(math.log2(self.block / 128)) + 0.3 * abs(math.log2(self.warps / 4)) + slower


SPACE = [Config(*one) for one in product((16, 32, 64, 128, 256, 512), (1, 2, 4, 8, 16), ("pointer", "block_ptr"))]


class Generation:
    """Encodes configurations as Helion's ``ConfigGeneration`` does: numbers by their logarithm, choices by an axis each."""

    def flatten(self, config: Config) -> list[Any]:
        return [config.block, config.warps, config.indexing]

    def encode_config(self, flat: list[Any]) -> list[float]:
        block, warps, indexing = flat
        return [math.log2(block), math.log2(warps), float(indexing == "pointer"), float(indexing == "block_ptr")]


class RandomSearch:
    """Draws ``count`` configurations, some of them twice; ``autotune`` returns what ``_autotune`` does."""

    def __init__(self, kernel: Any, args: Any, count: int) -> None:
        self.kernel, self.args, self.config_gen = kernel, args, Generation()
        self.configs = [*SPACE, *SPACE][:count]
        self.measured: list[Config] = []

    def benchmark(self, config: Config) -> SimpleNamespace:
        self.measured.append(config)
        return SimpleNamespace(perf=config.milliseconds, status="ok")

    def autotune(self, *, skip_cache: bool = False) -> Config:
        found: Config = self._autotune()  # type: ignore[attr-defined]
        return found


@pytest.fixture
def _helion(monkeypatch: pytest.MonkeyPatch) -> None:
    autotuner = ModuleType("helion.autotuner")
    autotuner.RandomSearch = RandomSearch  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "helion", ModuleType("helion"))
    monkeypatch.setitem(sys.modules, "helion.autotuner", autotuner)


@pytest.mark.usefixtures("_helion")
def test_the_fastest_is_found_in_some_of_the_runs() -> None:
    search = helion_autotuner(runs=40)(object(), ())
    assert search.autotune() == Config(128, 4, "pointer")
    assert len(search.measured) == len(set(search.measured)) <= 40 < len(SPACE)


@pytest.mark.usefixtures("_helion")
def test_as_many_are_drawn_and_measured_as_is_said() -> None:
    search = helion_autotuner(candidates=30, runs=5)(object(), ())
    assert search.autotune() in SPACE[:30]
    assert len(search.measured) == 5


def test_without_helion_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "helion.autotuner", None)
    with pytest.raises(InputError, match="an autotuner for Helion needs Helion: pip install helion"):
        helion_autotuner()(object(), ())


@pytest.mark.parametrize(("given", "message"), [({"candidates": 1}, "candidates=1"), ({"runs": 0}, "runs=0")])
def test_too_few_are_refused(given: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        helion_autotuner(**given)
