"""Shared-memory tiled convolution with a tuning space (SPEC section 5)."""

from .family import FAMILY, TiledConv2dFamily
from .problem import TiledConv2d, TiledConv2dConfiguration

__all__ = ["FAMILY", "TiledConv2d", "TiledConv2dConfiguration", "TiledConv2dFamily"]
