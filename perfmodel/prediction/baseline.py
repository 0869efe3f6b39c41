"""A new analysis against an earlier one: what got worse by more than a tolerance, for use in continuous integration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.files import parse_json, read_text
from ..errors import InputError

_COMPARED_RESOURCES = (
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "stack_bytes_per_thread",
    "spill_load_bytes",
    "spill_store_bytes",
)
_SAME = ("kernel", "gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """One quantity that got worse: its name, and its values before and now."""

    name: str
    before: float
    now: float

    @property
    def text(self) -> str:
        """One line that names the quantity and by how much it grew.

        >>> Regression(name="registers_per_thread", before=32, now=40).text
        'registers_per_thread grew from 32 to 40 (+25.0%)'
        """
        grown = f"+{self.now / self.before - 1:.1%}" if self.before else "from nothing"
        return f"{self.name} grew from {self.before:g} to {self.now:g} ({grown})"


def read_baseline(path: Path) -> dict[str, Any]:
    """An earlier result, as ``perfmodel analyze --json`` prints it; ``InputError`` names file and key where it is none."""
    try:
        found: dict[str, Any] = parse_json(path, read_text(path))
    except InputError as error:
        raise InputError(f"baseline {error}") from error
    for name in (*_SAME, "counts", "resources", "time"):
        if not isinstance(found, dict) or name not in found:
            raise InputError(f"baseline {path} has no {name!r}; it must be an output of perfmodel analyze --json")
    for name in ("counts", "resources", "time"):
        if not isinstance(found[name], dict):
            raise InputError(f"baseline {path}: {name} is {found[name]!r} and no table of numbers")
    if "predicted_us" not in found["time"]:
        raise InputError(f"baseline {path} has no 'predicted_us' in 'time'")
    _quantities(found)
    return found


def regressions(before: Mapping[str, Any], now: Mapping[str, Any], tolerance: float) -> tuple[Regression, ...]:
    """Counts, resources and the predicted time that grew by more than ``tolerance`` (a fraction); less is never worse.

    Raises:
        InputError: the results are of different kernels or GPUs, or the tolerance is negative.

    >>> base = {"kernel": "k", "gpu": "h200", "counts": {"barriers": 10}, "resources": {}, "time": {"predicted_us": 5.0}}
    >>> [found.name for found in regressions(base, base | {"counts": {"barriers": 12}}, 0.1)]
    ['barriers']
    """
    if tolerance < 0:
        raise InputError(f"{tolerance=} must not be negative")
    for name in _SAME:
        if before[name] != now[name]:
            raise InputError(f"the baseline is of {name} {before[name]!r}, this result of {now[name]!r}")
    old, new = _quantities(before), _quantities(now)
    return tuple(
        Regression(name=name, before=old[name], now=new[name])
        for name in new
        if name in old and new[name] > old[name] * (1 + tolerance)
    )


def _quantities(result: Mapping[str, Any]) -> dict[str, float]:
    resources = {name: result["resources"][name] for name in _COMPARED_RESOURCES if name in result["resources"]}
    found = {**result["counts"], **resources, "predicted_us": result["time"]["predicted_us"]}
    wrong = [name for name, value in found.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong:
        raise InputError(f"{wrong[0]}={found[wrong[0]]!r} of the baseline is no number")
    return {name: float(value) for name, value in found.items()}
