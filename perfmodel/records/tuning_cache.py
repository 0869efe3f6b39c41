"""Kernel Tuner's cache file of any kernel: what a tuning run has measured, written so that Kernel Tuner goes on from it.

The format is described in `kernel_tuner`. Here the parameters are whatever a space tunes, not the fields of a family.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.documents import to_builtins
from ..core.files import read_text, write_text
from ..core.units import SECONDS_PER_MS
from ..errors import InputError
from ..families.base import Family
from .columns import measurable, schema_of
from .kernel_tuner import FAILURE_TIME_MS, cache_document, time_or_failure
from .measurements import Measurements
from .schema import FailureKind

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRun:
    """One configuration that was measured: seconds with all samples, or the name that Kernel Tuner gives its failure.

    ``message`` says more of a failure.
    """

    seconds: float | None
    samples_s: tuple[float, ...] = ()
    failure: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningCache:
    """A cache file's content.

    Attributes:
        device_name: The GPU.
        kernel_name: The kernel.
        problem_size: Sizes of the problem, in the file's order.
        parameters: The values of each tuned parameter.
        runs: What was measured, by the values of the parameters in this order.
    """

    device_name: str
    kernel_name: str
    problem_size: tuple[Any, ...]
    parameters: Mapping[str, tuple[Any, ...]]
    runs: Mapping[Values, TunedRun] = field(default_factory=dict)

    def require_same_tuning(self, other: TuningCache, path: Path) -> None:
        """That a file, which holds ``self``, is of the same tuning as another.

        Raises:
            InputError: GPU, kernel, problem or parameters differ.
        """
        for name in ("device_name", "kernel_name", "problem_size", "parameters"):
            there, wanted = getattr(self, name), getattr(other, name)
            if there != wanted:
                raise InputError(
                    f"{path}: {name.replace('_', ' ')} is {_shown(there)} there and {_shown(wanted)} here; give another file"
                )


def _shown(value: Any) -> str:
    return str(list(value) if isinstance(value, Mapping) else value)


def read_tuning_cache(path: Path) -> TuningCache:
    """Read a cache file, plain or gzip, also one that was broken off.

    Raises:
        InputError: It cannot be read, or is no cache file.
    """
    document = cache_document(path, read_text(path))
    parameters = {name: tuple(values) for name, values in document["tune_params"].items()}
    sizes = document["problem_size"]
    return TuningCache(
        device_name=str(document["device_name"]),
        kernel_name=str(document.get("kernel_name", "")),
        problem_size=tuple(sizes) if isinstance(sizes, list) else (sizes,),
        parameters=parameters,
        runs={_values(path, key, entry, parameters): _run(entry) for key, entry in document["cache"].items()},
    )


def _values(path: Path, key: str, entry: Any, parameters: Mapping[str, Any]) -> Values:
    missing = [name for name in parameters if not isinstance(entry, dict) or name not in entry]
    if missing:
        raise InputError(f"{path}: entry {key!r} has no value of {missing[0]}")
    return tuple(entry[name] for name in parameters)


def _run(entry: Mapping[str, Any]) -> TunedRun:
    outcome = time_or_failure(entry)
    if isinstance(outcome, int | float) and measurable(outcome) and outcome < FAILURE_TIME_MS:
        samples = tuple(one * SECONDS_PER_MS for one in entry.get("times") or ())
        return TunedRun(seconds=outcome * SECONDS_PER_MS, samples_s=samples)
    message = entry.get("message")
    return TunedRun(seconds=None, failure=str(outcome), message=None if message is None else str(message))


def write_tuning_cache(path: Path, cache: TuningCache) -> None:
    """Write a closed cache file in one step, so that a kill at any moment leaves the old one or the new one."""
    names = list(cache.parameters)
    document = {
        "device_name": cache.device_name,
        "kernel_name": cache.kernel_name,
        "problem_size": list(cache.problem_size),
        "tune_params_keys": names,
        "tune_params": {name: list(values) for name, values in cache.parameters.items()},
        "objective": "time",
        "cache": {
            ",".join(map(str, values)): dict(zip(names, values, strict=True)) | _entry(run)
            for values, run in cache.runs.items()
        },
    }
    write_text(path, json.dumps(document, indent=0, allow_nan=False))


def _entry(run: TunedRun) -> dict[str, Any]:
    if run.seconds is None:
        return {"time": run.failure} | ({} if run.message is None else {"message": run.message})
    return {"time": run.seconds / SECONDS_PER_MS, "times": [one / SECONDS_PER_MS for one in run.samples_s]}


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
        runs[tuple(map(to_builtins, values))] = _tuned_run(measurements, row)
    names = (*of_problem, *schema.configuration_fields)
    cache = TuningCache(
        device_name=measurements.gpu,
        kernel_name=measurements.family_name,
        problem_size=next(iter(sizes)),
        parameters={name: tuple(dict.fromkeys(one)) for name, one in zip(names, zip(*runs, strict=True), strict=True)},
        runs=runs,
    )
    write_tuning_cache(path, cache)


def _tuned_run(measurements: Measurements, row: int) -> TunedRun:
    time_s = float(measurements.time_s[row])
    if not math.isnan(time_s):
        return TunedRun(seconds=time_s, samples_s=(time_s,))
    failure = str(measurements.columns["failure"][row]) if "failure" in measurements.columns else ""
    if failure not in (*FAILURE_NAMES.values(), OTHER_FAILURE_NAME):
        failure = FAILURE_NAMES.get(failure, OTHER_FAILURE_NAME)
    return TunedRun(seconds=None, failure=failure)
