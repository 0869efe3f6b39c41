"""Launch geometry and the parameters of one kernel launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.batched import mapped
from ..core.constants import WARP_SIZE, ceil_div
from .contents import Contents
from .device_heap import DeviceHeap
from .tensor_map import TensorTiling
from .texture import BoundTexture, Texture

GRID_BARRIER_BYTES = 256
"""Room for the counter of a grid's barrier; the device's runtime uses the first 8 bytes."""


class L2State(Enum):
    """What the L2 cache holds when a launch begins."""

    COLD = "cold"
    """Other data: it was flushed, or the inputs rotate through more memory than it holds."""
    WARM = "warm"
    """Whatever the launch before, on the same data, left there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Grid, block, shared memory and cluster of a launch; every field is an integer or an integer array of shape ``(n,)``."""

    grid_x: Any
    grid_y: Any = 1
    grid_z: Any = 1
    block_x: Any
    block_y: Any = 1
    block_z: Any = 1
    static_shared_bytes: Any = 0
    dynamic_shared_bytes: Any = 0
    cluster_x: Any = 1
    cluster_y: Any = 1
    cluster_z: Any = 1
    cooperative: Any = False
    """Whether blocks wait for one another, so that none is executed without the others."""

    @classmethod
    def of(cls, grid: Iterable[Any], block: Iterable[Any], cluster: Iterable[Any] = (1, 1, 1), **others: Any) -> Launch:
        """The launch of shapes along x, y, z; ``others`` are further fields.

        >>> Launch.of((4, 2, 1), (32, 8, 1), dynamic_shared_bytes=64).block
        (32, 8, 1)
        """
        shapes = (("grid", grid), ("block", block), ("cluster", cluster))
        sizes = {f"{name}_{axis}": size for name, shape in shapes for axis, size in zip("xyz", shape, strict=True)}
        return cls(**sizes, **others)

    @property
    def blocks(self) -> Any:
        """Blocks in the grid."""
        return np.asarray(self.grid_x, np.int64) * self.grid_y * self.grid_z

    @property
    def threads_per_block(self) -> Any:
        """Threads in a block."""
        return np.asarray(self.block_x, np.int64) * self.block_y * self.block_z

    @property
    def warps_per_block(self) -> Any:
        """Warps in a block, the last one possibly with idle lanes."""
        return ceil_div(self.threads_per_block, WARP_SIZE)

    def at(self, index: int) -> Launch:
        """The launch of one candidate, with integers.

        >>> Launch(grid_x=np.array([1, 2]), block_x=32).at(1).grid_x
        2
        """
        return mapped(lambda value: int(value if np.ndim(value) == 0 else value[index]), self)

    def corners_and_middle(self) -> list[int]:
        """Linear indices of the block in the middle of the grid and of those at its corners, each once.

        >>> Launch(grid_x=4, grid_y=3, block_x=32).corners_and_middle()
        [6, 0, 3, 8, 11]
        """
        gx, gy, gz = self.grid
        places = [(gx // 2, gy // 2, gz // 2)]
        places += [(x, y, z) for z in (0, gz - 1) for y in (0, gy - 1) for x in (0, gx - 1)]
        return list(dict.fromkeys((z * gy + y) * gx + x for x, y, z in places))

    @property
    def grid(self) -> tuple[int, int, int]:
        """Grid of a single launch."""
        return int(self.grid_x), int(self.grid_y), int(self.grid_z)

    @property
    def block(self) -> tuple[int, int, int]:
        """Block of a single launch."""
        return int(self.block_x), int(self.block_y), int(self.block_z)

    @property
    def cluster(self) -> tuple[int, int, int]:
        """Blocks of a cluster of a single launch along x, y, z."""
        return int(self.cluster_x), int(self.cluster_y), int(self.cluster_z)

    @property
    def blocks_per_cluster(self) -> int:
        """Blocks of a cluster of a single launch."""
        x, y, z = self.cluster
        return x * y * z

    def companions_of(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Some blocks with all that are executed together with them: of the grid, of their clusters, or none; linear indices."""
        if self.cooperative:
            return np.arange(int(self.blocks), dtype=np.int64)
        return blocks if self.blocks_per_cluster == 1 else self.clusters_of(blocks)

    def clusters_of(self, blocks: NDArray[np.int64]) -> NDArray[np.int64]:
        """All blocks of the clusters that some blocks belong to, by rank within their cluster; linear indices, x fastest.

        >>> Launch(grid_x=4, grid_y=2, block_x=32, cluster_x=2, cluster_y=2).clusters_of(np.array([3])).tolist()
        [2, 3, 6, 7]
        """
        (gx, gy, _), (cx, cy, cz) = self.grid, self.cluster
        x, y, z = blocks % gx // cx * cx, blocks // gx % gy // cy * cy, blocks // (gx * gy) // cz * cz
        first = np.array(list(dict.fromkeys(((z * gy + y) * gx + x).tolist())), np.int64)
        rank = np.arange(cx * cy * cz)
        inside = (rank // (cx * cy) * gy + rank // cx % cy) * gx + rank % cx
        return (first[:, None] + inside).reshape(-1)


Buffered = NDArray[Any] | Contents
"""Contents of a buffer: an array of any shape, or contents that are made where they are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """An array that a kernel sees: contents before the launch and whether the kernel writes it."""

    name: str
    array: Buffered
    output: bool = False


def poisoned(shape: Sequence[int], of_type: type[np.floating[Any]] = np.float32) -> NDArray[np.floating[Any]]:
    """What an output holds before the launch, so that what is not written shows: NaN, one number that takes no memory."""
    return np.broadcast_to(of_type(np.nan), tuple(shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """An argument of type ``CUtensorMap``: a buffer, and how bulk tensor copies see it.

    ``by_pointer`` hands over the address of a map in global memory instead of the map itself.
    """

    buffer: Buffer
    tiling: TensorTiling
    by_pointer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TextureObject:
    """An argument that is a texture or surface object: the array's texels, and how they are seen."""

    buffer: Buffer
    texture: Texture


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """An argument that holds pointers: its bytes, and by their offsets buffers whose addresses stand in it.

    ``by_pointer`` hands over its address in global memory instead of its bytes: a buffer of pointers, or of structures.
    """

    name: str
    content: bytes
    pointers: tuple[tuple[int, Buffer], ...]
    by_pointer: bool = False


Parameter = Buffer | TensorMap | TextureObject | Structure | np.generic
"""What a kernel is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A stretch of device memory that a kernel may access: its first byte's address and its size."""

    name: str
    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMemory:
    """Global memory that is there before a launch and stays: kernels read and write ``data`` itself.

    Args:
        address: of the first byte of ``data``, a multiple of 16.
        data: all bytes, shape ``(n,)``; n is a multiple of 16.
        allocations: what may be accessed, in order of address.
        variables: addresses of the module's variables by name; constant arrays are copied from there when a launch begins.
        heap: what kernels allocate from.
        textures: texture and surface objects by the lower half of their handles.
        grid_barrier: address of the `GRID_BARRIER_BYTES` at which blocks of a cooperative launch meet.
    """

    address: int
    data: NDArray[np.uint8] = field(repr=False)
    allocations: tuple[Allocation, ...] = field(repr=False)
    variables: Mapping[str, int] = field(default_factory=dict, repr=False)
    textures: Mapping[int, BoundTexture] = field(default_factory=dict, repr=False)
    heap: DeviceHeap | None = None
    grid_barrier: int = 0

    def at(self, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """The bytes from an address on."""
        begin = address - self.address
        return self.data[begin : begin + size_bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCall:
    """What one launch is called with: parameters in order and module-scope constant arrays.

    Parameters are buffers, tensor maps, texture objects, structures or NumPy scalars. With ``memory`` all are scalars, pointers
    among them as addresses in it.
    """

    parameters: tuple[Parameter, ...]
    constants: tuple[Buffer, ...] = ()
    memory: DeviceMemory | None = None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers among the parameters, those of tensor maps, texture objects and structures with them."""
        return tuple(buffer for parameter in self.parameters for buffer in _buffers_of(parameter))


def _buffers_of(parameter: Parameter) -> tuple[Buffer, ...]:
    if isinstance(parameter, TensorMap | TextureObject):
        return (parameter.buffer,)
    if isinstance(parameter, Structure):
        return tuple(buffer for _, buffer in parameter.pointers)
    return (parameter,) if isinstance(parameter, Buffer) else ()
