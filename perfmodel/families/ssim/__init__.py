"""Fused structural similarity with an 11-tap separable Gaussian window (nine versions)."""

from .configuration import SsimConfiguration, Version
from .family import FAMILY
from .problem import Ssim

__all__ = ["FAMILY", "Ssim", "SsimConfiguration", "Version"]
