"""Options without which a source does not compile, and names that CUDA 13 no longer has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

OLD_NAMES = ("-DcudaThreadSynchronize=cudaDeviceSynchronize", "-DcudaThreadExit=cudaDeviceReset")
"""Names that CUDA 13 no longer has."""
_OF_THRUST = re.compile(r"error\b.*\n.*\bthrust::|\bthrust\b.* has no member")
_OLD_HEADERS = ("thrust/tuple.h", "thrust/distance.h", "thrust/advance.h", "iostream")
"""What Thrust's headers of CUDA 12 included and those of CUDA 13 do not."""
_OLDER = (
    (
        Path(__file__).with_name("older_cub.cuh"),
        re.compile(
            r'namespace "cub" has no (?:actual )?member (?:class )?"(?:Max|Min|Sum|Difference|Division|Equality|Inequality'
            r'|(?:Constant|Counting|Transform)InputIterator|DiscardOutputIterator)"'
        ),
    ),
    (
        Path(__file__).with_name("older_thrust.cuh"),
        re.compile(r'namespace "thrust" has no (?:actual )?member (?:class )?"(?:identity|(?:un|bin)ary_function)"'),
    ),
)
"""Names that CUB and Thrust had until CUDA 12, and what the compiler says where they are used."""
_NEWER = re.compile(
    r"^\s*#\s*include\s*<(?:barrier|bit|compare|concepts|coroutine|format|latch|numbers|ranges|semaphore|source_location|span|version)>"
    r"|\brequires\b|\bconcept\b|\bconsteval\b|\bconstinit\b|\bco_await\b|<=>|\bstd::(?:bit_cast|remove_cvref_t|type_identity_t)\b"
    r"|\[\]\s*<\s*(?:typename|class|int|auto)\b",
    re.MULTILINE,
)
"""What C++20 brought, and nvcc's default of C++17 does not take."""
_APART = re.compile(r"Unresolved extern (?:function|variable)")
SEPARATE = ("-rdc=true", "--relocatable-device-code=true", "-dc")
"""Options that compile the device code of each file apart."""


def macro_options(defines: Sequence[tuple[str, str | int]]) -> list[str]:
    r"""Options that define macros.

    >>> macro_options([("N", 4), ("TYPE", "pair<int,int>")])
    ['-DN=4', '-DTYPE=pair<int\\,int>']
    """
    return [
        "-D{}={}".format(name, str(value).replace(",", "\\,")) for name, value in defines
    ]  # a comma would end the value


def is_in_other_file(output: str) -> bool:
    """Whether device code of a file uses what another one defines."""
    return _APART.search(output) is not None


def further_options(output: str, sources: Iterable[str], options: Sequence[str]) -> list[list[str]]:
    """Options to try after an error, in order; none where nothing speaks for one.

    Args:
        output: what the compiler printed.
        sources: texts of the files that are compiled.
        options: what it was called with.

    >>> further_options("k.cu(1): error: qualified name is not allowed" + chr(10) + "  thrust::tuple<float, float> f()", [""], [])
    [['-include', 'thrust/tuple.h', '-include', 'thrust/distance.h', '-include', 'thrust/advance.h', '-include', 'iostream']]
    >>> further_options("k.cu(2): error: expected a type", ["#include <concepts>"], [])
    [['-std=c++20']]
    """
    found: list[list[str]] = []
    if not any(option.startswith(("-std", "--std")) for option in options) and any(map(_NEWER.search, sources)):
        found.append(["-std=c++20"])
    if _OF_THRUST.search(output):
        found.append([word for header in _OLD_HEADERS for word in ("-include", header)])
    older = [word for header, missed in _OLDER if missed.search(output) for word in ("-include", str(header))]
    return [*found, older] if older else found
