"""Estimated counts of blocks that differ: from a sample drawn at random in strata of neighbours, with standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...memory.access_counts import AccessCounts
from .block_runs import BlockRuns
from .totals_of_blocks import BlockTotals

REPLICATES = 16
"""Blocks drawn from each stratum; the first of each stratum make one estimate, the second another, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledBlocks:
    """Totals with those of the sampled blocks added, the standard error of each count, and how many blocks were drawn."""

    totals: BlockTotals
    standard_errors: Counts
    drawn: int
    note: str


def sampled_blocks(
    runs: BlockRuns, counted: BlockTotals, blocks: NDArray[np.int64], strata: int, rng: np.random.Generator
) -> SampledBlocks:
    """Estimate the totals of some blocks from as many strata of neighbours.

    Each replicate has one block of every stratum and makes an estimate of its own; how far these lie apart is the error.

    Args:
        runs: executes blocks.
        counted: totals of the other blocks.
        blocks: those to estimate, linear indices in ascending order.
        strata: at most; each has `REPLICATES` blocks at least.
        rng: draws.
    """
    strata = max(min(strata, len(blocks) // REPLICATES), 1)
    bounds = np.linspace(0, len(blocks), strata + 1).astype(np.int64)
    drawn = np.concatenate(
        [blocks[begin + rng.choice(end - begin, REPLICATES, replace=False)] for begin, end in pairwise(bounds.tolist())]
    )
    weight = np.repeat(np.diff(bounds), REPLICATES).astype(np.float64)
    accesses = AccessCounts(len(drawn))
    run = runs.run(drawn, [accesses])
    assert run.visits_by_block is not None
    by_block = run.visits_by_block

    def weighed(weights: NDArray[np.float64]) -> BlockTotals:
        total = BlockTotals(counted.visits + weights @ by_block, dict(counted.sites))
        for site, table in accesses.tables():
            total.add(site, weights @ table)
        return total

    replicate = np.tile(np.arange(REPLICATES), strata)
    estimates = [
        weighed(np.where(replicate == number, weight, 0.0)).counts(runs.kernel) for number in range(REPLICATES)
    ]
    totals = weighed(weight / REPLICATES)
    unseen = np.sqrt((1.0 - len(drawn) / len(blocks)) / REPLICATES)
    errors = Counts(
        **{
            name: float(np.std([getattr(one, name) for one in estimates], ddof=1) * unseen)
            for name, value in estimates[0].items()
            if not np.isnan(value)
        }
    )
    share = 100.0 * float(errors.warp_instructions) / max(float(totals.counts(runs.kernel).warp_instructions), 1.0)
    return SampledBlocks(
        totals=totals,
        standard_errors=errors,
        drawn=len(drawn),
        note=f"counts are estimated from {len(drawn)} blocks drawn from {strata} strata of {len(blocks)} blocks that differ, "
        f"with a standard error of {share:.2g} % of the executed instructions",
    )
