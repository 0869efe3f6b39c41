"""Measurements as a cache file of Kernel Tuner, so that its strategies can be replayed on them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ..core.documents import to_builtins
from ..errors import InputError
from ..families.base import Family
from .columns import schema_of
from .measurements import Measurements
from .schema import FailureKind
from .tuning_cache import TunedRun, TuningCache, write_tuning_cache

FAILURE_NAMES = {
    FailureKind.REJECTED.value: "InvalidConfig",
    FailureKind.COMPILE.value: "CompilationFailedConfig",
}
"""Kernel Tuner's names for what a configuration failed of."""
OTHER_FAILURE_NAME = "RuntimeFailedConfig"


def write_kernel_tuner_cache(path: Path, measurements: Measurements, family: Family[Any, Any]) -> None:
    """Write the measurements as a properly closed cache file; a name that ends in ``.gz`` is packed.

    Fields of the problem that ``problem_size`` does not give become tunable parameters with the values that occur. Of
    several runs of one configuration the last stands in the file.

    Raises:
        InputError: The measurements are of several problem sizes; a cache file holds one.
    """
    schema = schema_of(family)
    size_fields = family.kernel_tuner_problem_size or schema.problem_fields
    sizes = {tuple(getattr(problem, name) for name in size_fields) for problem in measurements.problems}
    if len(sizes) != 1:
        raise InputError(f"{measurements.path}: a Kernel Tuner cache holds one problem size, not {len(sizes)}")
    of_problem = [name for name in schema.problem_fields if name not in size_fields]
    runs = {}
    for row in range(len(measurements)):
        problem = measurements.problems[measurements.problem_index[row]]
        configuration = measurements.batch.configuration(row)
        values = [getattr(problem, name) for name in of_problem]
        values += [getattr(configuration, name) for name in schema.configuration_fields]
        runs[tuple(map(to_builtins, values))] = _run(measurements, row)
    names = (*of_problem, *schema.configuration_fields)
    cache = TuningCache(
        device_name=measurements.gpu,
        kernel_name=measurements.family_name,
        problem_size=next(iter(sizes)),
        parameters={name: tuple(dict.fromkeys(one)) for name, one in zip(names, zip(*runs, strict=True), strict=True)},
        runs=runs,
    )
    write_tuning_cache(path, cache)


def _run(measurements: Measurements, row: int) -> TunedRun:
    time_s = float(measurements.time_s[row])
    if not math.isnan(time_s):
        return TunedRun(seconds=time_s, samples_s=(time_s,))
    failure = str(measurements.columns["failure"][row]) if "failure" in measurements.columns else ""
    if failure not in (*FAILURE_NAMES.values(), OTHER_FAILURE_NAME):
        failure = FAILURE_NAMES.get(failure, OTHER_FAILURE_NAME)
    return TunedRun(seconds=None, failure=failure)
