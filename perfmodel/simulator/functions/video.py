"""Arithmetic on the halves or bytes of words (PTX ISA 9.7.15)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Elements = NDArray[np.int64]

_FUNCTIONS: dict[str, Callable[[Elements, Elements], Elements]] = {
    "add": np.add,
    "sub": np.subtract,
    "avrg": lambda a, b: (a + b + 1) >> 1,
    "absdiff": lambda a, b: np.abs(a - b),
    "min": np.minimum,
    "max": np.maximum,
}


def element(words: Words, place: int, bits: int, signed: bool) -> Elements:
    """Value of one element of a word.

    >>> int(element(np.array([0xFF00], np.uint32), 1, 8, True)[0])
    -1
    """
    value = (words.astype(np.int64) >> (place * bits)) & ((1 << bits) - 1)
    return np.where(value >= 1 << (bits - 1), value - (1 << bits), value) if signed else value


def simd_word(
    operation: str,
    count: int,
    signed: bool,
    a_signed: bool,
    b_signed: bool,
    last: str | None,
    a: Words,
    b: Words,
    c: Words,
) -> Words:
    """Results of all elements, packed; saturated with ``.sat``, summed into ``c`` with ``.add``.

    >>> words = [np.array([v], np.uint32) for v in (0x01020304, 0x04030201, 100)]
    >>> int(simd_word("absdiff", 4, False, False, False, ".add", *words)[0])
    108
    """
    bits = 32 // count
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    results: list[NDArray[Any]] = []
    for place in range(count):
        value = _FUNCTIONS[operation](element(a, place, bits, a_signed), element(b, place, bits, b_signed))
        results.append(np.clip(value, low, high) if last == ".sat" else value)
    if last == ".add":
        total: NDArray[np.int64] = c.astype(np.int64)
        for value in results:
            total = total + value
        return (total & 0xFFFFFFFF).astype(np.uint32)
    word = np.zeros(results[0].shape, np.int64)
    for place, value in enumerate(results):
        word = word | ((value & ((1 << bits) - 1)) << (place * bits))
    return word.astype(np.uint32)
