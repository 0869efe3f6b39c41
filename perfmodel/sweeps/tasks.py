"""The tasks of a sweep: parts of a space that a worker predicts at once, each with a key that says what its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler.compiled import content_key
from ..core.json_values import plain
from ..families.base import Batch, Family, Space
from ..families.registry import family_of
from ..prediction.scenario import Scenario
from ..profiles.kernel_profile import Fidelity
from ..profiles.profile_cache import COUNTING_FOLDERS
from .plan import SweepPlan

CHUNK_CANDIDATES = 262_144
"""Candidates among which equal programs are looked for, as in a ranking."""
ANALYTIC_CANDIDATES = 65_536
"""Candidates of a task that takes closed forms: under a second."""
EXECUTED_CANDIDATES = 16
"""Candidates of a task that compiles and executes: seconds, as much as is done again after a kill."""

_OWN_FOLDERS = ("gpus", "families", "time_model", "prediction", "sweeps", "kernels")
_DATA_FOLDERS = ("data/calibrations", "data/launch_bounds", "data/members")
DECIDING_FOLDERS = (*COUNTING_FOLDERS, *_OWN_FOLDERS, *_DATA_FOLDERS)
"""Folders of the package whose files decide predictions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTask:
    """Candidates ``start`` to ``stop`` of one product of a problem's space, or a ranking of the whole space.

    ``key`` names the result: equal keys, equal rows. ``code`` is what `code_version` must be where the task runs. Of the rows
    of all tasks of one problem and GPU the ``best`` are kept, all where None; a ``ranking`` has no others.
    """

    key: str
    code: str
    problem: Any
    scenario: Scenario
    fidelity: Fidelity
    best: int | None
    ranking: bool
    product: int
    start: int
    stop: int


@cache
def code_version() -> str:
    """Hash of the code, kernels, fitted numbers and tables that decide predictions."""
    digest = hashlib.sha256()
    root = Path(str(files("perfmodel")))
    for folder in DECIDING_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def tasks_of(plan: SweepPlan) -> list[SweepTask]:
    """All tasks, each once: problems in order, for each the GPUs in order, for each its space in order.

    Raises:
        InputError: a problem, a GPU or the fidelity is wrong.
        CompilerMissingError: candidates are to be compiled, and there is no compiler.
    """
    found: dict[str, SweepTask] = {}
    scenarios = plan.scenarios()
    for problem in plan.problems:
        fidelity = plan.fidelity_for(problem)
        for scenario in scenarios:
            for task in _tasks(problem, scenario, fidelity, plan.best):
                found[task.key] = task
    return list(found.values())


def _tasks(problem: Any, scenario: Scenario, fidelity: Fidelity, best: int | None) -> Iterator[SweepTask]:
    family, code, gpu = family_of(problem), code_version(), scenario.gpu
    space = family.space(problem, gpu)
    ranking = best is not None and family.closed_forms
    parts = [(0, 0, 0)] if ranking else list(_parts(space, fidelity))
    shared = [code, plain(problem), family.name, repr(scenario), fidelity.value, best]
    if fidelity is not Fidelity.ANALYTIC:
        first = space.products[0].batch(0, 1).configuration(0)
        shared.append(content_key(family.compile_request(problem, first, gpu), gpu.architecture.name))
    contents = ["" if family.closed_forms else _contents(family, problem, scenario, *part) for part in parts]
    if best is not None:
        shared.append(_digest(contents))  # whether a row is among the best depends on all the others
    for part, content in zip(parts, contents, strict=True):
        product, start, stop = part
        yield SweepTask(
            key=_digest([*shared, part, content])[:32],
            code=code,
            problem=problem,
            scenario=scenario,
            fidelity=fidelity,
            best=best,
            ranking=ranking,
            product=product,
            start=start,
            stop=stop,
        )


def _parts(space: Space[Any], fidelity: Fidelity) -> Iterator[tuple[int, int, int]]:
    size = ANALYTIC_CANDIDATES if fidelity is Fidelity.ANALYTIC else EXECUTED_CANDIDATES
    for number, product in enumerate(space.products):
        for start in range(0, len(product), size):
            yield number, start, min(start + size, len(product))


def _contents(family: Family[Any, Any], problem: Any, scenario: Scenario, product: int, start: int, stop: int) -> str:
    """What the files of a user's own kernel say of these candidates."""
    batch = _candidates(problem, scenario, product, start, stop)
    if not len(batch):
        return ""
    checks = [(check.reason, check.rejected.tolist()) for check in family.checks(problem, batch, scenario.gpu)]
    each = [family.profile_identity(problem, batch.configuration(index)) for index in range(len(batch))]
    return repr((checks, each))


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def candidates_of(task: SweepTask) -> Batch[Any]:
    """The candidates of a task that is no ranking, those that are the same program as an earlier one left out."""
    return _candidates(task.problem, task.scenario, task.product, task.start, task.stop)


def _candidates(problem: Any, scenario: Scenario, product: int, start: int, stop: int) -> Batch[Any]:
    block = start // CHUNK_CANDIDATES * CHUNK_CANDIDATES
    batch, kept = _block(problem, scenario, product, block)
    places = slice(start - block, stop - block)
    return batch.take(places).take(kept[places])


@lru_cache(maxsize=4)
def _block(problem: Any, scenario: Scenario, product: int, start: int) -> tuple[Batch[Any], NDArray[np.bool_]]:
    """Candidates of a product, and which of them are no earlier one's program."""
    family = family_of(problem)
    chosen = family.space(problem, scenario.gpu).products[product]
    batch = chosen.batch(start, min(start + CHUNK_CANDIDATES, len(chosen)))
    return batch, ~family.redundant(problem, batch, scenario.gpu)
