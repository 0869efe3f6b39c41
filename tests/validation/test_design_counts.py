"""Designs of the families that block and use clusters: executed counts are those of an H200's counters, to the unit."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from campaigns.metrics import counts_of_metrics
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.kernel_profile import TRAFFIC_COUNTS
from perfmodel.records.columns import configuration_of_record, record_of_fields
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import Record

pytestmark = pytest.mark.compiler
DATA = Path(__file__).parents[2] / "validation" / "data" / "h200-design-counts.jsonl.gz"
HOLDS_MORE = ("shared_load_wavefronts", "shared_store_wavefronts")
"""Their counters hold wavefronts repeated because of other traffic of L1."""


@cache
def records() -> tuple[Record, ...]:
    return tuple(read_records(DATA))


@pytest.mark.parametrize(
    ("place", "kernel", "clusters"),
    [
        (1, "blocked_convolution", False),
        (3, "pointwise_product", True),  # blocks of a cluster read each other's sums
        (11, "pointwise_product", False),
    ],
)
def test_counts_of_a_design_are_what_an_h200_counted(place: int, kernel: str, clusters: bool) -> None:
    record, gpu = records()[place], load_gpu("h200")
    chosen = family(record.name)
    problem = record_of_fields(chosen.problem_type, dict(record.problem))
    configuration = configuration_of_record(chosen, dict(record.configuration))
    compiled = compile_kernel(chosen.compile_request(problem, configuration, gpu), gpu.architecture.name)
    assert compiled.kernel_name == kernel
    assert record.resources is not None
    if sha256(compiled.cubin).hexdigest() != record.resources.cubin_sha256:
        pytest.skip(f"{kernel} or its compiler has changed since it was counted; count it again on an H200")
    launch = chosen.launch(problem, Batch.of([configuration]), gpu).at(0)
    inputs = chosen.inputs(problem, np.random.default_rng(0))
    profile = executed_profile(compiled, launch, chosen.call(problem, configuration, gpu, inputs), critical_path=False)
    assert profile.exact
    assert (launch.blocks_per_cluster > 1) == clusters == bool(profile.counts.generic_shared_loads)
    compared = 0
    for one in counts_of_metrics(record.counters):
        if one.count not in TRAFFIC_COUNTS:
            predicted = float(one.predicted(profile.counts)[0])
            if one.name in HOLDS_MORE:
                assert predicted <= one.launches[0]
            else:
                assert predicted == one.launches[0], one.name
            compared += 1
    assert compared == 16
