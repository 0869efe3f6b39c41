"""Families by name, found through the entry points ``perfmodel.families``, so that anybody's package can bring one."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from ..core.documents import nearest
from ..core.value_types import require_type
from ..errors import InputError
from .base import Family

GROUP = "perfmodel.families"


@cache
def _entry_points() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def family_names() -> tuple[str, ...]:
    """Names of all installed families, in alphabetical order; nothing is imported.

    >>> "tiled_conv2d" in family_names()
    True
    """
    return tuple(_entry_points())


@cache
def family(name: str) -> Family[Any, Any]:
    """The family of a name; ``InputError`` suggests the nearest names where there is none.

    >>> family("tiled_conv2d").default_problem().filter_width
    15
    """
    points = _entry_points()
    require_type(str, f"the name of one: {', '.join(points)}", family=name)
    if name not in points:
        raise InputError(f"unknown family {name!r}; {nearest(name, points)}")
    loaded = points[name].load()
    if not isinstance(loaded, Family):
        raise InputError(f"entry point {name!r} of {GROUP} is not a perfmodel family")
    return loaded


def family_of(problem: object) -> Family[Any, Any]:
    """The family whose problem type this is, or the one that a problem brings along (a user's own space)."""
    own = getattr(problem, "family", None)
    if isinstance(own, Family):
        return own
    for name in family_names():
        if type(problem) is family(name).problem_type:
            return family(name)
    raise InputError(f"no installed family takes a problem of type {type(problem).__name__}")
