"""From warp accesses to traffic: sectors, L1, L2 and DRAM."""
