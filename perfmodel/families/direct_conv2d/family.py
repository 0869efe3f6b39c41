"""The family ``direct_conv2d`` behind the interface that all families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import MAX_GRID_YZ, WARP_SIZE, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...profiles.kernel_profile import KernelProfile
from .. import blocked
from ..base import Batch, Check, Family, Space
from ..blocked import Tiles, blocking_of
from ..compiled_members import Traits, compiled_numbers, completed_profile
from ..designs import by_design, checks_by_design
from ..matrix.tensor_limits import precision_checks
from ..matrix.tensor_tiles import has_tensor_cores, product_terms
from . import configuration, launch, plane, reference, tensor
from .configuration import OF_TILES, DirectConv2dConfiguration, Reuse
from .counts import closed_form
from .problem import Conv2d
from .traffic import compulsory_bytes
from .traits import traits

Inputs = Mapping[str, reference.Elements]
RecordT = TypeVar("RecordT")

UNROLLED_MULTIPLY_ADDS_LIMIT = 2048
"""Longest straight-line code: 1,936 multiply-adds (11 × 11, 16 rows) were unrolled by NVRTC 12.9, of 3,600 it kept a loop."""
NOTABLE_IDLE_SHARE = 0.1
"""Share of lanes without an output from which on a note names them."""


ESTIMATED = (Reuse.BLOCKED, Reuse.PLANE, Reuse.TENSOR)
"""Designs whose counts are estimates until a block is executed."""


class DirectConv2dFamily(Family[Conv2d, DirectConv2dConfiguration]):
    """Direct convolution whose lanes exchange loads, whose threads keep rows, or whose blocks share tiles or planes."""

    name: ClassVar[str] = "direct_conv2d"
    summary: ClassVar[str] = "2-D convolution, dense or depthwise: column reuse, row reuse, both, or blocked"
    problem_type = Conv2d
    configuration_type = DirectConv2dConfiguration
    measurement_defaults: ClassVar[Mapping[str, Any]] = dict.fromkeys(OF_TILES)
    designs: ClassVar[Mapping[str, int]] = {
        launch.KERNEL: 600,
        blocked.KERNEL: 110,
        plane.KERNEL: 150,
        tensor.KERNEL: 110,
    }

    def default_problem(self) -> Conv2d:
        """One 3840 × 2160 image and a 5 × 5 filter."""
        return Conv2d(height=2160, width=3840, filter_height=5, filter_width=5)

    def space(self, problem: Conv2d, gpu: Gpu) -> Space[DirectConv2dConfiguration]:
        """Blocked, on tensor cores, by whole planes; where the blocked design does not always win, reuse modes of strips, too."""
        return configuration.space(problem, tensor_cores=has_tensor_cores(gpu))

    def whole_space(self, problem: Conv2d, gpu: Gpu) -> Space[DirectConv2dConfiguration]:
        """With strips of dense layers, too."""
        return configuration.space(problem, tensor_cores=has_tensor_cores(gpu), whole=True)

    def checks(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
        """Stride of column reuse, rows and code that no image or cache can use, tiles beyond the problem, the grid's limits."""
        design = _designs(batch)
        straight, blocks = design == 0, batch.equals("reuse", Reuse.BLOCKED)
        sizes = launch.strips(problem, batch)
        useful_rows = 1 << (problem.output_height - 1).bit_length()
        code = np.where(sizes.unrolled, sizes.rows_per_thread, 1) * problem.filter_taps
        several = {"output channels in the grid's y": problem.out_channels, "images in the grid's z": problem.batch}
        return (
            Check(
                reason="column reuse needs stride 1",
                rejected=sizes.columns & (problem.stride > 1),
                value=problem.stride,
                limit=1,
            ),
            Check(
                reason="rows per thread",
                rejected=(sizes.rows_per_thread > useful_rows) & (straight | batch.equals("reuse", Reuse.PLANE)),
                value=sizes.rows_per_thread,
                limit=f"{useful_rows} (output height {problem.output_height} rounded up to a power of two)",
            ),
            Check(
                reason="unrolled multiply-adds",
                rejected=(code > UNROLLED_MULTIPLY_ADDS_LIMIT) & straight,
                value=code,
                limit=UNROLLED_MULTIPLY_ADDS_LIMIT,
            ),
            *precision_checks(problem, batch.equals("reuse", Reuse.TENSOR), "reuse is not tensor"),
            Check(
                reason="dense convolution where reuse=block",
                rejected=blocks & problem.depthwise,
                value="depthwise",
                limit="dense",
                relation="is not",
            ),
            *blocked.checks(problem.layer, blocking_of(batch), blocks, "reuse=block"),
            *checks_by_design(
                batch,
                design,
                lambda part: (),
                lambda part: (),
                lambda part: plane.checks(problem, part, gpu),
                lambda part: tensor.checks(problem, part, gpu),
            ),
            *(
                Check(reason=reason, rejected=(value > MAX_GRID_YZ) & straight, value=value, limit=MAX_GRID_YZ)
                for reason, value in several.items()
            ),
        )

    def launch(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Launch:
        """One block for each tile of an output plane; of the blocked design, for each tile of planes of several channels."""
        return _of_designs(
            batch,
            lambda part: launch.launch(problem, part),
            lambda part: blocked.launch_of(problem.layer, _tiles(problem, part, gpu)),
            lambda part: plane.launch_of(problem, part, gpu),
            lambda part: tensor.tiles(problem, part, gpu).launch(problem),
        )

    def profile(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
        """Memory accesses in closed form; registers, instructions and critical path interpolated."""
        return _of_designs(
            batch,
            lambda part: _strips_profile(problem, part, gpu),
            lambda part: _blocks_profile(problem, part, gpu),
            lambda part: plane.profile(problem, part, gpu),
            lambda part: tensor.profile(problem, tensor.tiles(problem, part, gpu), gpu),
        )

    def closed_counts(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Counts:
        """Memory accesses, multiply-adds and shuffles."""
        return _of_designs(
            batch,
            lambda part: closed_form(problem, launch.strips(problem, part), launch.launch(problem, part), gpu),
            lambda part: _blocks_closed_form(problem, _tiles(problem, part, gpu), gpu),
            lambda part: plane.closed_form(problem, plane.groups(problem, part, gpu), gpu),
            lambda part: tensor.closed_form(problem, tensor.tiles(problem, part, gpu), gpu),
        )

    def design_of(self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> str:
        """Strips, blocked, whole planes, on tensor cores."""
        return (launch.KERNEL, blocked.KERNEL, plane.KERNEL, tensor.KERNEL)[int(_designs(batch)[0])]

    def design_traits(
        self, problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu
    ) -> tuple[str, Traits] | None:
        """Warps that walk down strips, blocked, whole planes, on tensor cores; None with channels last."""
        design = self.design_of(problem, batch, gpu)
        if design == tensor.KERNEL:
            found = tensor.traits(problem, batch, gpu)
            return (design, found) if found else None
        if design == plane.KERNEL:
            group = plane.groups(problem, batch, gpu)
            return design, plane.traits(problem, group, plane.closed_form(problem, group, gpu))
        if design == blocked.KERNEL:
            tile = _tiles(problem, batch, gpu)
            known = _blocks_closed_form(problem, tile, gpu)
            return design, blocked.traits(problem.layer, tile, blocked.launch_of(problem.layer, tile), known, gpu)
        sizes, geometry = launch.strips(problem, batch), launch.launch(problem, batch)
        return design, traits(problem, sizes, geometry, closed_form(problem, sizes, geometry, gpu), gpu)

    def counts_accesses(self, configuration: DirectConv2dConfiguration) -> bool:
        """All but those of whole planes, blocked ones and those on tensor cores, whose accesses are estimates."""
        return configuration.reuse not in ESTIMATED

    def compile_request(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
        """The kernel; one compile serves all image sizes and batches."""
        if configuration.reuse is Reuse.BLOCKED:
            return blocked.compile_request(problem.layer, blocking_of(Batch.of([configuration])), gpu)
        if configuration.reuse is Reuse.PLANE:
            return plane.compile_request(problem, configuration, gpu)
        if configuration.reuse is Reuse.TENSOR:
            return tensor.compile_request(problem, configuration, gpu)
        return launch.compile_request(problem, configuration)

    def inputs(self, problem: Conv2d, rng: np.random.Generator) -> Inputs:
        """Images and filters."""
        return reference.inputs(problem, rng)

    def call(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu, inputs: Inputs) -> KernelCall:
        """Output, input, filter where it is no constant, sizes."""
        return reference.call(problem, configuration, inputs)

    def reference(self, problem: Conv2d, inputs: Inputs) -> Mapping[str, NDArray[np.float64]]:
        """The exact output."""
        return {"output": reference.convolve(problem, inputs["input"], inputs["filter"])}

    def tolerance(self, problem: Conv2d) -> float:
        """Bound for sums of n positive terms, relative to the sum: by a chain of FP32 instructions, or on tensor cores.

        A chain rounds n + 1 times, by half a unit in the last place. Tensor cores cut three sums off for every eight terms, by a
        whole unit at most; the products of factors of two TF32 numbers are 2⁻²⁰ too small at most. With TF32 the rounding of
        the factors themselves is added, in half precision that of the outputs.
        """
        terms = problem.filter_channels * problem.filter_taps
        unit = float(np.finfo(np.float32).eps)
        on_tensor_cores = 2.0**-20 + 3 * ceil_div(terms, product_terms(problem)) * unit
        return float(problem.precision.rounding + max((terms + 1) * unit / 2, on_tensor_cores))

    def notes(self, problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> tuple[str, ...]:
        """Idle lanes, filters in global memory and register arrays in local memory.

        >>> from perfmodel.families.direct_conv2d import Reuse
        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> plain = DirectConv2dConfiguration(
        ...     reuse=Reuse.NONE, exchange=None, accumulators=None, rows_per_thread=1, block_x=32, block_y=8)
        >>> problem = Conv2d(height=14, width=14, filter_height=3, filter_width=3, padding=1)
        >>> FAMILY.notes(problem, plain, load_gpu("h200"))
        ('56 % of the lanes have no output: 14 columns are computed by warps of 32',)
        """
        if configuration.reuse in ESTIMATED:
            return ()
        sizes = launch.strips(problem, Batch.of([configuration]))
        width, notes = problem.output_width, []
        idle = 1 - width / (sizes.across * WARP_SIZE)
        if idle > NOTABLE_IDLE_SHARE:
            lanes = f"{100 * idle:.0f} % of the lanes have no output"
            notes.append(f"{lanes}: {width} columns are computed by warps of {WARP_SIZE}")
        if not launch.filter_in_constant(problem):
            kept = problem.filter_taps <= launch.TAPS_IN_REGISTERS_LIMIT
            when = "once for a channel" if kept else "at each use"
            notes.append(f"the filters exceed constant memory and are loaded from global memory {when}")
        if self.profile(problem, Batch.of([configuration]), gpu).resources.stack_bytes_per_thread[0] > 0:
            notes.append("the compiler is expected to keep the dynamically indexed taps in local memory")
        return tuple(notes)


def _strips_profile(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
    """Configurations whose warps walk down strips: memory accesses in closed form, the rest interpolated."""
    sizes, geometry = launch.strips(problem, batch), launch.launch(problem, batch)
    known = closed_form(problem, sizes, geometry, gpu)
    numbers = compiled_numbers(launch.KERNEL, traits(problem, sizes, geometry, known, gpu), geometry, gpu)
    return completed_profile(known, numbers, geometry, read_only_share=1.0)


def _tiles(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Tiles:
    """Sizes of configurations that block."""
    return blocked.tiles(problem.layer, blocking_of(batch), gpu)


def _blocks_profile(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
    """Configurations that block."""
    read_bytes, _ = compulsory_bytes(problem)
    return blocked.profile(problem.layer, _tiles(problem, batch, gpu), gpu, read_bytes)


def _blocks_closed_form(problem: Conv2d, tile: Tiles, gpu: Gpu) -> Counts:
    read_bytes, _ = compulsory_bytes(problem)
    return blocked.closed_form(problem.layer, tile, blocked.launch_of(problem.layer, tile), gpu, read_bytes)


def _of_designs(
    batch: Batch[DirectConv2dConfiguration], *designs: Callable[[Batch[DirectConv2dConfiguration]], RecordT]
) -> RecordT:
    """What each design's own function makes of its configurations: the direct ones, blocks, planes, tensor cores."""
    return by_design(batch, _designs(batch), *designs)


def _designs(batch: Batch[DirectConv2dConfiguration]) -> NDArray[np.int64]:
    """0 for warps that walk down strips, 1 for the blocked design, 2 for whole planes, 3 for tensor cores."""
    design = sum(number * batch.equals("reuse", kind) for number, kind in enumerate(ESTIMATED, 1))
    return np.asarray(design, np.int64)


FAMILY = DirectConv2dFamily()
