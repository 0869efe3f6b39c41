"""The design whose warpgroups multiply matrices on tensor cores, filters in shared memory and windows in registers."""

from .counts import profile
from .tiling import KERNEL, checks, compile_request, tiles

__all__ = ["KERNEL", "checks", "compile_request", "profile", "tiles"]
