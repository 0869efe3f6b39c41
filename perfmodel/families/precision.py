"""In which arithmetic the products of a convolution are formed, and of which type its tensors are."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import FLOAT_BYTES


class Precision(Enum):
    """The least precise products that a problem allows."""

    FLOAT32 = "float32"
    """As exact as FP32."""
    TF32 = "tf32"
    """Factors may be rounded to TF32, whose products tensor cores form; sums are FP32. Channels lie closest in memory."""
    FLOAT16 = "float16"
    """Input, filters and output are in half precision, and their channels lie closest in memory; sums are FP32."""

    @property
    def element_bytes(self) -> int:
        """Of an element of input, filters and output."""
        return FLOAT_BYTES // 2 if self is Precision.FLOAT16 else FLOAT_BYTES

    @property
    def element_type(self) -> type[np.floating[Any]]:
        """Of an element of input, filters and output."""
        return np.float16 if self is Precision.FLOAT16 else np.float32

    @property
    def channels_last(self) -> bool:
        """Whether channels lie closest in memory: images are N×H×W×C, filters K×H×W×C."""
        return self is not Precision.FLOAT32

    @property
    def copied_element(self) -> str:
        """Type of the elements of tensor maps (`TensorTiling`) by which bulk tensor copies see inputs and filters."""
        return "f16" if self is Precision.FLOAT16 else "tf32"

    @property
    def rounding(self) -> float:
        """Error beside that of sums in FP32, relative to the largest output: of rounded factors, or of rounded outputs."""
        return {Precision.FLOAT32: 0.0, Precision.TF32: TF32_ERROR, Precision.FLOAT16: FLOAT16_ERROR}[self]


TF32_ERROR = 2.0**-10
"""Of a product whose two factors are rounded to TF32, by half a unit in the last of eleven places each."""
FLOAT16_ERROR = 2.0**-11
"""Of an output that is rounded to half precision, by half a unit in the last of eleven places."""


def image_shape(precision: Precision, images: int, channels: int, height: int, width: int) -> tuple[int, ...]:
    """Shape of images, or of filters, in memory.

    >>> image_shape(Precision.FLOAT16, 1, 2, 3, 4)
    (1, 3, 4, 2)
    """
    return (images, height, width, channels) if precision.channels_last else (images, channels, height, width)


def channels_first(images: NDArray[Any]) -> NDArray[Any]:
    """A view of N×H×W×C as N×C×H×W."""
    return np.moveaxis(images, -1, 1)


def channels_last(images: NDArray[Any]) -> NDArray[Any]:
    """A copy of N×C×H×W as N×H×W×C."""
    return np.ascontiguousarray(np.moveaxis(images, 1, -1))
