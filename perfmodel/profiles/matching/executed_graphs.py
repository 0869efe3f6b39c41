"""The two control-flow graphs of a kernel, PTX and machine code, with the features by which their regions are told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...machine_code.code_profile import CodeProfile
from ...machine_code.control_flow import ControlFlow
from ...machine_code.decode import Instructions
from ...machine_code.estimate import classify
from ...machine_code.opcodes import SASS_CLASSES
from ...program.instruction import BasicBlock, Instruction
from .executed_regions import Graph

_INTEGERS = ("s16", "u16", "s32", "u32", "s64", "u64")
_WIDTHS = (1, 2, 4, 8, 16, 32)
ACCESS_CLASSES = ("global_load", "global_store", "shared_load", "shared_store", "async_copy")
ACCESS_KEYS: tuple[tuple[str, int], ...] = tuple((name, width) for name in ACCESS_CLASSES for width in _WIDTHS)
"""Class and width of the memory accesses whose number PTX and machine code must agree in."""
_OTHER_CLASSES = ("global_reduction", "atomics", "barriers", "shuffles", "fp32_fma", "special_function", "tensor")
FEATURES: tuple[tuple[str, int | None], ...] = (*ACCESS_KEYS, *((name, None) for name in _OTHER_CLASSES))
"""Class and access width (None: any) of the columns of a graph's features."""


def machine_graph(profile: CodeProfile, decoded: Instructions, flow: ControlFlow) -> Graph:
    """Graph of the kernel's machine code; called procedures are no part of it."""
    block_of = flow.block_of_instruction()
    live = ~decoded.never
    features = np.zeros((len(flow), len(FEATURES)), dtype=np.int64)
    for column, (name, width) in enumerate(FEATURES):
        counted = live & (decoded.class_index == SASS_CLASSES.index(name))
        if width is not None:
            counted = counted & (decoded.width_bytes == width)
        features[:, column] = np.bincount(block_of[counted], minlength=len(flow))
    leaving = decoded.is_mnemonic("EXIT", "RET", "KILL")[flow.stop - 1]
    return Graph(edges=flow.edges, exits=tuple(np.flatnonzero(leaving).tolist()), features=features)


def ptx_graph(blocks: tuple[BasicBlock, ...]) -> Graph:
    """Graph of the kernel's PTX."""
    end = len(blocks)
    features = np.zeros((end, len(FEATURES)), dtype=np.int64)
    columns = {feature: column for column, feature in enumerate(FEATURES)}
    for block in blocks:
        for instruction in block.instructions:
            name, width = classify(instruction.opcode)
            if name == "async_copy":
                width = int(instruction.operand(2))
            column = columns.get((name, width), columns.get((name, None)))
            if column is not None:
                features[block.index, column] += 1
    return Graph(
        edges=tuple((block.index, after) for block in blocks for after in block.successors if after != end),
        exits=tuple(block.index for block in blocks if end in block.successors),
        features=features,
    )


def comparable(machine: Graph, ptx: Graph, blocks: tuple[BasicBlock, ...]) -> tuple[Graph, Graph]:
    """The graphs without special functions where PTX divides integers: the machine code's reciprocals are no PTX instructions."""
    if not any(_divides_integers(instruction) for block in blocks for instruction in block.instructions):
        return machine, ptx
    kept = np.array([name != "special_function" for name, _ in FEATURES], dtype=np.int64)
    return replace(machine, features=machine.features * kept), replace(ptx, features=ptx.features * kept)


def _divides_integers(instruction: Instruction) -> bool:
    return instruction.name in ("div", "rem") and instruction.parts[-1] in _INTEGERS


def amounts(features: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes of each class of access and numbers of what has no width: the assembler joins accesses to wider ones.

    >>> features = np.zeros(len(FEATURES), np.int64)
    >>> features[[FEATURES.index(("shared_load", 4)), FEATURES.index(("shared_load", 16))]] = 16, 4
    >>> int(amounts(features)[ACCESS_CLASSES.index("shared_load")])
    128
    """
    accesses = features[: len(ACCESS_KEYS)].reshape(len(ACCESS_CLASSES), len(_WIDTHS)) @ np.array(_WIDTHS)
    return np.concatenate([accesses, features[len(ACCESS_KEYS) :]])


def accesses(features: NDArray[np.int64]) -> bool:
    """Whether memory is accessed."""
    return bool(features[: len(ACCESS_KEYS)].any())


def executed_features(graph: Graph, executions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Executed number of each feature, given how often every block is executed."""
    total: NDArray[np.float64] = executions @ graph.features
    return total
