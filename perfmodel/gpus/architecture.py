"""What the GPUs of a compute capability have in common beside numbers: properties that code asks for by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

Size = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A real architecture as the compiler calls it (``name``, such as ``sm_90``), by its sheet under ``data/gpus/architectures``.

    An architecture without a sheet has the properties of the newest one before it: ``sm_87`` those of ``sm_86``.

    >>> from perfmodel.gpus.catalogue import load_architecture, load_gpu
    >>> load_gpu("h200").architecture == load_architecture("sm_90")
    True
    >>> load_architecture("sm_90").l2_partitions, load_architecture("sm_86").l2_partitions
    (2, 1)
    """

    name: str

    ptx_target: str
    """The oldest virtual architecture whose PTX is the same where a source does not ask for its target."""
    compiled_by_cuda_13: bool
    """CUDA 13 compiles for it; older architectures are left to CUDA 12.9."""
    has_specific_variant: bool
    """The compiler has a target for this architecture alone, such as ``sm_90a``, with instructions that others lack."""
    decodable_machine_code: bool
    """Instructions have 16 bytes, which `perfmodel.machine_code` decodes and the simulator executes."""
    launch_words_of_blackwell: bool
    """The driver writes grid, block and memory windows where Blackwell's constant bank has them."""
    shared_bytes_reserved_in_cubin: Size
    """Bytes that the driver reserves and the cubin counts among the shared memory of a kernel that uses any."""
    has_warpgroup_products: bool
    """Tensor cores multiply what the shared memory and the registers of a warpgroup hold (``wgmma``)."""
    has_clusters: bool
    """Blocks of a cluster share their shared memory."""
    array_tiles_counted: bool
    """How the tiles of CUDA arrays lie in memory was counted, so that sectors of texture reads are as the hardware has them."""
    code_generation: str
    """The oldest architecture for which the compiler makes about the same code of a kernel."""
    asynchronous_copies: bool
    """There is ``cp.async``."""
    compiler_stacks_small_arrays: bool
    """The compiler puts an array of registers with a computed index on the stack even where it is small."""
    l2_partitions: Annotated[int, Meta(ge=1)]
    """Parts of L2, each of which holds its own copy of what its GPCs read."""
    l2_dirty_bytes_at_start: Size
    """What L2 has still to write back of others when a launch begins with a cold L2, as after the flush of the profiler."""

    @property
    def compute_capability(self) -> tuple[int, int]:
        """Major and minor number.

        >>> from perfmodel.gpus.catalogue import load_architecture
        >>> load_architecture("sm_100").compute_capability
        (10, 0)
        """
        digits = self.name.removeprefix("sm_").rstrip("af")
        return int(digits[:-1]), int(digits[-1])
