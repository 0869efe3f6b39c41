"""Executed machine code of a launch from its counted PTX."""

from __future__ import annotations

from collections.abc import Mapping

from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...machine_code.code_profile import CodeProfile
from ...memory.instruction_fetch import instruction_sectors
from ...program.instruction import Space
from ...simulator.access import Action
from ..blocks.launch_classes import LaunchCounts
from .executed import ExecutedCode, PtxExecution, executed_counts

_CLASS_OF_ACCESS: Mapping[tuple[Action, Space], str] = {
    (Action.LOAD, Space.GLOBAL): "global_load",
    (Action.STORE, Space.GLOBAL): "global_store",
    (Action.LOAD, Space.SHARED): "shared_load",
    (Action.STORE, Space.SHARED): "shared_store",
    (Action.ASYNC_COPY, Space.SHARED): "async_copy",
    (Action.LOAD, Space.LOCAL): "local_load",
    (Action.STORE, Space.LOCAL): "local_store",
}


def code_of(profile: CodeProfile, counted: LaunchCounts, launch: Launch) -> ExecutedCode:
    """Executed machine code of a launch whose PTX has been counted."""
    requests: dict[tuple[str, int], float] = {}
    for (action, space, width), number in counted.requests.items():
        name = _CLASS_OF_ACCESS.get((action, space))
        if name is not None:
            requests[name, width] = requests.get((name, width), 0.0) + number
    execution = PtxExecution(
        visits=counted.visits,
        requests=requests,
        local_load_sectors=float(counted.counts.local_load_sectors),
        local_store_sectors=float(counted.counts.local_store_sectors),
        warps=float(launch.blocks * launch.warps_per_block),
        threads_per_block=int(launch.threads_per_block),
    )
    return executed_counts(profile, counted.kernel.blocks, execution)


def fetched_code(profile: CodeProfile, code: ExecutedCode | None, launch: Launch, gpu: Gpu) -> float:
    """Sectors of code that the launch fetches from L2; 0 where the machine code is not decoded."""
    return 0.0 if code is None else instruction_sectors(profile, code.block_executions, launch, gpu)
