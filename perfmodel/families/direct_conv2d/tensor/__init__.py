"""The design that multiplies matrices on tensor cores, whose columns are windows of patches in shared memory."""

from .counts import closed_form, profile, traits
from .tiling import KERNEL, ConvolutionTiles, checks, compile_request, tiles

__all__ = ["KERNEL", "ConvolutionTiles", "checks", "closed_form", "compile_request", "profile", "tiles", "traits"]
