"""A moving average in one dimension: the smallest family of kernels that somebody else's package may bring."""

from .configuration import Stencil1dConfiguration
from .family import FAMILY
from .problem import Stencil1d

__all__ = ["FAMILY", "Stencil1d", "Stencil1dConfiguration"]
