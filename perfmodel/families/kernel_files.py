"""The CUDA sources that come with the package."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def kernel_text(*path: str) -> str:
    """Text of a file below ``kernels/``, by the folders on the way to it and its name.

    >>> "__global__" in kernel_text("tiled_conv2d.cu")
    True
    """
    return resources.files("perfmodel.kernels").joinpath(*path).read_text(encoding="utf-8")


def kernel_folder(*path: str) -> str:
    """The folder of those files, or one below it, where what they include is found.

    >>> kernel_folder("ssim").endswith("ssim")
    True
    """
    return str(resources.files("perfmodel.kernels").joinpath(*path))
