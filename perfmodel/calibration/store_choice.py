"""Which compiler built what was measured, of those that counts are stored for."""

from __future__ import annotations

from typing import Any

from ..families.base import Family
from ..gpus.gpu import Gpu
from ..profiles.counts_store import CountsStore, load_stores
from ..profiles.gather import stored_facts
from ..records.measurements import Measurements

RECORDED = "registers_per_thread"


def stores_for(family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> tuple[CountsStore, ...]:
    """Where to look facts of these runs up, one store after the other; the last is that of the extra ``compile``.

    Compilers differ in the registers that they give a kernel, by a few or by a hundred, and with them in how many blocks
    share an SM. A file that records registers tells which of the programs was measured: that of the store whose registers
    are the recorded ones in most runs comes first.
    """
    usual, *others = load_stores(family.name)
    if not others or RECORDED not in measurements.columns:
        return (usual,)
    best = max((usual, *others), key=lambda store: _agreement(store, family, measurements, gpu))
    return (usual,) if best is usual else (best, usual)


def _agreement(store: CountsStore, family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> int:
    """Runs whose stored registers are the recorded ones."""
    recorded = measurements.columns[RECORDED].to_numpy()
    equal = 0
    for index, problem in enumerate(measurements.problems):
        rows = (measurements.ran & (measurements.problem_index == index)).nonzero()[0].tolist()
        found = stored_facts(family, problem, [measurements.batch.configuration(i) for i in rows], gpu, store)
        equal += sum(
            facts is not None and facts.resources.registers_per_thread == recorded[i]
            for i, facts in zip(rows, found, strict=True)
        )
    return equal
