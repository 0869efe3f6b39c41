"""Matrix products of warpgroups whose factors bulk tensor copies bring: tiles, limits, counts, what is compiled."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.batched import taken
from ...core.constants import INSTRUCTION_BYTES, SECTOR_BYTES, VECTOR_BYTES, WARP_SIZE, ceil_div, round_up
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...gpus.occupancy import registers_left
from ...launch.launch import Buffer, Launch, TensorMap
from ...launch.tensor_map import tensor_tiling
from ...memory.request_coalescing import shares_in_turns
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from ..base import Batch, Check, within_limits
from ..kernel_files import kernel_folder, kernel_text
from .channels_last import ROW_POSITIONS, WARPS_OF_GROUP
from .choices import TENSOR_TERM_BYTES
from .estimates import matrix_estimates
from .layer import MatrixLayer

Integers = NDArray[np.int64]

KERNEL = "bulk_product"
OF_BULK = ("warp_filters", "warp_positions", "position_warps")
"""Fields of a configuration."""
SLAB_BYTES = 128
"""Channels of a slab, in bytes: the widest row whose exchanged chunks ``wgmma`` knows (PTX ISA, swizzling modes)."""
STAGE_BARRIER_BYTES = 16
"""Two ``mbarrier`` objects of a stage: that it is full, and that it has been multiplied."""
BULK_FILTERS = (32, 48, 64, 96, 128)
"""Columns of the products that the kernel knows."""
BULK_POSITIONS = (16, 32)
BULK_WARPS = (4, 8, 12)
MOST_BOX_ROWS = 256
"""Of a bulk tensor copy (CUDA driver API, ``cuTensorMapEncodeTiled``)."""
MOST_SUMS = 128
"""Of a thread."""
REGISTERS_BESIDE_SUMS = 40
TILE_SHIFT = 8
"""Elements beyond the filters of a tile from the outputs of one position to those of the next, for other banks."""
LEAST_STAGES, MOST_STAGES = 2, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTiles:
    """Sizes of n configurations, arrays of shape ``(n,)``; macros of the kernel in small letters."""

    warp_filters: Integers
    warp_positions: Integers
    position_warps: Integers
    stages: Integers
    resident_blocks: Integers

    @property
    def threads(self) -> Integers:
        """Those that multiply, and the warp that copies."""
        return WARP_SIZE * (self.position_warps + 1)

    @property
    def position_tile(self) -> Integers:
        """Positions of a tile."""
        return self.warp_positions * self.position_warps

    @property
    def slab_bytes(self) -> Integers:
        """A slab of both factors."""
        return SLAB_BYTES * (self.position_tile + self.warp_filters)

    @property
    def stage_bytes(self) -> Integers:
        """Shared memory of a stage: a slab, and its barriers."""
        return self.slab_bytes + STAGE_BARRIER_BYTES

    @property
    def sums(self) -> Integers:
        """Sums of a thread."""
        return self.warp_positions // ROW_POSITIONS * self.warp_filters // 2

    @property
    def tile_pitch(self) -> Integers:
        """Elements from the outputs of a position to those of the next in shared memory."""
        return self.warp_filters + TILE_SHIFT

    def output_bytes(self, layer: MatrixLayer) -> Integers:
        """Shared memory of the outputs of all warps."""
        return np.asarray(layer.element_bytes * self.position_tile * self.tile_pitch, np.int64)

    def shared_bytes(self, layer: MatrixLayer) -> Integers:
        """Stages and outputs."""
        return np.asarray(self.stages * self.stage_bytes + self.output_bytes(layer), np.int64)

    def parts(self, layer: MatrixLayer) -> tuple[Integers, Integers]:
        """Tiles along positions and along filters."""
        return ceil_div(layer.positions, self.position_tile), ceil_div(layer.out_channels, self.warp_filters)

    def blocks(self, layer: MatrixLayer, gpu: Gpu) -> Integers:
        """Blocks, which run at once and share the tiles."""
        across, down = self.parts(layer)
        return np.asarray(np.minimum(across * down, self.resident_blocks * gpu.sm_count), np.int64)

    def launch(self, layer: MatrixLayer, gpu: Gpu) -> Launch:
        """All blocks along x."""
        return Launch(
            grid_x=self.blocks(layer, gpu), block_x=self.threads, dynamic_shared_bytes=self.shared_bytes(layer)
        )


def slab_channels(layer: MatrixLayer) -> int:
    """Channels of a slab."""
    return SLAB_BYTES // layer.element_bytes


def slabs(layer: MatrixLayer) -> int:
    """Slabs of a tile."""
    return int(ceil_div(layer.in_channels, slab_channels(layer)))


def bulk_copies_fit(layer: MatrixLayer) -> bool:
    """Whether rows of both factors begin at 16 bytes, and fill slabs: of fewer channels most of a copied row would be zeros."""
    return layer.in_channels * layer.element_bytes % VECTOR_BYTES == 0 and layer.in_channels >= slab_channels(layer)


def bulk_tiles(layer: MatrixLayer, batch: Batch[Any], gpu: Gpu) -> BulkTiles:
    """Sizes of a batch: as many blocks on an SM as registers, shared memory and tiles let it have, and stages for the rest."""
    given = {name: batch[name].astype(np.int64) for name in OF_BULK}
    one = np.ones_like(given["warp_filters"])
    bare = BulkTiles(**given, stages=LEAST_STAGES * one, resident_blocks=one)
    across, down = bare.parts(layer)
    of_thread = round_up(bare.sums + REGISTERS_BESIDE_SUMS, gpu.register_allocation_unit // WARP_SIZE)
    by_registers = gpu.registers_per_sm // (of_thread * bare.threads)
    by_warps = gpu.max_warps_per_sm * WARP_SIZE // bare.threads
    by_shared = gpu.shared_bytes_per_sm // (bare.shared_bytes(layer) + gpu.shared_reserved_bytes_per_block)
    wanted = ceil_div(across * down, gpu.sm_count)
    resident = np.minimum(np.minimum(wanted, by_registers), np.minimum(by_warps, by_shared))
    resident = np.maximum(resident, 1)
    share = gpu.shared_bytes_per_sm // resident - gpu.shared_reserved_bytes_per_block
    share = np.minimum(share, gpu.shared_bytes_per_block_opt_in)
    of_block = slabs(layer) * ceil_div(across * down, resident * gpu.sm_count)
    most = np.minimum(MOST_STAGES, np.maximum(of_block, LEAST_STAGES))
    stages = np.clip((share - bare.output_bytes(layer)) // bare.stage_bytes, LEAST_STAGES, most)
    return BulkTiles(**given, stages=stages, resident_blocks=resident)


def bulk_checks(layer: MatrixLayer, tile: BulkTiles, gpu: Gpu, where: str) -> tuple[Check, ...]:
    """Limits of n configurations; ``where`` names them for the messages."""
    registers = registers_left(gpu, gpu.registers_per_block, tile.threads)
    lacking = np.full(tile.threads.shape, not gpu.architecture.has_warpgroup_products)
    unaligned = np.full(tile.threads.shape, not bulk_copies_fit(layer))
    whole = round_up(layer.positions, WARPS_OF_GROUP * tile.warp_positions)
    return within_limits(
        (f"compute capability where {where}", lacking, gpu.architecture.name, "sm_90"),
        (f"input channels where {where}", unaligned, layer.in_channels,
         f"multiples of {VECTOR_BYTES // layer.element_bytes} from {slab_channels(layer)} on"),
        ("filters of a warpgroup", ~np.isin(tile.warp_filters, BULK_FILTERS), tile.warp_filters,
         ", ".join(map(str, BULK_FILTERS))),
        ("positions of a warp", tile.warp_positions % ROW_POSITIONS != 0, tile.warp_positions,
         f"multiples of {ROW_POSITIONS}"),
        ("warps along positions", tile.position_warps % WARPS_OF_GROUP != 0, tile.position_warps,
         f"multiples of {WARPS_OF_GROUP}"),
        ("sums of a thread", tile.sums > MOST_SUMS, tile.sums, MOST_SUMS),
        ("registers of a thread", tile.sums + REGISTERS_BESIDE_SUMS > registers, tile.sums, registers),
        ("positions of a box", tile.position_tile > MOST_BOX_ROWS, tile.position_tile, MOST_BOX_ROWS),
        ("positions of a tile", tile.position_tile > whole, tile.position_tile, whole),
        ("filters of a tile", tile.warp_filters > round_up(layer.out_channels, min(BULK_FILTERS)), tile.warp_filters,
         layer.out_channels),
    )  # fmt: skip


def bulk_request(layer: MatrixLayer, tile: BulkTiles) -> CompileRequest:
    """Source, kernel and macros of one configuration; sizes are parameters."""
    one = taken(tile, 0)
    macros = {
        **{macro.name.upper(): getattr(one, macro.name) for macro in fields(one)},
        "TILE_PITCH": one.tile_pitch,
        "ELEMENT_BYTES": layer.element_bytes,
        "STORE_VECTOR": store_vector(layer),
        "FILTER_TAIL": layer.out_channels % int(one.warp_filters) != 0,
        "ASYNC_COPY": 1,
    }
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        include_directories=(kernel_folder(),),
        defines=tuple((name, int(value)) for name, value in macros.items()),
        architecture_specific=True,
    )


def store_vector(layer: MatrixLayer) -> int:
    """Elements of a store, which no position's end cuts."""
    return gcd(layer.vector_elements, layer.out_channels)


def bulk_maps(layer: MatrixLayer, tile: BulkTiles, positions: Buffer, filters: Buffer) -> tuple[TensorMap, TensorMap]:
    """How bulk tensor copies see both factors: boxes of a slab's channels of a tile's positions or filters."""

    def seen(buffer: Buffer, rows: int, box: Integers) -> TensorMap:
        tiling = tensor_tiling(
            layer.precision.copied_element,
            (rows, layer.in_channels),
            box=(int(box[0]), slab_channels(layer)),
            swizzle_bytes=SLAB_BYTES,
        )
        return TensorMap(buffer=buffer, tiling=tiling)

    return seen(positions, layer.positions, tile.position_tile), seen(filters, layer.out_channels, tile.warp_filters)


def bulk_profile(layer: MatrixLayer, tile: BulkTiles, gpu: Gpu, read_bytes: float) -> KernelProfile:
    """Counts, registers and critical path of n configurations; ``read_bytes`` are those that DRAM must deliver at least."""
    about, launch = matrix_estimates(), tile.launch(layer, gpu)
    across, down = tile.parts(layer)
    tiles, blocks = np.asarray(across * down, np.float64), np.asarray(launch.blocks, np.float64)
    of_tile = slabs(layer)
    warps = tile.position_warps
    of_slab = tile.warp_positions // ROW_POSITIONS * (SLAB_BYTES // TENSOR_TERM_BYTES)
    products = tiles * of_tile * warps * of_slab
    vector = store_vector(layer)
    stores = np.ceil(tiles * tile.position_tile * tile.warp_filters / vector / WARP_SIZE)
    kept = tiles * warps * tile.sums / 2
    sectors = tiles * of_tile * tile.slab_bytes / SECTOR_BYTES
    of_filters, of_positions = shares_in_turns(across, down, tile.resident_blocks, gpu)
    rows = tile.position_tile + tile.warp_filters
    joined = (of_filters * tile.warp_filters + of_positions * tile.position_tile) / rows
    stored = np.full_like(tiles, layer.outputs / layer.sector_elements)
    none = np.zeros_like(tiles)
    waits = tiles * of_tile * (warps + 1)
    classes = {
        "conversion": kept * (layer.element_bytes < 4),
        "integer": about.bulk_wait_instructions * waits + about.bulk_output_instructions * stores,
        "control": about.bulk_wait_instructions * waits,
        "barriers": about.bulk_wait_barriers * waits,
        "tensor": products,
    }
    counts = Counts(
        global_store_requests=stores,
        global_store_sectors=stored,
        shared_load_requests=stores,
        shared_load_wavefronts=stores * max(1, vector * layer.element_bytes // 4),
        shared_store_requests=kept,
        shared_store_wavefronts=kept * (layer.element_bytes // 2),
        bulk_read_sectors=sectors,
        l2_read_sectors=sectors * joined,
        l2_write_sectors=stored,
        dram_read_bytes=none + read_bytes,
        dram_write_bytes=none + layer.element_bytes * layer.outputs,
        warp_instructions=2 * stores + kept + sum(classes.values()),
        **classes,
    )
    rate = gpu.tensor_f16_f32_per_sm if layer.element_bytes == 2 else gpu.tensor_tf32_per_sm
    operations = 2.0 * tiles * tile.position_tile * tile.warp_filters * of_tile * slab_channels(layer)
    tensor_cycles = operations * gpu.schedulers_per_sm / max(rate, 1.0)
    own = tiles / blocks
    of_outputs = tile.sums + stores / tiles / warps * about.bulk_output_instructions
    of_warp = own * (of_tile * about.bulk_slab_cycles + about.bulk_tile_cycles + of_outputs)
    unit = gpu.register_allocation_unit // WARP_SIZE
    registers = np.minimum(
        round_up(tile.sums + REGISTERS_BESIDE_SUMS, unit),
        registers_left(gpu, gpu.registers_per_sm, tile.resident_blocks * tile.threads),
    )
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(launch, np.asarray(registers, np.int32)),
        counts=counts,
        global_round_trips=np.ceil(own * of_tile / tile.stages),
        warp_cycles=about.bulk_prologue_cycles + np.maximum(of_warp, tensor_cycles / blocks / gpu.schedulers_per_sm),
        loop_code_bytes=np.asarray(INSTRUCTION_BYTES * about.bulk_product_instructions * of_slab + none, np.float64),
        tensor_cycles=tensor_cycles,
    )
