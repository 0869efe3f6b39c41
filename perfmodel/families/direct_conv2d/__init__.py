"""Direct 2-D convolution with column reuse, row reuse or both."""

from .configuration import Accumulators, DirectConv2dConfiguration, Exchange, Reuse
from .family import FAMILY
from .problem import Conv2d

__all__ = ["FAMILY", "Accumulators", "Conv2d", "DirectConv2dConfiguration", "Exchange", "Reuse"]
