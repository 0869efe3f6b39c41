"""What may grow and by how much: ``time=5%,spill=0``; everything else that grew is information."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.counts import COUNT_NAMES
from ..core.documents import nearest
from ..core.units import MICROSECONDS, time_text
from ..errors import InputError

TIME, SPILL = "time", "spill"
RESOURCES = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes", "stack_bytes_per_thread")
QUANTITIES = (TIME, SPILL, *RESOURCES, *COUNT_NAMES)
"""What can be limited: the predicted time in microseconds, bytes of spills, resources, and counts."""
DEFAULT_LIMITS = "time=5%,spill=0"

_LIMIT = re.compile(r"(?P<name>\w+)=(?P<number>\d+(?:\.\d+)?)(?P<percent>%?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How far one quantity may grow: by a fraction of what it was, or by a number in its own unit."""

    name: str
    growth: float
    relative: bool

    @property
    def text(self) -> str:
        """As it is given.

        >>> Limit(name="time", growth=0.05, relative=True).text
        'time=5%'
        """
        return f"{self.name}={self.growth * 100:g}%" if self.relative else f"{self.name}={self.growth:g}"

    def allows(self, before: float, now: float) -> bool:
        """Whether a value may follow another; less is always allowed.

        >>> Limit(name="spill", growth=0, relative=False).allows(16, 20)
        False
        """
        return now <= before + self._margin(before)

    def is_beyond(self, before: float, now: float) -> bool:
        """Whether a value fell by more than it may grow."""
        return now < before - self._margin(before)

    def _margin(self, before: float) -> float:
        return before * self.growth if self.relative else self.growth


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A quantity before and now."""

    name: str
    before: float
    now: float

    @property
    def text(self) -> str:
        """One phrase with both values and the difference.

        >>> Change(name="time", before=4, now=5).text, Change(name="spill", before=0, now=16).text
        ('time 4.00 µs → 5.00 µs (+25.0%)', 'spill 0 → 16')
        """
        relative = f" ({self.now / self.before - 1:+.1%})" if self.before else ""
        values = [time_text(v / MICROSECONDS) if self.name == TIME else f"{v:,.12g}" for v in (self.before, self.now)]
        return f"{self.name} {' → '.join(values)}{relative}"


def parse_limits(text: str, place: str = "--fail-on") -> tuple[Limit, ...]:
    """The limits of a text such as ``time=5%,spill=0``, separated by commas; an empty text has none.

    Raises:
        InputError: a part has another form, or names no quantity.

    >>> [limit.text for limit in parse_limits("time=5%, shared_bank_conflicts=0")]
    ['time=5%', 'shared_bank_conflicts=0']
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        parts = _LIMIT.fullmatch(part)
        if parts is None:
            raise InputError(f"{place} {part!r} must have the form time=5% (of what it was) or spill=0 (in its unit)")
        if parts["name"] not in QUANTITIES:
            raise InputError(
                f"{place} {part!r}: unknown quantity {parts['name']!r}; {nearest(parts['name'], QUANTITIES)}"
            )
        number = float(parts["number"])
        found.append(
            Limit(
                name=parts["name"],
                growth=number / 100 if parts["percent"] else number,
                relative=bool(parts["percent"]),
            )
        )
    return tuple(found)


def changes(before: Mapping[str, float], now: Mapping[str, float]) -> tuple[Change, ...]:
    """Quantities that both have and that differ, the largest relative difference first; one that was 0 comes before all."""
    found = [Change(name=n, before=before[n], now=now[n]) for n in QUANTITIES if n in before and n in now]
    differing = [change for change in found if change.before != change.now]
    return tuple(sorted(differing, key=_size, reverse=True))


def _size(change: Change) -> float:
    return abs(change.now / change.before - 1) if change.before else float("inf")


def regressions(found: Sequence[Change], limits: Sequence[Limit]) -> tuple[Change, ...]:
    """The changes that a limit does not allow.

    >>> grown = [Change(name="time", before=4, now=4.1), Change(name="barriers", before=1, now=9)]
    >>> regressions(grown, parse_limits("time=5%")), regressions(grown, parse_limits("time=1%")) == (grown[0],)
    ((), True)
    """
    by_name = {limit.name: limit for limit in limits}
    return tuple(c for c in found if c.name in by_name and not by_name[c.name].allows(c.before, c.now))


def quantities(result: Mapping[str, Any]) -> dict[str, float]:
    """The quantities of an object that ``perfmodel analyze --json`` prints.

    Raises:
        InputError: a part is missing or no number.
    """
    try:
        resources, counts = dict(result["resources"]), dict(result["counts"])
        spill = resources.get("spill_load_bytes", 0) + resources.get("spill_store_bytes", 0)
        values = {TIME: result["time"]["predicted_us"], SPILL: spill}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"is no output of perfmodel analyze --json: {type(error).__name__}: {error}") from None
    values |= {name: resources[name] for name in RESOURCES if name in resources}
    values |= {name: counts[name] for name in COUNT_NAMES if name in counts}
    wrong = [name for name, value in values.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong:
        raise InputError(f"{wrong[0]}={values[wrong[0]]!r} is no number")
    return values
