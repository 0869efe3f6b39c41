"""What a predicted launch achieves: operations and bytes per second, their parts of the GPU's peaks, arithmetic intensity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.constants import SECTOR_BYTES, WARP_SIZE, WAVEFRONT_BYTES
from ..gpus.gpu import Gpu
from ..profiles.warp_traces import WarpTraces
from ..time_model.sm_costs import tensor_cycles
from .prediction import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of the memory hierarchy: what passed through it, what it can pass in a second, and what its sheet promises."""

    name: str
    moved_bytes: float
    roof_bytes_per_s: float
    peak_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Rates of one launch; parts of peaks are fractions (Nsight Compute: speed of light).

    ``levels`` are L1 with shared memory, L2, DRAM. Tensor operations are known where the launch was executed.
    """

    seconds: float
    fp32_operations: float
    fp32_peak_per_s: float
    tensor_operations: float
    tensor_share: float
    levels: tuple[Level, Level, Level]

    @property
    def flop_per_s(self) -> float:
        """FP32 and tensor operations per second."""
        return (self.fp32_operations + self.tensor_operations) / self.seconds

    @property
    def fp32_share(self) -> float:
        """FP32 operations per second over the peak."""
        return self.fp32_operations / self.seconds / self.fp32_peak_per_s

    @property
    def level_shares(self) -> tuple[float, float, float]:
        """Bytes per second over the peak, of each level."""
        l1, l2, dram = (one.moved_bytes / self.seconds / one.peak_bytes_per_s for one in self.levels)
        return l1, l2, dram

    @property
    def intensity(self) -> float | None:
        """Operations for each byte that DRAM moves; None where it moves none."""
        moved = self.levels[-1].moved_bytes
        return (self.fp32_operations + self.tensor_operations) / moved if moved else None

    @property
    def text(self) -> str:
        """Two lines: parts of peaks; rates."""
        l1, l2, dram = self.level_shares
        tensor = f"tensor {self.tensor_share:.0%}, " if self.tensor_operations else ""
        rates = ", ".join(
            f"{name} {one.moved_bytes / self.seconds / 1e9:,.0f} GB/s"
            for name, one in zip(("L1", "L2", "DRAM"), self.levels, strict=True)
        )
        if self.flop_per_s:
            rates = f"{self.flop_per_s / 1e9:,.0f} GFLOP/s; {rates}"
        if self.intensity:
            rates += f"; {self.intensity:.3g} FLOP for each byte of DRAM"
        return f"of peak: FP32 {self.fp32_share:.0%}, {tensor}L1 {l1:.0%}, L2 {l2:.0%}, DRAM {dram:.0%}\n{rates}"

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        l1, l2, dram = self.level_shares
        rates = [one.moved_bytes / self.seconds for one in self.levels]
        return {
            "fp32_flop_per_s": self.fp32_operations / self.seconds,
            "tensor_flop_per_s": self.tensor_operations / self.seconds,
            **dict(zip(("l1_bytes_per_s", "l2_bytes_per_s", "dram_bytes_per_s"), rates, strict=True)),
            "flop_per_dram_byte": self.intensity,
            "peak_shares": {"fp32": self.fp32_share, "tensor": self.tensor_share, "l1": l1, "l2": l2, "dram": dram},
        }


def operations(prediction: Prediction) -> float:
    """FP32 operations of the launch; a multiply-add is two."""
    counts = prediction.counts
    return float(2 * counts.fp32_fma + counts.fp32_other) * WARP_SIZE


def levels(prediction: Prediction, gpu: Gpu) -> tuple[Level, Level, Level]:
    """Traffic, roof and peak of each level, the nearest to the SM first; wavefronts count as what they could carry."""
    counts = prediction.counts
    wavefronts = counts.shared_load_wavefronts + counts.shared_store_wavefronts + counts.async_copy_wavefronts
    sectors = counts.global_load_sectors + counts.global_store_sectors
    sectors = sectors + counts.local_load_sectors + counts.local_store_sectors
    pipe = WAVEFRONT_BYTES / gpu.shared_cycles_per_wavefront * gpu.sm_count * gpu.boost_clock_hz
    l2 = gpu.l2_read_bytes_per_s
    return (
        Level(
            name="L1 and shared memory",
            moved_bytes=float(wavefronts * WAVEFRONT_BYTES + sectors * SECTOR_BYTES),
            roof_bytes_per_s=pipe,
            peak_bytes_per_s=pipe,
        ),
        Level(
            name="L2",
            moved_bytes=float((counts.l2_read_sectors + counts.l2_write_sectors) * SECTOR_BYTES),
            roof_bytes_per_s=l2,
            peak_bytes_per_s=l2,
        ),
        Level(
            name="DRAM",
            moved_bytes=float(counts.dram_read_bytes + counts.dram_write_bytes),
            roof_bytes_per_s=gpu.dram_read_bytes_per_s,
            peak_bytes_per_s=gpu.dram_bytes_per_s,
        ),
    )


def throughput(prediction: Prediction, gpu: Gpu, traces: WarpTraces | None = None) -> Throughput:
    """What the launch achieves on the GPU of its prediction.

    Args:
        prediction: of one launch.
        gpu: with the SM clock of the prediction.
        traces: what its warps issue, where it was executed; tensor operations are read off them.
    """
    done, share = _tensor(prediction, gpu, traces)
    return Throughput(
        seconds=prediction.time.predicted_s,
        fp32_operations=operations(prediction),
        fp32_peak_per_s=2 * gpu.fp32_lanes_per_sm * gpu.sm_count * gpu.boost_clock_hz,
        tensor_operations=done,
        tensor_share=share,
        levels=levels(prediction, gpu),
    )


def _tensor(prediction: Prediction, gpu: Gpu, traces: WarpTraces | None) -> tuple[float, float]:
    """Operations of the tensor cores, and the part of the time in which these would do them at their peak rates."""
    if traces is None or not float(prediction.counts.tensor):
        return 0.0, 0.0
    executions = np.where(traces.table.tensor_operations != 0, traces.executions(), 0).astype(np.float64)
    if not executions.any():
        return 0.0, 0.0
    executions *= float(prediction.counts.tensor) / executions.sum()
    held = float(tensor_cycles(traces.table, replace(gpu, tensor_warp_share=1.0)) @ executions)
    available = prediction.time.predicted_s * gpu.boost_clock_hz * gpu.sm_count * gpu.schedulers_per_sm
    return float(np.abs(traces.table.tensor_operations) @ executions), held / available
