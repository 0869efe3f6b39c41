"""The family ``pointwise_conv2d``: everything about it behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import MAX_GRID_YZ
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from ..base import Batch, Check, Family, Space
from ..compiled_members import Traits, compiled_numbers, completed_profile
from ..designs import by_design, checks_by_design
from ..matrix.choices import OF_TENSORS
from ..matrix.counts import WarpWork, matrix_profile
from ..matrix.tensor_limits import precision_checks
from ..matrix.tensor_tiles import has_tensor_cores
from ..matrix.tiles import MatrixTiles
from ..matrix.traits import interpolated_profile
from ..matrix.traits import traits as matrix_traits
from ..precision import Precision
from . import bulk, product, reference, tensor
from .blocking.tiles import planned_registers
from .configuration import OF_PRODUCTS, Layout, PointwiseConfiguration, pointwise_space
from .counts import closed_form, slabs_of
from .launch import KERNEL, candidates, compile_request, launch_of
from .launch_bounds import most_registers
from .problem import PointwiseConv2d
from .reference import Elements
from .traits import traits


class PointwiseConv2dFamily(Family[PointwiseConv2d, PointwiseConfiguration]):
    """1×1 convolution by blocking of SM, block, warp and thread tiles, or as a matrix product of threads or tensor cores."""

    name: ClassVar[str] = "pointwise_conv2d"
    designs: ClassVar[Mapping[str, int]] = {"pointwise_conv2d": 250, product.KERNEL: 250, tensor.KERNEL: 130}
    summary: ClassVar[str] = "1x1 convolution, four levels of tiles sized to the layer and the GPU"
    problem_type = PointwiseConv2d
    configuration_type = PointwiseConfiguration
    measurement_defaults: ClassVar[Mapping[str, Any]] = dict.fromkeys((*OF_PRODUCTS, *OF_TENSORS))

    def default_problem(self) -> PointwiseConv2d:
        """A layer from the middle of MobileNetV1: 256 → 256 channels at 28×28."""
        return PointwiseConv2d()

    def space(self, problem: PointwiseConv2d, gpu: Gpu) -> Space[PointwiseConfiguration]:
        """Every distinct tile, and matrix products."""
        warpgroups = gpu.architecture.has_warpgroup_products
        return pointwise_space(problem, tensor_cores=has_tensor_cores(gpu), warpgroups=warpgroups)

    def checks(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """The plan must leave room for ``blocks_per_sm`` blocks; products need tiles that a thread and the layer can fill."""
        return (
            *precision_checks(problem, np.isin(_designs(batch), (2, 3)), "layout is neither tensor nor bulk"),
            *checks_by_design(
                batch,
                _designs(batch),
                lambda part: _tile_checks(problem, part, gpu),
                lambda part: product.checks(problem, part, gpu),
                lambda part: tensor.checks(problem, part, gpu),
                lambda part: bulk.checks(problem, part, gpu),
            ),
        )

    def launch(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Launch:
        """One block for each block tile; x over positions, y over filters, z over parts of the channels."""
        return by_design(
            batch,
            _designs(batch),
            lambda part: launch_of(problem, candidates(problem, part, gpu)),
            lambda part: product.tiles(problem, part, gpu).launch(problem),
            lambda part: tensor.tiles(problem, part, gpu).launch(problem),
            lambda part: bulk.launch(problem, part, gpu),
        )

    def profile(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses in closed form, but for candidates that break the plan; what the compiler decides interpolated."""
        return by_design(
            batch,
            _designs(batch),
            lambda part: _tile_profile(problem, part, gpu),
            lambda part: _matrix_profile(product, problem, part, gpu),
            lambda part: _matrix_profile(tensor, problem, part, gpu),
            lambda part: bulk.profile(problem, part, gpu),
        )

    def closed_counts(self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses, multiply-adds, shuffles and barriers."""
        return by_design(
            batch,
            _designs(batch),
            lambda part: closed_form(problem, candidates(problem, part, gpu), gpu),
            lambda part: _matrix_estimate(product, problem, part, gpu)[-1].counts,
            lambda part: _matrix_estimate(tensor, problem, part, gpu)[-1].counts,
            lambda part: bulk.profile(problem, part, gpu).counts,
        )

    def counts_accesses(self, configuration: PointwiseConfiguration) -> bool:
        """All but matrix products."""
        return configuration.layout in (Layout.L1, Layout.L2)

    def design_traits(
        self, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu
    ) -> tuple[str, Traits] | None:
        """Tiles that follow from layer and GPU, matrix products of threads, those on tensor cores; None with bulk copies."""
        if batch.equals("layout", Layout.BULK).any():
            return None
        for design, layout in ((product, Layout.PRODUCT), (tensor, Layout.TENSOR)):
            if batch.equals("layout", layout).all():
                return design.KERNEL, matrix_traits(problem, *_matrix_estimate(design, problem, batch, gpu), gpu)
        chosen = candidates(problem, batch, gpu)
        return self.name, traits(problem, chosen, closed_form(problem, chosen, gpu), gpu)

    def compile_request(
        self, problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu
    ) -> CompileRequest:
        """The kernel with its tile as compile-time constants."""
        if configuration.layout is Layout.PRODUCT:
            return product.compile_request(problem, configuration, gpu)
        if configuration.layout is Layout.TENSOR:
            return tensor.compile_request(problem, configuration, gpu)
        if configuration.layout is Layout.BULK:
            return bulk.compile_request(problem, configuration, gpu)
        return compile_request(problem, configuration, gpu)

    def inputs(self, problem: PointwiseConv2d, rng: np.random.Generator) -> Mapping[str, Elements]:
        """Images and filters, uniform in [−1, 1)."""
        return reference.inputs(problem, rng)

    def call(
        self,
        problem: PointwiseConv2d,
        configuration: PointwiseConfiguration,
        gpu: Gpu,
        inputs: Mapping[str, Elements],
    ) -> KernelCall:
        """Poisoned output, images, filters and sizes."""
        if configuration.layout is Layout.BULK:
            return bulk.call(problem, configuration, gpu, inputs)
        return reference.call(problem, inputs)

    def reference(self, problem: PointwiseConv2d, inputs: Mapping[str, Elements]) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: PointwiseConv2d) -> float:
        """1e-5 of the largest output: rounding errors grow like √C · 2⁻²⁴, and stay below that up to 10⁴ channels.

        With TF32 it is 2⁻¹⁰; in half precision the rounding of outputs, 2⁻¹¹, is added.
        """
        if problem.precision is Precision.TF32:
            return problem.precision.rounding
        sums = max(1e-5, float(np.finfo(np.float32).eps * np.sqrt(problem.in_channels)))
        return problem.precision.rounding + sums


def _designs(batch: Batch[PointwiseConfiguration]) -> NDArray[np.int64]:
    """0 for tiles that follow from layer and GPU, 1 for matrix products, 2 for those on tensor cores, 3 with bulk copies."""
    matrices = (Layout.PRODUCT, Layout.TENSOR, Layout.BULK)
    design = sum(number * batch.equals("layout", layout) for number, layout in enumerate(matrices, 1))
    return np.asarray(design, np.int64)


def _tile_checks(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """The plan must leave room for ``blocks_per_sm`` blocks, in registers and in shared memory."""
    chosen = candidates(problem, batch, gpu)
    planned, limit = planned_registers(chosen.tile), chosen.limit
    _, down = chosen.tile.grid(problem)
    return (
        Check(
            reason="planned registers per thread",
            rejected=planned > limit.registers_per_thread,
            value=planned,
            limit=limit.registers_per_thread,
        ),
        Check(
            reason="shared memory per block of the plan",
            rejected=chosen.shared_bytes > limit.shared_bytes_per_block,
            value=chosen.shared_bytes,
            limit=limit.shared_bytes_per_block,
        ),
        Check(reason="grid height", rejected=down > MAX_GRID_YZ, value=down, limit=MAX_GRID_YZ),
    )


def _matrix_estimate(
    design: Any, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu
) -> tuple[MatrixTiles, WarpWork, KernelProfile]:
    """Tiles of configurations of `product` or `tensor`, what a warp of each does, and what follows from both."""
    tile = design.tiles(problem, batch, gpu)
    work = design.work_of(problem, tile, gpu)
    return tile, work, matrix_profile(problem, tile, work, gpu, problem.read_bytes)


def _matrix_profile(
    design: Any, problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu
) -> KernelProfile:
    """Configurations of `product` or `tensor`; members were compiled in FP32, of other precisions there are estimates."""
    tile, work, estimated = _matrix_estimate(design, problem, batch, gpu)
    if problem.precision.channels_last:
        return estimated
    own = matrix_traits(problem, tile, work, estimated, gpu)
    return interpolated_profile(design.KERNEL, problem, tile, own, estimated, gpu)


def _tile_profile(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> KernelProfile:
    """Configurations whose tiles follow from layer and GPU: memory accesses in closed form, the rest interpolated."""
    chosen = candidates(problem, batch, gpu)
    slabs_in_flight = chosen.stages - 1
    launch = launch_of(problem, chosen)
    known = closed_form(problem, chosen, gpu)
    most = most_registers(np.maximum(chosen.resident, 1), gpu)
    numbers = compiled_numbers(KERNEL, traits(problem, chosen, known, gpu), launch, gpu, most)
    return completed_profile(
        known,
        numbers,
        launch,
        global_round_trips=np.ceil(slabs_of(problem, chosen) / slabs_in_flight),
        read_only_share=0.0 if gpu.architecture.asynchronous_copies else 1.0,
    )


FAMILY = PointwiseConv2dFamily()
