"""What a baseline is: a library's implementation of a family's problem, ready to be enqueued."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import PerfmodelError

Inputs = Mapping[str, NDArray[np.float32]]


class BaselineUnavailableError(PerfmodelError):
    """The library is not installed, or does not offer the operation for this problem; the text says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRun:
    """A library's operation on uploaded inputs.

    ``enqueue`` starts one run on the default stream, ``outputs`` gives the results of a run by the names of the family's
    reference; ``replay`` starts a graph of ``graph_runs`` runs where the library can capture one.
    """

    enqueue: Callable[[], Any]
    outputs: Callable[[], Mapping[str, NDArray[Any]]]
    replay: Callable[[], Any] | None = None
    graph_runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One implementation; ``exact`` says that it computes in fp32 and has to meet the family's tolerance."""

    name: str
    start: Callable[[Any, Inputs], BaselineRun]
    exact: bool = True


def library(name: str) -> Any:
    """A library's module.

    Raises:
        BaselineUnavailableError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise BaselineUnavailableError(f"{name} is not installed") from error
