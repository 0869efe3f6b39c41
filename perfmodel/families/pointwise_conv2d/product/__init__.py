"""The design that multiplies matrices: register tiles of filters and positions, channels split over slices and clusters."""

from .counts import work_of
from .limits import checks
from .tiling import KERNEL, ProductTiles, compile_request, tiles

__all__ = [
    "KERNEL",
    "ProductTiles",
    "checks",
    "compile_request",
    "tiles",
    "work_of",
]
