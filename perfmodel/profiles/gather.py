"""Facts for configurations: from the counts store where they stand there, else by compiling and executing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..compiler.pool import run_many
from ..compiler.toolchain import nvrtc, ptxas_path
from ..errors import PerfmodelError
from ..families.base import Batch, Family
from ..gpus.gpu import Gpu
from ..prediction.prediction import Fidelity, plain
from .counts_store import CountsStore, load_store, store_key
from .execution import executed_facts, remembered_facts
from .facts import Advance, Facts, no_progress

Outcome = Facts | PerfmodelError
"""Facts of a configuration, or why there are none."""

APPROXIMATE_NOTE = "counts of an equivalent configuration: the same requests, instructions may differ by a few"


def stored_facts(
    family: Family[Any, Any],
    problem: Any,
    configurations: Sequence[Any],
    gpu: Gpu,
    store: CountsStore,
    *,
    equivalents: bool = False,
) -> list[Facts | None]:
    """What the store knows of each configuration; with ``equivalents`` also by ``Family.equivalents``, then not exact."""

    def find(configuration: Any) -> Facts | None:
        request = family.compile_request(problem, configuration, gpu)
        return store.find(store_key(request, problem, gpu.architecture.name, store.compiler))

    found: list[Facts | None] = []
    for configuration in configurations:
        facts = find(configuration) if len(store) else None
        others = family.equivalents(configuration) if facts is None and equivalents and len(store) else ()
        for other in others:
            known = find(other) if facts is None else None
            facts = replace(known, exact=False, approximate=True, notes=(APPROXIMATE_NOTE,)) if known else facts
        found.append(facts)
    return found


def gather_facts(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    gpu: Gpu,
    *,
    fidelity: Fidelity = Fidelity.COMPILED,
    use_store: bool = True,
    equivalents: bool = False,
    stored_only: bool = False,
    stores: Sequence[CountsStore] | None = None,
    advance: Advance = no_progress,
) -> list[Outcome]:
    """Facts for every configuration of the batch, in order; ``advance`` is called once for each.

    The stores are asked first (compiled fidelity only; the family's own where None are given), one after the other, then the
    disk cache; what all lack is compiled and executed in parallel. Without ``use_store`` everything is compiled and executed
    anew; with ``stored_only`` nothing is.
    """
    configurations = [batch.configuration(i) for i in range(len(batch))]
    outcomes: dict[int, Outcome] = {}
    if use_store and fidelity is Fidelity.COMPILED:
        for store in (load_store(family.name),) if stores is None else stores:
            lacking = [i for i in range(len(batch)) if i not in outcomes]
            asked = [configurations[i] for i in lacking]
            stored = stored_facts(family, problem, asked, gpu, store, equivalents=equivalents)
            outcomes |= {i: facts for i, facts in zip(lacking, stored, strict=True) if facts is not None}
        for _ in outcomes:
            advance()
    missing = [i for i in range(len(batch)) if i not in outcomes]
    if stored_only:
        absent = PerfmodelError(f"not in the counts store of {family.name} for {gpu.architecture.name}")
        return [outcomes.get(i, absent) for i in range(len(batch))]
    if missing:
        nvrtc(), ptxas_path()
    if use_store:
        for i in missing:
            known = remembered_facts(family, problem, configurations[i], gpu, fidelity)
            if known is not None:
                outcomes[i] = known
                advance()
        missing = [i for i in missing if i not in outcomes]
    jobs = [(family, problem, configurations[i], gpu, fidelity) for i in missing]
    fresh = run_many(executed_facts, jobs, describe=_described, advance=advance)
    outcomes |= dict(zip(missing, fresh, strict=True))
    return [outcomes[i] for i in range(len(batch))]


def _described(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu, fidelity: Fidelity) -> str:
    return f"{family.name} {plain(configuration)} for {gpu.id}"
