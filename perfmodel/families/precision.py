"""In which arithmetic the products of a convolution are formed."""

from __future__ import annotations

from enum import Enum

from ..errors import InputError


class Precision(Enum):
    """The least precise products that a problem allows; kernels that are more exact serve it, too."""

    FLOAT32 = "float32"
    """As exact as FP32."""
    TF32 = "tf32"
    """Factors may be rounded to TF32, whose products tensor cores form; sums are FP32."""


TF32_ERROR = 2.0**-10
"""Of a product whose two factors are rounded to TF32, by half a unit in the last of eleven places each."""


def require_precision(value: object) -> None:
    """Raise an ``InputError`` where the value is none.

    >>> require_precision("tf32")
    Traceback (most recent call last):
    perfmodel.errors.InputError: precision='tf32' must be a Precision: float32, tf32
    """
    if not isinstance(value, Precision):
        accepted = ", ".join(one.value for one in Precision)
        raise InputError(f"precision={value!r} must be a Precision: {accepted}")
