"""Operations on drawn operands, executed as machine code or as PTX and compared with the oracle.

Run as a module for more of them: ``python -m tests.perfmodel.machine_code.drawn --examples 200``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.totals import counted_run
from perfmodel.simulator.execution import Code

from .arithmetic import NAN, is_nan, number
from .differential import compiled
from .operations import GROUPS, Operation, operations, source_of

LANES = 32
UNIFORM_LAUNCHES = 6
"""Launches of a kernel whose numbers are its parameters: each has one triple."""
Triple = tuple[int, int, int]

_WORDS = (
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    63,
    64,
    65,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    2**31 - 1,
    2**31,
    2**32 - 1,
)
_HALVES = (
    0,
    0x8000,
    1,
    0x3FF,
    0x400,
    0x3C00,
    0x3C01,
    0xBC00,
    0x7BFF,
    0xFBFF,
    0x7C00,
    0xFC00,
    0x7E00,
    0x3F80,
    0x7F80,
    0xFF7F,
    0x7FC1,
)
_SINGLES = (
    *(
        0,
        1 << 31,
        1,
        0x7FFFFF,
        0x807FFFFF,
        0x800000,
        0x800001,
        0x3F800000,
        0x3F800001,
        0xBF800000,
        0x3F000000,
        0x40400000,
    ),
    *(
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7F800000,
        0xFF800000,
        0x7FC00000,
        0x7F800001,
        0xFFFFFFFF,
        0x4F000000,
        0x5F000000,
        0x1F800000,
    ),
    *(
        0x4B000001,
        0xCB000001,
        0x4EFFFFFF,
        0xCF000000,
        0x477FE000,
        0x477FF000,
        0x33000000,
        0x33000001,
        0x38800000,
        0x43700000,
    ),
)
_DOUBLES = (
    *(0, 1 << 63, 1, 0xFFFFFFFFFFFFF, 0x10000000000000, 0x3FF0000000000000, 0x3FF0000000000001, 0xBFF0000000000000),
    *(0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF0000000000001),
    *(
        0x41DFFFFFFFE00000,
        0x41E0000000000000,
        0xC1E0000000100000,
        0x43E0000000000000,
        0x43F0000000000000,
        0x47EFFFFFE0000000,
    ),
    *(
        0x36A0000000000000,
        0x3810000000000000,
        0x380FFFFFF0000000,
        0x3FF0000010000000,
        0x3FE0000000000000,
        0x40EFFE0000000000,
    ),
)


def numbers(group: str) -> st.SearchStrategy[int]:
    """Numbers of 64 bits whose lower 32 and 16 bits are edge cases, too."""
    word = st.one_of(st.sampled_from(_WORDS), st.integers(0, 2**32 - 1))
    half = st.one_of(st.sampled_from(_HALVES), st.integers(0, 2**16 - 1))
    single = st.one_of(st.sampled_from(_SINGLES), st.integers(0, 2**32 - 1), st.integers(0x3F000000, 0x42000000))
    double = st.one_of(st.sampled_from(_DOUBLES), st.integers(0, 2**64 - 1), st.integers(0x3FE << 52, 0x402 << 52))
    pair = st.tuples(half, half).map(lambda halves: halves[0] | halves[1] << 16)
    low = {"integers": word, "singles": single, "halves": pair}.get(group)
    if group == "others":
        return st.tuples(single, single).map(lambda pair: pair[0] | pair[1] << 32)
    if low is not None:
        return low
    wide = st.tuples(word, word).map(lambda words: words[0] | words[1] << 32)
    if group == "long integers":
        return st.one_of(wide, st.sampled_from((2**63 - 1, 2**63, 2**64 - 1)), word)
    if group == "doubles":
        return double
    return st.one_of(single, double, wide, half)


def triples(group: str) -> st.SearchStrategy[list[Triple]]:
    """Numbers for the lanes of a launch; some lanes have two alike."""
    one = numbers(group)
    drawn = st.tuples(one, one, one, st.integers(0, 7)).map(
        lambda found: (found[0], found[0] if found[3] == 0 else found[1], found[1] if found[3] == 1 else found[2])
    )
    return st.lists(drawn, min_size=LANES, max_size=LANES)


@cache
def source(
    group: str, architecture: str, *, guarded: bool = False, uniform: bool = False, ptx: bool = False
) -> tuple[tuple[Operation, ...], str]:
    """Operations and the program that computes them; of PTX those that its execution does not refuse."""
    found = operations(group, int(architecture.removeprefix("sm_")))
    if ptx:
        found = tuple(o for o in found if not any(word in o.code for word in REFUSED_AS_PTX))
    return found, source_of(found, guarded, uniform)


def computed(
    group: str,
    architecture: str,
    drawn: list[Triple],
    *,
    guarded: bool = False,
    uniform: bool = False,
    ptx: bool = False,
) -> NDArray[np.uint64]:
    """What machine code or PTX gives, shape ``(operations, lanes)``."""
    found, text = source(group, architecture, guarded=guarded, uniform=uniform, ptx=ptx)
    kernel, module, machine_code = compiled(text, architecture)
    code = module.kernel(kernel.kernel_name) if ptx else machine_code
    if uniform:
        alone = [_run(code, len(found), 1, tuple(map(np.uint64, numbers))) for numbers in drawn[:UNIFORM_LAUNCHES]]
        return np.concatenate(alone, axis=1)
    return _run(code, len(found), LANES, (Buffer(name="n", array=np.array(drawn, np.uint64).reshape(-1)),))


def _run(code: Code, count: int, lanes: int, numbers: tuple[Any, ...]) -> NDArray[np.uint64]:
    out = Buffer(name="out", array=np.zeros(count * lanes, np.uint64), output=True)
    run = counted_run(code, Launch(grid_x=1, block_x=lanes), KernelCall(parameters=(out, *numbers)))
    return run.outputs["out"].reshape(count, lanes)


def mistakes(
    found: tuple[Operation, ...], drawn: list[Triple], results: NDArray[np.uint64], guarded: bool
) -> Iterator[str]:
    """Results that are not what PTX defines, in words."""
    for operation, row in zip(found, results.tolist(), strict=True):
        for (x, y, z), bits in zip(drawn[: len(row)], row, strict=True):
            if guarded and not x & 1:
                expected: int | str | None = z % (1 << operation.bits)
                right = bits == expected
            else:
                expected = operation.oracle(x, y, z)
                right = _agrees(operation, expected, bits)
            if not right:
                shown = expected if isinstance(expected, str | None) else hex(expected % (1 << operation.bits))
                yield f"{operation.code} of {x:#x}, {y:#x}, {z:#x}: {bits:#x}, not {shown}"


def _agrees(operation: Operation, expected: int | str | None, bits: int) -> bool:
    if expected is None:
        return True
    if not operation.forms:
        return expected == NAN or int(expected) % (1 << operation.bits) == bits
    if isinstance(expected, str):
        return is_nan(number(bits, operation.forms[0]))
    if len(operation.forms) == 1 and operation.tolerance:
        a, b = (float(number(v, operation.forms[0])) for v in (expected, bits))
        return a == b or abs(a - b) <= operation.tolerance * max(abs(a), 2.0**-20)
    shift = 0
    for form in operation.forms:
        mask = (1 << form.bits) - 1
        a, b = expected >> shift & mask, bits >> shift & mask
        both_nan = is_nan(number(a, form)) and is_nan(number(b, form))
        if a != b and not both_nan:
            return False
        shift += form.bits
    return bits >> shift == 0 or operation.bits < shift


MISPRINTED = ("sm_75", "sm_80", "sm_86", "sm_89")
"""Architectures for which nvdisasm prints a constant operand of ``SGXT`` as one of a bank that there is not."""
VARIANTS: dict[str, dict[str, bool]] = {
    "sm_75": {},
    "sm_90": {"guarded": True},
    "sm_100": {"uniform": True},
    "sm_120": {},
}
"""How operations are compiled for each architecture: plainly, under a predicate, or on values that all lanes share."""
REFUSED_AS_PTX = ("vabsdiff", "e4m3", "e5m2", "tf32")
"""Words of operations that are executed as machine code alone."""


def check(
    group: str,
    architecture: str,
    examples: int,
    *,
    guarded: bool = False,
    uniform: bool = False,
    ptx: bool = False,
) -> None:
    """Draw operands and fail with the first mistakes; a launch has some dozens of lanes, so nothing is shrunk."""
    found, _ = source(group, architecture, guarded=guarded, uniform=uniform, ptx=ptx)

    @given(drawn=triples(group))
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(drawn: list[Triple]) -> None:
        results = computed(group, architecture, drawn, guarded=guarded, uniform=uniform, ptx=ptx)
        wrong = list(mistakes(found, drawn, results, guarded))
        assert not wrong, f"{len(wrong)} mistakes on {architecture}:\n" + "\n".join(wrong[:10])

    holds()


def main() -> None:
    """Draw many operands for every architecture and variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=100, help="launches of each group, architecture and variant")
    given_options = parser.parse_args()
    for architecture in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"):
        for group in GROUPS:
            for variant in ({}, {"guarded": True}, {"uniform": True}, {"ptx": True}):
                if variant.get("uniform") and architecture in MISPRINTED:
                    continue
                check(group, architecture, given_options.examples, **variant)
        print(f"{architecture}: every operation gave what PTX defines")


if __name__ == "__main__":
    main()
