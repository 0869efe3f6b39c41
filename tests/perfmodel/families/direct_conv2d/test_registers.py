"""The register estimate against the registers that the compiler gave to configurations drawn from the space.

They stand in ``compiled_registers.csv``, which ``--update-golden`` compiles anew (minutes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.compiler.pool import compile_many
from perfmodel.errors import PerfmodelError
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.direct_conv2d.launch import compile_request
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import occupancy

GPUS = {"sm_75": "rtx-2080-ti", "sm_80": "a100-pcie-40gb", "sm_90": "h200"}
STORED_PATH = Path(__file__).with_name("compiled_registers.csv")
STORED = pd.read_csv(STORED_PATH, keep_default_na=False)
PROBLEM_FIELDS = [
    "in_channels", "out_channels", "filter_height", "filter_width", "stride", "padding", "depthwise",
]  # fmt: skip


def problem_of(row: pd.Series) -> Conv2d:
    sizes = {name: int(row[name]) for name in PROBLEM_FIELDS}
    return Conv2d(**(sizes | {"depthwise": bool(row["depthwise"])}), height=256, width=256)


def configuration_of(row: pd.Series) -> DirectConv2dConfiguration:
    return DirectConv2dConfiguration(
        reuse=Reuse(row["reuse"]),
        exchange=None if row["exchange"] == "none" else Exchange(row["exchange"]),
        accumulators=None if row["accumulators"] == "none" else Accumulators(row["accumulators"]),
        rows_per_thread=int(row["rows_per_thread"]),
        block_x=int(row["block_x"]),
        block_y=int(row["block_y"]),
    )


@pytest.mark.parametrize("architecture", GPUS)
def test_estimate_is_close_and_gives_the_same_blocks_per_sm(architecture: str) -> None:
    gpu = load_gpu(GPUS[architecture])
    rows = STORED[STORED["architecture"] == architecture]
    estimated = np.empty(len(rows), np.int64)
    for _, group in rows.assign(position=np.arange(len(rows))).groupby(PROBLEM_FIELDS):
        batch = Batch.of([configuration_of(row) for _, row in group.iterrows()])
        estimated[group["position"]] = FAMILY.profile(problem_of(group.iloc[0]), batch, gpu).registers
    compiled = rows["registers_per_thread"].to_numpy()
    assert np.median(np.abs(estimated - compiled)) <= 4
    threads = (rows["block_x"] * rows["block_y"]).to_numpy()
    blocks = [
        occupancy(
            gpu, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=0
        ).blocks_per_sm
        for registers in (estimated, compiled)
    ]
    assert np.mean(blocks[0] == blocks[1]) >= 0.85


@pytest.mark.compiler
def test_stored_registers_are_the_compilers(request: pytest.FixtureRequest) -> None:
    update = request.config.getoption("--update-golden")
    rows = STORED if update else STORED.groupby("architecture").sample(5, random_state=11)
    jobs = [
        (compile_request(problem_of(row), configuration_of(row)), row["architecture"]) for _, row in rows.iterrows()
    ]
    registers = [compiled.resources.registers_per_thread for compiled in map(compiled_kernel, compile_many(jobs))]
    if update:
        STORED.assign(registers_per_thread=registers).to_csv(STORED_PATH, index=False)
    else:
        assert registers == rows["registers_per_thread"].tolist()


def compiled_kernel(outcome: CompiledKernel | PerfmodelError) -> CompiledKernel:
    if isinstance(outcome, PerfmodelError):
        raise outcome
    return outcome
