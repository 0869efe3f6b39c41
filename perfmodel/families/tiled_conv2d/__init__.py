"""Shared-memory tiled convolution with a tuning space."""

from .configuration import TiledConv2dConfiguration
from .family import FAMILY
from .problem import TiledConv2d

__all__ = ["FAMILY", "TiledConv2d", "TiledConv2dConfiguration"]
