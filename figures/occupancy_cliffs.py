"""Registers per thread against occupancy: one register more, and a block less is resident."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.gpus.occupancy import occupancy

from .style import CYCLE, PAGE_INCHES, figure, save, short_name

GPUS = ("rtx-2080-ti", "rtx-3090", "h200")
BLOCK_THREADS = (64, 256, 1024)
REGISTERS = np.arange(16, 256)
_DASHES = ("-", "--", ":")


def draw(folder: Path) -> tuple[Path, Path]:
    """Three GPUs whose SMs hold 1,024, 1,536 and 2,048 threads."""
    return draw_occupancy_cliffs(folder, [load_gpu(gpu) for gpu in GPUS])


def draw_occupancy_cliffs(folder: Path, gpus: Sequence[Gpu], name: str = "occupancy_cliffs") -> tuple[Path, Path]:
    """Resident warps by registers per thread, without shared memory, one panel for each GPU and one line for each block."""
    with figure(PAGE_INCHES, 2.6, ncols=len(gpus), sharey=True, squeeze=False) as (drawn, axes):
        for axis, gpu in zip(axes[0], gpus, strict=True):
            for threads, colour, dash in zip(BLOCK_THREADS, CYCLE, _DASHES, strict=False):
                found = occupancy(
                    gpu, threads_per_block=threads, registers_per_thread=REGISTERS, shared_bytes_per_block=0
                )
                axis.step(REGISTERS, found.warps_per_sm, dash, where="post", color=colour, label=f"{threads:,}")
            axis.set_title(f"{short_name(gpu)}: {gpu.max_warps_per_sm} warps per SM")
            axis.set_xlabel("registers per thread")
            axis.set_xticks([16, 64, 128, 192, 255])
            axis.grid(axis="y", color="0.9", lw=0.6)
        axes[0][0].set_ylabel("resident warps per SM")
        axes[0][0].set_yticks(range(0, max(gpu.max_warps_per_sm for gpu in gpus) + 1, 8))
        axes[0][-1].legend(title="threads of a block", title_fontsize=7)
        return save(drawn, folder, name)
