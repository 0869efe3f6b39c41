"""Former names in JSON: each stands beside the present name, with the same value, for one release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMER_NAMES = {
    "calibration_status": "evidence",
    "excess_bytes": "wasted_bytes",
    "sensitivity": "what_if",
    "sfu_fp64_fp16_pipes": "slow_pipes",
    "issue_slots": "issue",
    "lsu_data_pipe": "shared_pipe",
    "exposed_memory_latency": "load_latency",
    "exposed_dependency_latency": "compute_latency",
    "block_launch_rate": "block_dispatch",
    "ramp_up": "first_wave",
    "fixed_launch_cost": "empty_kernel",
}
"""Present name to former name."""
GIVEN_BY_USERS = ("problem", "config")
"""Objects whose keys are names of a problem or of a kernel's own configuration."""


def with_former_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object in which every key that had another name in the last release stands under both.

    >>> with_former_names({"time": {"calibration_status": "same architecture"}})
    {'time': {'calibration_status': 'same architecture', 'evidence': 'same architecture'}}
    """
    named: dict[str, Any] = {}
    for name, value in values.items():
        named[name] = value if name in GIVEN_BY_USERS else _named(value)
        if name in FORMER_NAMES:
            named[FORMER_NAMES[name]] = named[name]
    return named


def _named(value: Any) -> Any:
    if isinstance(value, list):
        return [_named(entry) for entry in value]
    return with_former_names(value) if isinstance(value, dict) else value
