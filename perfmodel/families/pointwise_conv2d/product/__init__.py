"""The design that multiplies matrices: register tiles of filters and positions, channels split over slices and clusters."""

from .counts import profile
from .limits import checks
from .tiling import KERNEL, ProductTiles, compile_request, tiles
from .traits import interpolated_profile, traits

__all__ = [
    "KERNEL",
    "ProductTiles",
    "checks",
    "compile_request",
    "interpolated_profile",
    "profile",
    "tiles",
    "traits",
]
