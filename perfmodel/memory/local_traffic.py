"""Traffic of local memory, which the compiler adds to a kernel's own accesses."""

from __future__ import annotations

from dataclasses import dataclass

from .fitted_shares import shares


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTraffic:
    """Sectors of local memory that pass L1 and that pass L2."""

    l2_read_sectors: float
    l2_write_sectors: float
    dram_read_sectors: float
    dram_write_sectors: float


def local_traffic(
    load_sectors: float, store_sectors: float, resident_bytes_per_sm: float, l1_bytes: float, l2_bytes_per_sm: float
) -> LocalTraffic:
    """Traffic of stacks that all resident threads use at once.

    L1 keeps stacks in a part of itself, beside what is global, and writes through. L2 keeps written sectors in a part of itself;
    reads pass it when the stacks of all SMs exceed it, but for those that L1 as a whole could hold.

    >>> local_traffic(100.0, 50.0, 4096.0, 2048.0, 8192.0).l2_read_sectors
    75.0
    """
    beyond_l2 = resident_bytes_per_sm / l2_bytes_per_sm - 1.0
    past_l2 = min(max(beyond_l2 / shares().read_ramp, 0.0), 1.0)
    return LocalTraffic(
        l2_read_sectors=load_sectors * _beyond(resident_bytes_per_sm, shares().stack_share * l1_bytes),
        l2_write_sectors=store_sectors,
        dram_read_sectors=load_sectors * _beyond(resident_bytes_per_sm, l1_bytes) * past_l2,
        dram_write_sectors=store_sectors * min(1.0, resident_bytes_per_sm / (shares().dirty_share * l2_bytes_per_sm)),
    )


def _beyond(used_bytes: float, kept_bytes: float) -> float:
    return max(0.0, 1.0 - kept_bytes / used_bytes) if used_bytes else 0.0
