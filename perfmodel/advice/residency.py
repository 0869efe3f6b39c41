"""What keeps blocks from an SM: registers, shared memory, blocks that are too small or do not divide what an SM holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..core.constants import WARP_SIZE
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Limiter, Occupancy, occupancy
from ..launch.launch import Launch
from ..profiles.kernel_profile import KernelProfile
from .changed_profiles import with_larger_blocks, with_smaller_blocks
from .subject import AdviceKind, Candidate, Subject

_FURTHER_BLOCKS = 3
"""So many steps of occupancy are looked at."""
_FEWEST_REGISTERS = 16
_FEW_THREADS = 128
"""Threads of a block up to which larger blocks are looked at."""


def residency(subject: Subject) -> Iterator[Candidate]:
    """Candidates for more resident warps, where the grid has blocks for them."""
    profile, gpu = subject.profile, subject.gpu
    now = _occupancy(profile, gpu)
    resident = int(now.blocks_per_sm)
    if int(profile.launch.blocks) <= resident * gpu.sm_count or float(now.fraction) == 1.0:
        return
    limiters = now.limiters()
    if Limiter.REGISTERS in limiters:
        yield from _fewer_registers(subject, now)
    if Limiter.SHARED_MEMORY in limiters:
        yield from _less_shared_memory(subject, now)
    if Limiter.WARPS in limiters:
        yield from _smaller_blocks(subject, now)


def _occupancy(profile: KernelProfile, gpu: Gpu) -> Occupancy:
    launch: Launch = profile.launch
    return occupancy(
        gpu,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=int(profile.resources.registers_per_thread),
        shared_bytes_per_block=int(launch.static_shared_bytes + launch.dynamic_shared_bytes),
        static_shared_bytes_per_block=int(launch.static_shared_bytes),
    )


def _warps_text(found: Occupancy, gpu: Gpu) -> str:
    return f"{int(found.warps_per_sm)} of {gpu.max_warps_per_sm} warps per SM"


def _fewer_registers(subject: Subject, now: Occupancy) -> Iterator[Candidate]:
    """The most registers with which another block fits, and two, and three."""
    profile, gpu = subject.profile, subject.gpu
    registers = int(profile.resources.registers_per_thread)
    found, blocks = 0, int(now.blocks_per_sm)
    for fewer in range(registers - 1, _FEWEST_REGISTERS - 1, -1):
        changed = replace(profile, resources=replace(profile.resources, registers_per_thread=fewer))
        then = _occupancy(changed, gpu)
        if int(then.blocks_per_sm) == blocks:
            continue
        blocks = int(then.blocks_per_sm)
        yield Candidate(
            kind=AdviceKind.REGISTERS,
            places=(),
            finding=f"{registers} registers per thread allow {_warps_text(now, gpu)}",
            change=f"{fewer} registers, {_warps_text(then, gpu)}: "
            f"__launch_bounds__({int(profile.launch.threads_per_block)}, {blocks})",
            profile=changed,
            verify_registers=fewer,
        )
        found += 1
        if found == _FURTHER_BLOCKS:
            return


def _less_shared_memory(subject: Subject, now: Occupancy) -> Iterator[Candidate]:
    profile, gpu = subject.profile, subject.gpu
    shared = int(profile.launch.static_shared_bytes + profile.launch.dynamic_shared_bytes)
    for blocks in range(int(now.blocks_per_sm) + 1, int(now.blocks_per_sm) + 1 + _FURTHER_BLOCKS):
        unit = gpu.shared_allocation_unit_bytes
        fewer = gpu.shared_bytes_per_sm // blocks // unit * unit - gpu.shared_reserved_bytes_per_block
        if fewer <= 0:
            return
        static = min(int(profile.launch.static_shared_bytes), fewer)
        launch = replace(profile.launch, static_shared_bytes=static, dynamic_shared_bytes=fewer - static)
        changed = replace(profile, launch=launch)
        then = _occupancy(changed, gpu)
        if int(then.blocks_per_sm) < blocks:
            return
        yield Candidate(
            kind=AdviceKind.SHARED_MEMORY,
            places=(),
            finding=f"{shared:,} bytes of shared memory per block allow {_warps_text(now, gpu)}",
            change=f"at most {fewer:,} bytes (smaller or fewer tiles), {_warps_text(then, gpu)}",
            profile=changed,
        )


def small_blocks(subject: Subject) -> Iterator[Candidate]:
    """Blocks of two, four and eight times the threads, where they have few and there are many of them."""
    profile, gpu = subject.profile, subject.gpu
    launch: Launch = profile.launch
    threads, now = int(launch.threads_per_block), _occupancy(profile, gpu)
    if threads > _FEW_THREADS or threads % WARP_SIZE or int(launch.blocks) < 2 * gpu.sm_count * int(now.blocks_per_sm):
        return
    for times in (2, 4, 8):
        changed = with_larger_blocks(profile, times)
        if int(_occupancy(changed, gpu).blocks_per_sm) == 0:
            return
        yield Candidate(
            kind=AdviceKind.BLOCK_SIZE,
            places=(),
            finding=f"{int(launch.blocks):,} blocks of {threads} threads, {_warps_text(now, gpu)}",
            change=f"blocks of {threads * times} threads, {_warps_text(_occupancy(changed, gpu), gpu)}",
            profile=changed,
        )


def _smaller_blocks(subject: Subject, now: Occupancy) -> Iterator[Candidate]:
    """Half and a quarter of the threads, where whole blocks leave warps of an SM over."""
    profile, gpu = subject.profile, subject.gpu
    for parts in (2, 4):
        if int(profile.launch.warps_per_block) % parts:
            return
        changed = with_smaller_blocks(profile, parts)
        then = _occupancy(changed, gpu)
        if int(then.warps_per_sm) <= int(now.warps_per_sm):
            continue
        threads = int(profile.launch.warps_per_block) // parts * WARP_SIZE
        yield Candidate(
            kind=AdviceKind.BLOCK_SIZE,
            places=(),
            finding=f"blocks of {int(profile.launch.threads_per_block)} threads fill {_warps_text(now, gpu)}",
            change=f"blocks of {threads} threads, {_warps_text(then, gpu)}",
            profile=changed,
        )
