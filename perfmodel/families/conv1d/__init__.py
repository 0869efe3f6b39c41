"""Dense 1-D convolution with several input channels per thread, and its naive baseline."""

from .configuration import Conv1dConfiguration, Variant
from .family import Conv1dFamily
from .problem import Conv1d

FAMILY = Conv1dFamily()

__all__ = ["FAMILY", "Conv1d", "Conv1dConfiguration", "Conv1dFamily", "Variant"]
