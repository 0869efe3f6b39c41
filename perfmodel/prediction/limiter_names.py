"""What limits a launch, in words."""

from __future__ import annotations

_MEANING = {
    "arithmetic": "FP32 and integer pipes",
    "sfu_fp64_fp16_pipes": "FP64, special-function, half-precision or tensor pipes",
    "issue_slots": "instruction issue",
    "lsu_data_pipe": "the data pipe of shared memory and L1",
    "sectors": "L1's fill and store path",
    "instruction_fetch": "instruction fetch (code beyond the instruction cache)",
    "l2": "L2 bandwidth",
    "dram": "DRAM bandwidth",
    "atomics": "atomics, one after the other in L2",
    "local_memory": "L2 and DRAM traffic of spilled registers and arrays in local memory",
    "exposed_memory_latency": "latency of loads that the resident blocks do not hide",
    "exposed_dependency_latency": "latency of the dependent instructions that the resident blocks do not hide",
    "block_launch_rate": "starting the blocks one after the other",
    "ramp_up": "ramp-up: the first blocks wait for code, constants and all their data at once",
    "fixed_launch_cost": "the fixed cost of a launch",
}


def limiter_text(name: str) -> str:
    """A limiter's name as a sentence's end.

    >>> limiter_text("dram")
    'DRAM bandwidth'
    """
    return _MEANING[name]
