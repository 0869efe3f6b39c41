"""The design whose warpgroups multiply matrices on tensor cores, filters in shared memory and positions in registers."""

from .counts import work_of
from .tiling import KERNEL, checks, compile_request, tiles

__all__ = ["KERNEL", "checks", "compile_request", "tiles", "work_of"]
