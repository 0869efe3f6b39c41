"""Dense convolutions whose blocks share patches of the input and filters in shared memory: sizes, launch, counts, limits.

`direct_conv2d` and `conv1d` have this design; each says what its problem is as a `Layer` and its configurations as a `Blocking`.
"""

from .choices import Choices, choices
from .counts import closed_form
from .layer import Layer
from .limits import checks
from .tiling import KERNEL, Blocking, Tiles, blocking_of, compile_request, launch_of, sizes_of, tiles
from .traits import profile, traits

__all__ = [
    "KERNEL",
    "Blocking",
    "Choices",
    "Layer",
    "Tiles",
    "blocking_of",
    "checks",
    "choices",
    "closed_form",
    "compile_request",
    "launch_of",
    "profile",
    "sizes_of",
    "tiles",
    "traits",
]
