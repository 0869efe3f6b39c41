"""Checks of problem sizes that every family shares: integers within bounds, tensors that can be indexed."""

from __future__ import annotations

from ..errors import InputError

MAX_ELEMENTS = 2**31 - 1
"""Kernels index with 32-bit integers."""


def require_integers(minimum: int, **sizes: object) -> None:
    """Raise ``InputError`` naming the first size that is no integer or below the minimum.

    >>> require_integers(1, height=0)
    Traceback (most recent call last):
    perfmodel.errors.InputError: height=0 must be an integer of at least 1
    """
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise InputError(f"{name}={value!r} must be an integer of at least {minimum}")
        if value > MAX_ELEMENTS:
            raise InputError(f"{name}={value} must be at most {MAX_ELEMENTS:,}")


def require_elements(what: str, *extents: int) -> None:
    """Raise ``InputError`` where a tensor has more elements than a kernel can index.

    >>> require_elements("input", 65536, 65536)
    Traceback (most recent call last):
    perfmodel.errors.InputError: input of 65536 x 65536 has more than 2,147,483,647 elements
    """
    product = 1
    for extent in extents:
        product *= extent
    if product > MAX_ELEMENTS:
        shape = " x ".join(str(extent) for extent in extents)
        raise InputError(f"{what} of {shape} has more than {MAX_ELEMENTS:,} elements")
