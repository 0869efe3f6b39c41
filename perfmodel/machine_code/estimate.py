"""Instruction mix and loops of a kernel from its PTX, for code that is not decoded (before sm_70).

PTX is not what runs: registers are not assigned, address arithmetic and selections are lowered differently,
constants fold into operands. The mix is therefore an estimate, and whoever uses it says so.
"""

from __future__ import annotations

import re
from collections import Counter

from .loops import Loop

_STATEMENT = re.compile(r"^\s*(?:@!?%?\w+\s+)?([a-z][\w.:]*)", re.MULTILINE)
_LABEL = re.compile(r"^\s*(\$?\w+):\s*$")
_BRANCH = re.compile(r"^\s*(?:@!?%?\w+\s+)?bra(?:\.uni)?\s+(\$?\w+)")
_BITS = re.compile(r"[busf](\d+)$")
_SPACES = {
    "global": ("global_load", "global_store"),
    "shared": ("shared_load", "shared_store"),
    "local": ("local_load", "local_store"),
}
_BY_OPERATION = {
    "bra": "control", "brx": "control", "ret": "control", "exit": "control", "call": "control", "trap": "control",
    "membar": "control", "fence": "control", "nanosleep": "control", "prefetch": "control",
    "bar": "barriers", "barrier": "barriers", "shfl": "shuffles", "vote": "votes", "match": "votes", "activemask":
    "votes", "ex2": "special_function", "lg2": "special_function", "sin": "special_function", "cos": "special_function",
    "rcp": "special_function", "rsqrt": "special_function", "sqrt": "special_function", "tanh": "special_function",
    "cvt": "conversion", "mma": "tensor", "wmma": "tensor", "ldmatrix": "shared_load",
}  # fmt: skip
_FREE = ("cvta", "ld.param", "mov.u32", "mov.b32", "mov.f32", "mov.u64", "mov.b64", "mov.pred")


def estimate_mix(ptx: str) -> tuple[tuple[str, int, int], ...]:
    """Class, access width in bytes and number of instructions for each class and width that occurs in the PTX text.

    Loads of kernel parameters and moves between registers are not counted, for the compiler makes operands of them.

    >>> estimate_mix("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1];" + chr(10) + "fma.rn.f32 %f5, %f1, %f2, %f3;")
    (('fp32_fma', 0, 1), ('global_load', 16, 1))
    """
    mix: Counter[tuple[str, int]] = Counter()
    for match in _STATEMENT.finditer(ptx):
        name = match[1]
        if not name.startswith(_FREE):
            mix[classify(name)] += 1
    return tuple(sorted((name, width, number) for (name, width), number in mix.items()))


def classify(name: str) -> tuple[str, int]:
    """Class of ``SASS_CLASSES`` and access width in bytes (0: no memory access) of a PTX opcode with its modifiers.

    >>> classify("ld.shared.v2.f32")
    ('shared_load', 8)
    """
    operation, *modifiers = name.split(".")
    kind = modifiers[-1] if modifiers else ""
    if operation in ("ld", "ldu", "st"):
        return _memory_class(operation, modifiers)
    if operation in ("atom", "red"):
        return ("atomics", 0) if "shared" in modifiers else ("global_reduction", _bytes(kind))
    if operation == "cp" and modifiers[:1] == ["async"]:
        return ("control" if {"commit_group", "wait_group", "wait_all"} & set(modifiers) else "async_copy"), 0
    if operation == "bar" and modifiers[:1] == ["warp"]:
        return "control", 0
    if operation in _BY_OPERATION:
        return _BY_OPERATION[operation], 0
    if kind == "f32":
        return ("fp32_fma" if operation in ("fma", "mad") else "fp32_other"), 0
    if kind == "f64":
        return "fp64", 0
    return ("fp16" if kind.startswith(("f16", "bf16")) else "integer"), 0


def _memory_class(operation: str, modifiers: list[str]) -> tuple[str, int]:
    if "param" in modifiers:
        return "integer", 0
    if "const" in modifiers:
        return "constant_load", _bytes(modifiers[-1])
    lanes = next((int(m[1]) for m in modifiers if m in ("v2", "v4")), 1)
    space = next((m for m in modifiers if m in _SPACES), "global")
    return _SPACES[space][operation == "st"], lanes * _bytes(modifiers[-1])


def _bytes(kind: str) -> int:
    bits = _BITS.search(kind)
    return int(bits[1]) // 8 if bits else 4


def estimate_loops(ptx: str, code_bytes: int) -> tuple[Loop, ...]:
    """Loops by backward branches of the PTX text, sized by their share of its instructions; blocks are line numbers."""
    lines = ptx.splitlines()
    counted = [bool(_STATEMENT.match(line)) for line in lines]
    labels = {match[1]: number for number, line in enumerate(lines) if (match := _LABEL.match(line))}
    latches: dict[int, int] = {}
    for number, line in enumerate(lines):
        match = _BRANCH.match(line)
        if match and labels.get(match[1], number) < number:
            latches[labels[match[1]]] = number
    total = max(sum(counted), 1)
    headers = sorted(latches)
    loops = []
    for header in headers:
        around = [h for h in headers if h < header and latches[h] >= latches[header]]
        loops.append(
            Loop(
                header=header,
                blocks=(header,),
                latches=(latches[header],),
                parent=headers.index(around[-1]) if around else None,
                depth=len(around) + 1,
                code_bytes=round(code_bytes * sum(counted[header : latches[header] + 1]) / total),
            )
        )
    return tuple(loops)
