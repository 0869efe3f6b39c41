"""What designs that multiply matrices share: tiles, slabs of channels in stages, slices, clusters, launch and limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import gcd
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.batched import taken
from ...core.constants import FLOAT_BYTES, MAX_GRID_YZ, VECTOR_WORDS, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...gpus.occupancy import registers_left
from ...launch.launch import Launch
from ..base import Check, within_limits
from ..kernel_files import kernel_folder, kernel_text
from .layer import MatrixLayer, position_vector

Integers = NDArray[np.int64]

MOST_LEAST_SLABS = 8
"""Least slabs of a slab."""
MAX_SLAB_COPIES = 48
"""Copies of a thread for each slab, which stand in straight-line code before the sums."""
TERMS_OF_BARRIER = 4
"""What a slab costs beside its terms, as so many of them."""
LEAST_STAGES = 2
MAX_STAGES = 6
MAX_CLUSTER = 8
"""Most blocks of a cluster that every GPU with clusters runs (CUDA C++ Programming Guide, thread block clusters)."""
THREADS = (64, 512)
"""Fewest and most threads of a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTiles(ABC):
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    most_slab_words: ClassVar[int] = 64
    """Words of a filter in a slab."""

    channel_slices: Integers
    channel_split: Integers
    slab_channels: Integers
    stages: Integers
    resident_blocks: Integers
    """Blocks of an SM that the compiler leaves registers for."""

    @property
    @abstractmethod
    def threads(self) -> Integers:
        """Threads of a block."""

    @property
    @abstractmethod
    def filter_tile(self) -> Integers:
        """Filters of a block."""

    @property
    @abstractmethod
    def position_tile(self) -> Integers:
        """Positions of a block."""

    @property
    @abstractmethod
    def shape(self) -> Mapping[str, Integers]:
        """The tile of a thread or warp and how many of them a slice has, by name: what decides the machine code."""

    @abstractmethod
    def stage_bytes(self, layer: MatrixLayer) -> Integers:
        """One slab of filters and input."""

    @property
    @abstractmethod
    def sums_pitch(self) -> Integers:
        """Words from the sums of a filter to those of the next, where sums pass through shared memory."""

    @property
    def direct_vector(self) -> int:
        """Words that a thread stores side by side where sums do not pass through shared memory."""
        return VECTOR_WORDS

    def output_run(self, layer: MatrixLayer) -> int:
        """Elements of the output that lie side by side: the positions of an image."""
        return layer.image_positions

    def store_vector(self, layer: MatrixLayer) -> Any:
        """Elements of a store of sums that pass through shared memory, as many as words of sums, which no run's end cuts."""
        return position_vector(layer)

    def summed_words(self, layer: MatrixLayer) -> Any:
        """Words that such a store takes in shared memory."""
        return self.store_vector(layer)

    @abstractmethod
    def registers(self, layer: MatrixLayer) -> Integers:
        """About what a thread takes."""

    @abstractmethod
    def copies_of_slab(self, layer: MatrixLayer, slab: Integers) -> Integers:
        """Asynchronous copies of a block for a slab of so many channels."""

    def input_vector(self, layer: MatrixLayer) -> int:
        """Elements of a copy of the input."""
        return gcd(layer.vector_elements, layer.input_run)

    def cost_of_slab(self, layer: MatrixLayer, slab: Integers) -> NDArray[np.float64]:
        """What a slab costs beside a barrier, in terms of a sum."""
        return np.asarray(slab, np.float64)

    def least_slab(self, layer: MatrixLayer) -> Integers:
        """Channels of the smallest slab: whole sectors for each slice."""
        return layer.sector_elements * self.channel_slices

    def wanted_stages(self, layer: MatrixLayer) -> Any:
        """Stages that must have room before slabs grow."""
        return LEAST_STAGES

    def bytes_beside_stages(self, layer: MatrixLayer) -> Integers:
        """Shared memory behind the stages."""
        return np.zeros_like(self.stages)

    def grid(self, layer: MatrixLayer) -> tuple[Integers, Integers]:
        """Tiles over the positions of all images and over the filters."""
        return ceil_div(layer.positions, self.position_tile), ceil_div(layer.out_channels, self.filter_tile)

    def slabs(self, layer: MatrixLayer) -> Integers:
        """Slabs of the block that has most of them."""
        return np.asarray(ceil_div(ceil_div(layer.in_channels, self.slab_channels), self.channel_split), np.int64)

    def through_shared(self, layer: MatrixLayer) -> NDArray[np.bool_]:
        """Whether sums pass through shared memory before they are stored."""
        whole = self.store_vector(layer) >= self.direct_vector
        return (self.channel_slices > 1) | (self.channel_split > 1) | (not whole)

    def shared_bytes(self, layer: MatrixLayer) -> Integers:
        """All stages, or the sums of all slices that take their place at the end."""
        reduced = FLOAT_BYTES * self.channel_slices * self.filter_tile * self.sums_pitch
        reduced = np.where(self.through_shared(layer), reduced, 0)
        stages = self.stages * self.stage_bytes(layer) + self.bytes_beside_stages(layer)
        return np.asarray(np.maximum(stages, reduced), np.int64)

    def fitted(self, layer: MatrixLayer, gpu: Gpu) -> Self:
        """The same tiles with the residents, slabs and stages that GPU and layer let them have."""
        least, one = self.least_slab(layer), np.ones_like(self.channel_split)
        bare = replace(self, slab_channels=least, stages=2 * one, resident_blocks=self._residents(layer, gpu))
        share = gpu.shared_bytes_per_sm // bare.resident_blocks - gpu.shared_reserved_bytes_per_block
        share = np.minimum(share, gpu.shared_bytes_per_block_opt_in)
        tile = bare._with_slabs(layer, share)
        room = np.clip((share - tile.bytes_beside_stages(layer)) // tile.stage_bytes(layer), LEAST_STAGES, MAX_STAGES)
        stages = np.minimum(room, np.maximum(tile.slabs(layer), LEAST_STAGES))
        return replace(tile, stages=stages if gpu.architecture.asynchronous_copies else 2 * one)

    def _residents(self, layer: MatrixLayer, gpu: Gpu) -> Integers:
        """Blocks that registers leave room for, never more than the grid gives an SM."""
        across, down = self.grid(layer)
        wanted = ceil_div(across * down * self.channel_split, gpu.sm_count)
        of_thread = round_up(self.registers(layer), gpu.register_allocation_unit // WARP_SIZE)
        threads = round_up(self.threads, WARP_SIZE)
        by_registers = gpu.registers_per_sm // (np.minimum(of_thread, gpu.max_registers_per_thread) * threads)
        by_warps = gpu.max_warps_per_sm * WARP_SIZE // threads
        resident = np.minimum(np.minimum(wanted, by_registers), np.minimum(by_warps, gpu.max_blocks_per_sm))
        return np.asarray(np.maximum(resident, 1), np.int64)

    def most_registers(self, gpu: Gpu) -> Integers:
        """Registers that the launch bound leaves a thread."""
        threads = self.resident_blocks * round_up(self.threads, WARP_SIZE)
        return np.maximum(registers_left(gpu, gpu.registers_per_sm, threads), 1)

    def _with_slabs(self, layer: MatrixLayer, share: Integers) -> Self:
        """The slab with which a block walks through the fewest terms, those that do not exist and barriers included.

        Of the slabs of which the wanted stages fit the block's share of shared memory.
        """
        least = self.least_slab(layer)
        best, cost = self, np.full(len(least), np.inf)
        for count in range(1, MOST_LEAST_SLABS + 1):
            slab = count * least
            wider = replace(self, slab_channels=slab)
            fits = wider.wanted_stages(layer) * wider.stage_bytes(layer) + wider.bytes_beside_stages(layer) <= share
            words = slab * layer.filter_taps * layer.element_bytes // FLOAT_BYTES
            fits &= (words <= self.most_slab_words) & (slab < layer.in_channels + least)
            fits &= self.copies_of_slab(layer, slab) <= MAX_SLAB_COPIES * self.threads
            found = wider.slabs(layer) * (wider.cost_of_slab(layer, slab) + TERMS_OF_BARRIER)
            better = (count == 1) | (fits & (found < cost))
            cost = np.where(better, found, cost)
            best = replace(best, slab_channels=np.where(better, slab, best.slab_channels))
        return best

    def launch(self, layer: MatrixLayer) -> Launch:
        """Positions along x, filters along y, along z parts of the channels, which are one cluster."""
        across, down = self.grid(layer)
        return Launch(
            grid_x=across,
            grid_y=down,
            grid_z=self.channel_split,
            block_x=self.threads,
            dynamic_shared_bytes=self.shared_bytes(layer),
            cluster_z=self.channel_split,
        )


TilesT = TypeVar("TilesT", bound=MatrixTiles)


def matrix_checks(
    layer: MatrixLayer, tile: MatrixTiles, gpu: Gpu, filter_unit: Integers, position_unit: Integers
) -> tuple[Check, ...]:
    """Limits of all such designs; tiles are made of units of filters and positions, of which a block has no more than needed."""
    few_threads, most_threads = THREADS
    across, down = tile.grid(layer)
    filters = round_up(layer.out_channels, filter_unit)
    positions = round_up(layer.positions, position_unit)
    most_split = MAX_CLUSTER if gpu.architecture.has_clusters else 1
    slabs = ceil_div(layer.in_channels, tile.slab_channels)
    clusters, wide = across * down, 2 ** np.ceil(np.log2(tile.channel_split)).astype(np.int64)
    at_once = tile.resident_blocks * (gpu.sm_count * gpu.cluster_sm_share // wide).astype(np.int64)
    return within_limits(
        ("threads per block of a matrix product", (tile.threads < few_threads) | (tile.threads > most_threads),
         tile.threads, f"{few_threads} to {most_threads}"),
        ("filters of a block", tile.filter_tile > filters, tile.filter_tile, filters),
        ("positions of a block", tile.position_tile > positions, tile.position_tile, positions),
        ("blocks of a cluster", tile.channel_split > most_split, tile.channel_split, most_split),
        ("clusters that run at once", (tile.channel_split > 2) & (clusters > at_once), clusters, at_once),
        ("parts of the slabs", tile.channel_split > slabs, tile.channel_split, slabs),
        ("channels of the slices", tile.least_slab(layer) > round_up(layer.in_channels, layer.sector_elements),
         tile.channel_slices, ceil_div(layer.in_channels, 2)),
        ("tiles of filters in the grid's y", down > MAX_GRID_YZ, down, MAX_GRID_YZ),
    )  # fmt: skip


def matrix_compile_request(
    kernel: str, tile: TilesT, layer: MatrixLayer, gpu: Gpu, macros: Callable[[TilesT], Mapping[str, Any]]
) -> CompileRequest:
    """Source, kernel and macros of one configuration; sizes are parameters, so that layers with the same tile share a compile."""
    one = taken(tile, 0)
    shared = {
        **{macro.name.upper(): getattr(one, macro.name) for macro in fields(one)},
        "ELEMENT_BYTES": layer.element_bytes,
        "INPUT_VECTOR": one.input_vector(layer),
        "STORE_VECTOR": one.store_vector(layer),
        "DIRECT_VECTOR": one.direct_vector,
        "ONE_IMAGE": layer.batch == 1,
        "CHANNEL_TAIL": layer.in_channels % int(one.slab_channels) != 0,
        "FILTER_TAIL": layer.out_channels % int(one.filter_tile) != 0,
        "ASYNC_COPY": gpu.architecture.asynchronous_copies,
        **macros(one),
    }
    return CompileRequest(
        source=kernel_text(f"{kernel}.cu"),
        kernel=kernel,
        file_name=f"{kernel}.cu",
        include_directories=(kernel_folder(),),
        defines=tuple((name, int(value)) for name, value in shared.items()),
        architecture_specific=True,
    )
