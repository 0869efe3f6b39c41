"""The configuration: how the kernel may be run, and the values worth trying."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.families.base import Product, Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Stencil1dConfiguration:
    """Threads of a block (a multiple of a warp) and outputs of a thread."""

    block_x: int = 256
    per_thread: int = 1


def space() -> Space[Stencil1dConfiguration]:
    """Block sizes up to more than any GPU takes, and a few outputs of a thread."""
    values = {"block_x": (32, 64, 128, 256, 512, 1024, 2048), "per_thread": (1, 2, 4, 8)}
    return Space((Product(Stencil1dConfiguration, values),))
