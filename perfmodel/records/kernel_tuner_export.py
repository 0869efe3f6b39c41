"""Measurements as a cache file of Kernel Tuner, so that its strategies can be replayed on them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ..core.documents import to_builtins
from ..core.files import write_text
from ..errors import InputError
from ..families.base import Family
from .columns import MeasurementSchema, schema_of
from .measurements import Measurements
from .schema import FailureKind

MS_PER_SECOND = 1e3

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
    size_fields = family.kernel_tuner_problem_size or schema_of(family).problem_fields
    write_text(path, _cache_text(measurements, schema_of(family), size_fields))


def _cache_text(measurements: Measurements, schema: MeasurementSchema, size_fields: tuple[str, ...]) -> str:
    sizes = {tuple(getattr(problem, name) for name in size_fields) for problem in measurements.problems}
    if len(sizes) != 1:
        raise InputError(f"{measurements.path}: a Kernel Tuner cache holds one problem size, not {len(sizes)}")
    parameters = [name for name in schema.problem_fields if name not in size_fields] + list(schema.configuration_fields)
    entries = [_entry(measurements, schema, row, parameters) for row in range(len(measurements))]
    document = {
        "device_name": measurements.gpu,
        "kernel_name": measurements.family_name,
        "problem_size": list(next(iter(sizes))),
        "tune_params_keys": parameters,
        "tune_params": {name: list(dict.fromkeys(entry[name] for entry in entries)) for name in parameters},
        "objective": "time",
        "cache": {",".join(str(entry[name]) for name in parameters): entry for entry in entries},
    }
    return json.dumps(document, indent=0, allow_nan=False)


def _entry(measurements: Measurements, schema: MeasurementSchema, row: int, parameters: list[str]) -> dict[str, Any]:
    problem = measurements.problems[measurements.problem_index[row]]
    configuration = measurements.batch.configuration(row)
    entry = {
        name: to_builtins(getattr(problem if name in schema.problem_fields else configuration, name))
        for name in parameters
    }
    time_s = float(measurements.time_s[row])
    if math.isnan(time_s):
        return {**entry, "time": _failure_name(measurements, row)}
    return {**entry, "time": time_s * MS_PER_SECOND, "times": [time_s * MS_PER_SECOND]}


def _failure_name(measurements: Measurements, row: int) -> str:
    failure = str(measurements.columns["failure"][row]) if "failure" in measurements.columns else ""
    if failure in (*FAILURE_NAMES.values(), OTHER_FAILURE_NAME):
        return failure
    return FAILURE_NAMES.get(failure, OTHER_FAILURE_NAME)
