"""Pointwise convolution by four-level dynamic blocking (SPEC section 2)."""

from .configuration import Layout, PointwiseConfiguration
from .family import FAMILY
from .problem import PointwiseConv2d

__all__ = ["FAMILY", "Layout", "PointwiseConfiguration", "PointwiseConv2d"]
