"""Checks of problem sizes that every family shares: integers within bounds, tensors that can be indexed."""

from __future__ import annotations

import numpy as np

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


def drawn_size(rng: np.random.Generator, low: int, high: int, multiple: int = 1) -> int:
    """A size from ``low`` to ``high``, each doubling equally likely; in seven of ten cases a multiple where it is large enough.

    >>> 3 <= drawn_size(np.random.default_rng(0), 3, 100) <= 100
    True
    """
    size = round(float(np.exp(rng.uniform(np.log(low - 0.49), np.log(high + 0.49)))))
    if size > multiple > 1 and rng.random() < 0.7:
        size = max(low, size // multiple * multiple)
    return size


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
