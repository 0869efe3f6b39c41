"""How a user's kernel is launched: grid, block, shared memory and macros, and whether a block fits the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import index

from ..compiler.compiled import CompiledKernel
from ..compiler.resources import required_cluster
from ..core.constants import MAX_BLOCKS_PER_CLUSTER, MAX_GRID_X, MAX_GRID_YZ
from ..errors import InfeasibleError, InputError
from ..gpus.catalogue import load_architecture
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Limiter, occupancy, unfit_text
from ..launch.launch import Launch
from ..simulator.execution import waits_for_grid
from .executed_profile import executable

Index3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchConfiguration:
    """How a kernel is launched: grid, block (x, y, z), dynamic shared bytes, macros, cluster (None: as the kernel declares)."""

    grid: Index3
    block: Index3
    shared: int = 0
    defines: Mapping[str, str | int] = field(default_factory=dict)
    cluster: Index3 | None = None

    def __post_init__(self) -> None:
        for name, sizes, limits in (
            ("grid", self.grid, (MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ)),
            ("block", self.block, (1024, 1024, 64)),
        ):
            for axis, size, limit in zip("xyz", sizes, limits, strict=True):
                if not 1 <= size <= limit:
                    raise InputError(f"{name} {','.join(map(str, sizes))}: {axis} must lie in 1 … {limit}")
        if not (isinstance(self.shared, int) and 0 <= self.shared < 2**31):
            raise InputError(f"shared bytes {self.shared!r} must be an integer from 0 to {2**31 - 1:,}")


def index3(name: str, given: int | Sequence[int]) -> Index3:
    """Sizes along x, y, z of one to three integers; what is left out is 1.

    >>> index3("grid", (4, 2))
    (4, 2, 1)
    """
    try:
        sizes = [index(size) for size in (given if isinstance(given, Iterable) else (given,))]
    except TypeError:
        sizes = []
    if not 1 <= len(sizes) <= 3:
        raise InputError(f"{name}={given!r} must be one to three integers")
    x, y, z = sizes + [1] * (3 - len(sizes))
    return x, y, z


def launch_of(configuration: LaunchConfiguration, compiled: CompiledKernel) -> Launch:
    """The launch of a compiled kernel; a cooperative one where the kernel synchronises its grid.

    Raises:
        InputError: the cluster is another than the kernel declares, or does not divide the grid.
    """
    return Launch.of(
        configuration.grid,
        configuration.block,
        _cluster(configuration, compiled),
        static_shared_bytes=compiled.resources.static_shared_bytes,
        dynamic_shared_bytes=configuration.shared,
        cooperative=waits_for_grid(executable(compiled)[0]),
    )


def _cluster(configuration: LaunchConfiguration, compiled: CompiledKernel) -> Index3:
    declared = required_cluster(compiled.cubin, compiled.kernel_name)
    given = configuration.cluster
    if given is not None and declared is not None and given != declared:
        raise InputError(f"cluster {_shown(given)}: the kernel is declared with clusters of {_shown(declared)} blocks")
    cluster = given or declared or (1, 1, 1)
    blocks = cluster[0] * cluster[1] * cluster[2]
    if blocks > 1 and not load_architecture(compiled.architecture).has_clusters:
        raise InputError(f"cluster {_shown(cluster)}: {compiled.architecture} has no clusters, they begin with sm_90")
    if not 1 <= blocks <= MAX_BLOCKS_PER_CLUSTER or any(
        g % c for g, c in zip(configuration.grid, cluster, strict=True)
    ):
        raise InputError(
            f"cluster {_shown(cluster)} must divide the grid {_shown(configuration.grid)} and have at most "
            f"{MAX_BLOCKS_PER_CLUSTER} blocks (--cluster)"
        )
    return cluster


def _shown(sizes: Index3) -> str:
    return ",".join(map(str, sizes))


def require_fits(launch: Launch, compiled: CompiledKernel, gpu: Gpu) -> None:
    """Raise ``InfeasibleError`` naming the limit where not one block fits an SM, or not all of a cooperative launch."""
    shared = int(launch.static_shared_bytes + launch.dynamic_shared_bytes)
    found = occupancy(
        gpu,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=compiled.resources.registers_per_thread,
        shared_bytes_per_block=shared,
        static_shared_bytes_per_block=int(launch.static_shared_bytes),
    )
    if not int(found.blocks_per_sm):
        limiter = found.limiters()[0] if found.limiters() else Limiter.WARPS
        registers = compiled.resources.registers_per_thread
        raise InfeasibleError(unfit_text(gpu, limiter, int(launch.threads_per_block), registers, shared))
    resident = int(found.blocks_per_sm) * gpu.sm_count
    if launch.cooperative and int(launch.blocks) > resident:
        raise InfeasibleError(
            f"grid of {int(launch.blocks):,} blocks: the kernel synchronises its grid, and {gpu.name} holds {resident:,} of its "
            "blocks at once; give a smaller --grid"
        )
