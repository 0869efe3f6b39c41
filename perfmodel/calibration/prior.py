"""Where a fit of the time model starts and how far it may go: ``data/calibrations/prior.toml``, each number with its reason."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated

from msgspec import Meta, Struct

from ..core.documents import converted, parse_toml
from ..time_model.coefficients import Coefficients

Width = Annotated[float, Meta(gt=0)]


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a coefficient before any data.

    ``log_width`` is the standard deviation of its logarithm, ``own_log_width`` that of an architecture's own value around
    the shared one, of the architectures named in ``own``. ``shared`` is False where the shared value stays as it is, because
    one architecture's says nothing of another's.
    """

    value: Annotated[float, Meta(ge=0)]
    log_width: Width
    own_log_width: Width = 0.7
    own: tuple[str, ...] = ()
    shared: bool = True


class Chosen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A coefficient that no fit changes."""

    value: Annotated[float, Meta(gt=0)]
    source: str


class PriorFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the prior."""

    fitted: dict[str, Expected]
    chosen: dict[str, Chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The coefficients that a fit begins with, and what is expected of those that it may change."""

    coefficients: Coefficients
    expected: Mapping[str, Expected]

    @property
    def architectural(self) -> dict[str, tuple[str, ...]]:
        """Coefficients that some architectures have for their own, and which."""
        return {name: entry.own for name, entry in self.expected.items() if entry.own}


@functools.cache
def prior() -> Prior:
    """The prior that the package ships.

    >>> prior().coefficients.round_trip_latencies, prior().architectural
    (1.0, {'sector_cycles': ('sm_75', 'sm_90')})
    """
    name = "calibrations/prior.toml"
    text = (files("perfmodel.data") / name).read_text(encoding="utf-8")
    content = converted(PriorFile, parse_toml(text, name), name)
    values = {entry: known.value for entry, known in (content.fitted | content.chosen).items()}
    return Prior(coefficients=Coefficients(**values), expected=content.fitted)
