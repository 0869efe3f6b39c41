"""Numbers that define the programming model and never vary between GPUs (CUDA C++ Programming Guide, chapter 5)."""

from typing import Any

WARP_SIZE = 32
SECTOR_BYTES = 32
LINE_BYTES = 128
SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES
SHARED_BANKS = 32
BANK_BYTES = 4
WAVEFRONT_BYTES = SHARED_BANKS * BANK_BYTES
"""What a wavefront of L1 or shared memory moves at most."""
CONSTANT_LINE_BYTES = 64
CONSTANT_BANK_BYTES = 64 * 1024
"""Size of constant memory (CUDA C++ Programming Guide, technical specifications), and of a bank of it in machine code."""
FLOAT_BYTES = 4
LOCAL_REQUEST_SECTORS = WARP_SIZE * FLOAT_BYTES // SECTOR_BYTES
"""Sectors of a local access of a whole warp, whose words lie side by side."""
VECTOR_WORDS = 4
"""Words of the widest access of a thread to memory (CUDA C++ Programming Guide, device memory accesses)."""
VECTOR_BYTES = VECTOR_WORDS * FLOAT_BYTES
INSTRUCTION_BYTES = 16
MAX_THREADS_PER_BLOCK = 1024
MAX_BLOCKS_PER_CLUSTER = 16
"""Blocks of a cluster whose size need not be portable (CUDA C++ Programming Guide, thread block clusters)."""
MAX_GRID_X = 2**31 - 1
MAX_GRID_YZ = 65_535


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Smallest integer that is at least the quotient; works element by element on integer arrays too.

    >>> ceil_div(10, 4)
    3
    """
    return -(-numerator // denominator)


def round_up(value: Any, multiple: Any) -> Any:
    """Smallest multiple of ``multiple`` that is at least ``value``; element by element on arrays.

    >>> round_up(33, 32)
    64
    """
    return ceil_div(value, multiple) * multiple
