"""Former names: in JSON each stands beside the present name for one release; options and columns have a second name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, field, fields
from typing import Any, TypeVar

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


ValueT = TypeVar("ValueT")

_KEY = "second_name"


def renamed(default: Any, second_name: str) -> Any:
    """A dataclass field with a default, which may also be given under ``second_name``."""
    return field(default=default, metadata={_KEY: second_name})


def second_names(kind: Any) -> dict[str, str]:
    """From second names to the names of the fields of a dataclass.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2d
    >>> second_names(TiledConv2d)
    {'image_height': 'height', 'image_width': 'width'}
    """
    known: tuple[Field[Any], ...] = fields(kind)
    return {one.metadata[_KEY]: one.name for one in known if _KEY in one.metadata}


def by_field(kind: Any, values: Mapping[str, ValueT]) -> dict[str, ValueT]:
    """The values with second names replaced by the names of the fields; other names stay, also those of no field.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2d
    >>> by_field(TiledConv2d, {"image_height": 8, "filter_width": 5})
    {'height': 8, 'filter_width': 5}
    """
    names = second_names(kind)
    return {names.get(name, name): value for name, value in values.items()}
