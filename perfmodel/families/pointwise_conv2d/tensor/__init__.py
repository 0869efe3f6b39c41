"""The design that multiplies matrices on tensor cores: tiles of warps, channels split over slices and clusters."""

from .counts import work_of
from .tiling import KERNEL, PointwiseTensorTiles, checks, compile_request, tiles

__all__ = ["KERNEL", "PointwiseTensorTiles", "checks", "compile_request", "tiles", "work_of"]
