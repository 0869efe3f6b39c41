"""Special registers of all threads of some blocks (PTX ISA 10); what the hardware decides has a fixed value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from ..launch.launch import Launch
from .block_classes.classes import BlockClasses, NotFollowedError
from .block_classes.values import of_blocks

_ZERO = ("smid", "envreg1", "envreg2")
_ONE = ("nsmid",)
_RESERVED = ("begin", "end", "cap")


def special_registers(
    launch: Launch, block_ids: NDArray[np.int64], threads: int, shared_bytes: int
) -> dict[str, NDArray[Any]]:
    """Values by name, of shape ``(1 | blocks, 1 | threads)``; ``threads`` is rounded up to whole warps."""
    one = np.ones((1, 1), np.int64)
    values: dict[str, Any] = _lane_registers(threads)
    values |= _indices(launch, block_ids, threads)
    values |= {f"%{name}": 0 * one for name in _ZERO} | {f"%{name}": one for name in _ONE}
    values |= {f"%reserved_smem_offset_{name}": 0 * one for name in _RESERVED}
    values["%nwarpid"] = one * (threads // WARP_SIZE)
    values["%dynamic_smem_size"] = one * int(launch.dynamic_shared_bytes)
    values["%total_smem_size"] = values["%aggr_smem_size"] = one * shared_bytes
    registers: dict[str, NDArray[Any]] = {name: value.astype(np.uint32) for name, value in values.items()}
    registers["%gridid"] = one.astype(np.uint64)
    return registers


_CHUNK = 2**16


class FollowedRegisters(dict[str, Any]):
    """Special registers of the executed block of each class, made when first read; what differs between blocks is followed."""

    def __init__(self, launch: Launch, classes: BlockClasses, threads: int, shared_bytes: int) -> None:
        super().__init__()
        self._classes = classes
        self._arguments = (launch, threads, shared_bytes)

    def _of(self, blocks: NDArray[np.int64], name: str) -> NDArray[Any]:
        launch, threads, shared_bytes = self._arguments
        return special_registers(launch, blocks, threads, shared_bytes)[name]

    def __missing__(self, name: str) -> Any:
        blocks = self._classes.of_members(self._classes.blocks)
        # one block twice, so that a register with a value for each block shows as such
        first = self._of(np.repeat(blocks[:1], 2), name)
        if first.shape[0] == 1:
            self[name] = first
        elif first.shape[1] > 1:
            raise NotFollowedError(f"the special register {name}")
        else:
            parts = [self._of(blocks[begin : begin + _CHUNK], name) for begin in range(0, len(blocks), _CHUNK)]
            self[name] = of_blocks(self._classes, np.concatenate(parts)[:, 0])
        return self[name]


def _lane_registers(threads: int) -> dict[str, Any]:
    thread = np.arange(threads)[None, :]
    lane = thread % WARP_SIZE
    bit = np.uint64(1) << lane.astype(np.uint64)
    below, full = bit - np.uint64(1), np.uint64(2**WARP_SIZE - 1)
    return {
        "%laneid": lane,
        "%warpid": thread // WARP_SIZE,
        "%lanemask_eq": bit,
        "%lanemask_lt": below,
        "%lanemask_le": below | bit,
        "%lanemask_ge": full & ~below,
        "%lanemask_gt": full & ~(below | bit),
    }


def _indices(launch: Launch, block_ids: NDArray[np.int64], threads: int) -> dict[str, Any]:
    """Indices and extents by axis."""
    one = np.ones((1, 1), np.int64)
    (gx, gy, _), (bx, by, _) = launch.grid, launch.block
    thread, block = np.arange(threads)[None, :], block_ids[:, None]
    of_thread = {"x": thread % bx, "y": thread // bx % by, "z": thread // (bx * by)}
    of_block = {"x": block % gx, "y": block // gx % gy, "z": block // (gx * gy)}
    values: dict[str, Any] = {}
    rank, before = 0 * one, 1
    for axis, size, extent, cluster in zip("xyz", launch.block, launch.grid, launch.cluster, strict=True):
        values |= {f"%tid.{axis}": of_thread[axis], f"%ntid.{axis}": one * size}
        values |= {f"%ctaid.{axis}": of_block[axis], f"%nctaid.{axis}": one * extent}
        values |= {f"%clusterid.{axis}": of_block[axis] // cluster, f"%nclusterid.{axis}": one * (extent // cluster)}
        values |= {f"%cluster_ctaid.{axis}": of_block[axis] % cluster, f"%cluster_nctaid.{axis}": one * cluster}
        rank, before = rank + of_block[axis] % cluster * before, before * cluster
    values |= {"%cluster_ctarank": rank, "%cluster_nctarank": one * before, "%is_explicit_cluster": one * (before > 1)}
    return values
