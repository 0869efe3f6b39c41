"""Pointwise convolution by dynamic blocking on four levels."""

from .configuration import Layout, PointwiseConfiguration
from .family import FAMILY
from .problem import PointwiseConv2d

__all__ = ["FAMILY", "Layout", "PointwiseConfiguration", "PointwiseConv2d"]
