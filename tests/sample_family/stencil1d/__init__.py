"""A moving average in one dimension: the smallest family of kernels that somebody else's package may bring."""

from .family import FAMILY, Stencil1d, Stencil1dConfiguration

__all__ = ["FAMILY", "Stencil1d", "Stencil1dConfiguration"]
