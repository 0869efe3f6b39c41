"""The design whose blocks share patches of the input and filters in shared memory: sizes, launch, counts."""

from .counts import profile
from .limits import checks
from .tiling import Tiles, compile_request, launch_of, tiles

__all__ = ["Tiles", "checks", "compile_request", "launch_of", "profile", "tiles"]
