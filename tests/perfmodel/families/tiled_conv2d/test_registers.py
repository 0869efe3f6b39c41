"""The register estimate against the compiler, on three architectures."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import occupancy
from perfmodel.profiles.counts_store import load_store

PROBLEM = TiledConv2d()
GPUS = {"sm_75": "rtx-2080-ti", "sm_80": "a100-pcie-40gb"}


def test_the_target_is_a_full_sm() -> None:
    """65,536 registers: 2,048 threads leave 32 each, 1,024 leave 64; one output needs fewer anyway."""
    batch = Batch.of(
        [TiledConv2dConfiguration(block_size_x=32, block_size_y=16, tile_size_x=1, tile_size_y=t) for t in (1, 8)]
    )
    assert FAMILY.profile(PROBLEM, batch, load_gpu("a100-pcie-40gb")).registers.tolist() == [32, 32]
    assert FAMILY.profile(PROBLEM, batch, load_gpu("rtx-2080-ti")).registers.tolist() == [32, 48]


@pytest.mark.parametrize("architecture", sorted(GPUS))
def test_the_estimate_gives_the_compilers_occupancy(architecture: str) -> None:
    """Every stored configuration: median error at most 4 registers, the same blocks per SM in at least 85 %."""
    from perfmodel.families.profiling import stored_profiles

    gpu, store = load_gpu(GPUS[architecture]), load_store("tiled_conv2d")
    rng = np.random.default_rng(7)
    space = FAMILY.space(PROBLEM, gpu).products[0]
    drawn = rng.choice(len(space), size=3000, replace=False)
    candidates = [space.batch(int(i), int(i) + 1).configuration(0) for i in drawn]
    candidates = [c for c in candidates if c.read_only == 0 and c.use_padding == 0]
    facts = stored_profiles(FAMILY, PROBLEM, candidates, gpu, store)
    known = [(c, f.resources) for c, f in zip(candidates, facts, strict=True) if f is not None]
    assert len(known) > 100
    batch = Batch.of([c for c, _ in known])
    compiled = np.array([r.registers_per_thread for _, r in known])
    estimate = FAMILY.profile(PROBLEM, batch, gpu).registers
    launch = FAMILY.launch(PROBLEM, batch, gpu)
    blocks = [
        occupancy(
            gpu,
            threads_per_block=launch.threads_per_block,
            registers_per_thread=registers,
            shared_bytes_per_block=launch.static_shared_bytes,
        ).blocks_per_sm
        for registers in (compiled, estimate)
    ]
    assert np.median(np.abs(compiled - estimate)) <= 4
    assert (blocks[0] == blocks[1]).mean() >= 0.85


@pytest.mark.compiler
def test_on_hopper_taps_of_shared_rows_stay_in_registers() -> None:
    """Block of 4 rows, 2 outputs: 4 rows of 15 taps serve both outputs; with 16 rows nothing is shared."""
    gpu = load_gpu("h200")
    few = TiledConv2dConfiguration(block_size_x=32, block_size_y=4, tile_size_x=1, tile_size_y=2)
    none = TiledConv2dConfiguration(block_size_x=32, block_size_y=16, tile_size_x=1, tile_size_y=2)
    estimate = FAMILY.profile(PROBLEM, Batch.of([few, none]), gpu).registers
    assert estimate.tolist() == [4 * 15 + 4, 32]
    for chosen, expected in zip((few, none), estimate.tolist(), strict=True):
        kernel = compile_kernel(FAMILY.compile_request(PROBLEM, chosen, gpu), "sm_90")
        assert abs(kernel.resources.registers_per_thread - expected) <= 4
