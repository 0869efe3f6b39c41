"""The design that multiplies matrices on tensor cores: tiles of warps, channels split over slices and clusters."""

from .counts import profile
from .limits import checks
from .tiling import KERNEL, TensorTiles, compile_request, has_tensor_cores, tiles

__all__ = ["KERNEL", "TensorTiles", "checks", "compile_request", "has_tensor_cores", "profile", "tiles"]
