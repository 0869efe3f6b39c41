"""Variants of the pointwise kernel, timed and not in the package, as unseen kernels: their source is in the record."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.errors import InputError
from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.blocking.tiles import THREADS_PER_BLOCK
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import L2State, Launch
from perfmodel.records.columns import record_of_fields

from .launches import MakeCall, MeasuredTime, UnseenLaunch

KERNEL = "pointwise_conv2d"
SOURCES = {"rows x1": "source_of_rows", "rows x2": "source_of_rows", "spread": "source_of_spread"}
"""Kinds that differ from the kernel that the coefficients were fitted to, and where the record has their source."""
TIMES = (("warm graph", L2State.WARM), ("cold graph", L2State.COLD))
SECONDS_PER_US = 1e-6


def variant_launches(
    path: Path, sample: int, seed: int, kinds: Sequence[str] = tuple(SOURCES)
) -> tuple[UnseenLaunch, ...]:
    """As many launches of each kind as make up the sample, drawn by the seed, in the order of the record.

    Raises:
        InputError: The file cannot be read or has no such kind.
    """
    record = _read(path)
    rng = np.random.default_rng(seed)
    found = []
    for kind in kinds:
        runs = [run for run in record["runs"] if run["kind"] == kind]
        if not runs:
            raise InputError(f"{path.name} has no launches of kind {kind!r}")
        source, gpu = record[SOURCES[kind]], load_gpu(record["gpu"])
        chosen = np.sort(rng.permutation(len(runs))[: -(-sample // len(kinds))])
        found += [_launch(runs[index], source, gpu) for index in chosen.tolist()]
    return tuple(found)


def _read(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InputError(f"variants {path}: {error}") from error
    return record


def _launch(run: Mapping[str, Any], source: str, gpu: Gpu) -> UnseenLaunch:
    problem = record_of_fields(PointwiseConv2d, run["problem"])
    configuration = record_of_fields(PointwiseConfiguration, run["configuration"])
    across, down, deep = run["grid"]
    sizes = f"{problem.in_channels}→{problem.out_channels} {problem.height}×{problem.width}"
    fields = (*run["configuration"].values(), f"{run['stages']} stages of {run['groups']}")
    return UnseenLaunch(
        group=run["kind"],
        setting=" ".join(str(field) for field in fields),
        problem=sizes,
        source=source,
        kernel=KERNEL,
        defines=run["defines"],
        launch=Launch(
            grid_x=across, grid_y=down, grid_z=deep, block_x=THREADS_PER_BLOCK, dynamic_shared_bytes=run["shared"]
        ),
        call=_call(problem, configuration, gpu),
        measured=tuple(
            MeasuredTime(seconds=run[name] * SECONDS_PER_US, l2=l2, way="graph") for name, l2 in TIMES if name in run
        ),
    )


def _call(problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu) -> MakeCall:
    """The package's own call of the problem: the variants take the same parameters."""
    return lambda: FAMILY.call(problem, configuration, gpu, FAMILY.inputs(problem, np.random.default_rng(0)))
