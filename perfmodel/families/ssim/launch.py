"""The launch: one block for each tile and image, or channel of it; and what is compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...compiler.request import CompileRequest
from ...core.constants import WARP_SIZE, ceil_div
from ...launch.launch import Launch
from ..kernel_files import kernel_folder, kernel_text
from .configuration import BlockChannels, Design, SsimConfiguration, design_of
from .problem import Ssim


def grid(problem: Ssim, design: Design) -> tuple[int, int]:
    """Tiles of the design side by side and one below the other.

    >>> grid(Ssim(), design_of(SsimConfiguration()))  # 3840 / 64 and 2160 / 72
    (60, 30)
    """
    return ceil_div(problem.width, design.tile_width), ceil_div(problem.height, design.tile_height)


def images(problem: Ssim, design: Design) -> int:
    """Images, or channels of them, that have blocks of their own."""
    return problem.batch if design.block_channels is BlockChannels.ALL else problem.planes


def block_channels(problem: Ssim, design: Design) -> int:
    """Blocks of the launch times the channels that each filters."""
    across, down = grid(problem, design)
    return across * down * problem.planes


def launch(problem: Ssim, designs: Sequence[Design]) -> Launch:
    """Grid, block and shared memory of each design."""
    grids = np.array([grid(problem, design) for design in designs])
    return Launch(
        grid_x=grids[:, 0],
        grid_y=grids[:, 1],
        grid_z=np.array([images(problem, design) for design in designs]),
        block_x=WARP_SIZE,
        block_y=np.array([design.warps for design in designs]),
        static_shared_bytes=np.array([design.shared_bytes for design in designs]),
    )


def compile_request(problem: Ssim, configuration: SsimConfiguration) -> CompileRequest:
    """The kernel for tiles of its design; image size, batch and channels are run-time parameters."""
    kernel, design = f"ssim_{configuration.version.value}", design_of(configuration)
    return CompileRequest(
        source=kernel_text("ssim", f"{kernel}.cu"),
        kernel=kernel,
        file_name=f"{kernel}.cu",
        defines=(
            ("TILE_WIDTH", design.tile_width),
            ("TILE_HEIGHT", design.tile_height),
            ("GRADIENTS", int(problem.gradients)),
        ),
        include_directories=(kernel_folder("ssim"),),
    )
