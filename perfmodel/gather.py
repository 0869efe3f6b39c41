"""Facts for configurations: from the counts store where they stand there, else by compiling and executing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .compiler import CompileRequest, compile_many
from .errors import CompileError, PerfmodelError
from .execution import Execution
from .facts import Advance, Facts, no_progress, take_launch
from .families.base import Batch, Family
from .gpu import Gpu
from .prediction import Fidelity
from .store import CountsStore, load_store, store_key

Outcome = Facts | PerfmodelError
"""Facts of a configuration, or why there are none."""

EQUIVALENT_NOTE = "counts of an equivalent configuration: same memory accesses, instructions may differ by a few"


def stored_facts(
    family: Family[Any, Any],
    problem: Any,
    configurations: Sequence[Any],
    gpu: Gpu,
    store: CountsStore,
    *,
    equivalents: bool = False,
) -> list[Facts | None]:
    """What the store knows of each configuration; with ``equivalents`` also by ``Family.equivalent``, then not exact."""

    def find(configuration: Any) -> Facts | None:
        request = family.compile_request(problem, configuration, gpu)
        return store.find(store_key(request, problem, gpu.architecture, store.compiler))

    found: list[Facts | None] = []
    for configuration in configurations:
        facts = find(configuration) if len(store) else None
        if facts is None and equivalents and len(store):
            other = family.equivalent(configuration)
            facts = None if other is None else _inexact(find(other))
        found.append(facts)
    return found


def _inexact(facts: Facts | None) -> Facts | None:
    if facts is None:
        return None
    return Facts(
        resources=facts.resources,
        counts=facts.counts,
        loop_code_bytes=facts.loop_code_bytes,
        exact=False,
        notes=(EQUIVALENT_NOTE,),
    )


def gather_facts(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    gpu: Gpu,
    *,
    fidelity: Fidelity = Fidelity.COMPILED,
    use_store: bool = True,
    equivalents: bool = False,
    advance: Advance = no_progress,
) -> list[Outcome]:
    """Facts for every configuration of the batch, in order; ``advance`` is called once for each.

    The store is asked first (compiled fidelity only); what it lacks is compiled in parallel and executed.
    """
    configurations = [batch.configuration(i) for i in range(len(batch))]
    outcomes: dict[int, Outcome] = {}
    if use_store and fidelity is Fidelity.COMPILED:
        store = load_store(family.name)
        stored = stored_facts(family, problem, configurations, gpu, store, equivalents=equivalents)
        outcomes = {i: facts for i, facts in enumerate(stored) if facts is not None}
        for _ in outcomes:
            advance()
    missing = [i for i in range(len(batch)) if i not in outcomes]
    requests: list[tuple[CompileRequest, str]] = [
        (family.compile_request(problem, configurations[i], gpu), gpu.architecture) for i in missing
    ]
    compiled = compile_many(requests, advance=advance)
    execution = Execution(family, problem, gpu, fidelity)
    launches = family.launch(problem, batch, gpu)
    for i, kernel in zip(missing, compiled, strict=True):
        if isinstance(kernel, CompileError):
            outcomes[i] = kernel
            continue
        try:
            outcomes[i] = execution.facts(kernel, take_launch(launches, i), configurations[i])
        except PerfmodelError as error:
            outcomes[i] = error
    return [outcomes[i] for i in range(len(batch))]
