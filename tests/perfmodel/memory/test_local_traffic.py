"""Where the traffic of local memory goes."""

from __future__ import annotations

import pytest

from perfmodel.memory.l2 import local_traffic


def test_local_memory_passes_the_caches_that_it_exceeds() -> None:
    fits = local_traffic(1000.0, 600.0, 10_000.0, 32_768.0, 80_000.0)
    assert (fits.l2_read_sectors, fits.dram_read_sectors) == (0.0, 0.0)
    assert fits.l2_write_sectors == 600.0  # written through
    assert fits.dram_write_sectors == 600.0 * 10_000 / 40_000
    exceeds = local_traffic(1000.0, 600.0, 320_000.0, 32_000.0, 80_000.0)
    assert exceeds.l2_read_sectors == pytest.approx(950.0)  # half of L1 holds a twentieth of the stacks
    assert exceeds.dram_read_sectors == pytest.approx(900.0)
    assert exceeds.dram_write_sectors == 600.0
