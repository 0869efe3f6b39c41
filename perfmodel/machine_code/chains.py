"""Chains of dependent fused multiply-adds in machine code: how long a lone warp must wait, whatever the throughput.

Registers of an arithmetic instruction (sm_70 and newer, 128 bits): destination low 16–23, first source low 24–31, second source
low 32–39 where the form (low 9–11) has a register there, third source of a fused multiply-add high 0–7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .code_profile import CodeProfile
from .opcodes import SASS_CLASSES

_NO_REGISTER = 255
_REGISTER_FORM = 1
_STEPS = ("fp32_fma",)
_CARRIERS = ("fp32_other", "integer", "conversion", "special_function", "shuffles")
_WRITERS = ("global_load", "shared_load", "local_load", "constant_load", "fp64", "fp16", "atomics", "global_reduction")


def chain_lengths(profile: CodeProfile) -> NDArray[np.int64]:
    """Fused multiply-adds on the longest path of dependences through each basic block, 0 in blocks without any.

    Other arithmetic carries a chain on without lengthening it; a value that is loaded begins a new one.
    """
    decoded, flow = profile.decoded, profile.flow
    if decoded is None or flow is None:
        return np.zeros(0, np.int64)
    low, high = decoded.words[:, 0].astype(np.int64), decoded.words[:, 1].astype(np.int64)
    targets, firsts = (low >> 16) & 255, (low >> 24) & 255
    seconds = np.where((low >> 9) & 7 == _REGISTER_FORM, (low >> 32) & 255, _NO_REGISTER)
    steps, carriers, writers = (_any_of(profile, names) for names in (_STEPS, _CARRIERS, _WRITERS))
    thirds = np.where(steps, high & 255, _NO_REGISTER)
    sources = np.stack([firsts, seconds, thirds], axis=1)
    lengths = np.zeros(len(flow), np.int64)
    for block in range(len(flow)):
        chosen = slice(int(flow.first[block]), int(flow.stop[block]))
        kinds = np.where(steps[chosen], 2, np.where(carriers[chosen], 1, np.where(writers[chosen], 0, -1)))
        lengths[block] = _longest(targets[chosen].tolist(), sources[chosen].tolist(), kinds.tolist())
    return lengths


def _any_of(profile: CodeProfile, names: tuple[str, ...]) -> NDArray[np.bool_]:
    assert profile.decoded is not None
    wanted = [SASS_CLASSES.index(name) for name in names]
    return np.isin(profile.decoded.class_index, wanted) & ~profile.decoded.never


def _longest(targets: list[int], sources: list[list[int]], kinds: list[int]) -> int:
    """Longest chain of one block; ``kinds``: 2 lengthens it, 1 carries it, 0 begins a new one, -1 writes no register."""
    depth = [0] * (_NO_REGISTER + 1)
    longest = 0
    for target, read, kind in zip(targets, sources, kinds, strict=True):
        if kind < 0:
            continue
        length = max(depth[register] for register in read) + (kind == 2) if kind else 0
        if target != _NO_REGISTER:
            depth[target] = length
        longest = max(longest, length)
    return longest


def independent_chains(profile: CodeProfile, block_executions: NDArray[np.float64]) -> float:
    """Fused multiply-adds that a thread has in flight at most, on average: executed ones for each one of the longest chains.

    Args:
        profile: the machine code.
        block_executions: warp executions of its basic blocks; 1 where nothing is executed or the code is not decoded.
    """
    if profile.decoded is None or profile.flow is None:
        return 1.0
    steps = np.bincount(
        profile.flow.block_of_instruction(), weights=_any_of(profile, _STEPS), minlength=len(profile.flow)
    )
    waited = float(block_executions @ chain_lengths(profile))
    return float(block_executions @ steps) / waited if waited else 1.0
