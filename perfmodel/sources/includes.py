"""Texts of the headers that a source includes, as far as they are the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ..core.files import require_regular
from ..errors import InputError

_OF_A_TOOLKIT = re.compile(
    r"[^.]*$|(?:cub|thrust|cuda|nv|cooperative_groups|sys|crt|cute|cutlass)/|mma\.h|vector_\w+\.h"
    r"|cu(?:blas|dnn|dss|fft|file|pti|rand|solver|sparse|tensor|Complex)\w*\.h"
    r"|cuda(?:(?:GL|EGL|VDPAU|Profiler|Typedefs|_(?:bf16|fp\d|runtime|pipeline|d3d|egl|gl|vdpau|device_runtime))\w*"
    r"|_occupancy|_profiler_api|_stdint|_\w+_types)?\.h"
)
CUDA_SUFFIXES = (".cu", ".cuh")
"""How names of CUDA C++ files end."""
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

_BACKSLASHED = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*["<][^">\n]*\\[^">\n]*[">]""", re.MULTILINE)


def included_files(text: str, folder: Path | None, directories: Sequence[Path]) -> dict[Path, str]:
    """Text of every file that a source includes, directly or not, by path, in order of discovery.

    ``#include "…"`` looks beside the file that includes first (``folder`` for the source itself). Conditions are ignored: a file
    that only some macro includes is listed too. Headers of CUDA and of the C++ library are found in none of the folders.
    """
    return _included(text, folder, directories)[0]


def headers_not_found(text: str, folder: Path, directories: Sequence[Path]) -> tuple[str, ...]:
    """Names of the project's headers that a source includes and that are in none of the folders, in order.

    What stands in ``<>`` counts where it cannot be a header of the C++ library or of CUDA.
    """
    return _included(text, folder, directories)[1]


def _included(text: str, folder: Path | None, directories: Sequence[Path]) -> tuple[dict[Path, str], tuple[str, ...]]:
    """Texts of the files that are found, and names of those that are not."""
    seen: dict[Path, str] = {}
    missing: list[str] = []
    pending: list[tuple[str, Path | None]] = [(text, folder)]
    while pending:
        current, beside = pending.pop()
        for quoted, angled in _names_of(current):
            folders = directories if beside is None or not quoted else (beside, *directories)
            path = next((p for folder in folders if (p := _plain(folder / (quoted or angled))) is not None), None)
            if path is None:
                missing += [quoted or angled] if quoted or not _OF_A_TOOLKIT.match(angled) else []
            elif path not in seen:
                seen[path] = read_text(path)
                pending.append((seen[path], path.parent))
    return seen, tuple(dict.fromkeys(missing))


@lru_cache(maxsize=256)  # each configuration of a kernel asks about the same text
def _names_of(text: str) -> tuple[tuple[str, str], ...]:
    """What stands in quotes and what in ``<>`` of each include of a text."""
    return tuple(_INCLUDE.findall(with_slashes(text)))


def with_slashes(text: str) -> str:
    r"""The text of a source whose includes name folders as Windows does, as other systems name them.

    >>> with_slashes('#include "util\\math.cuh"')
    '#include "util/math.cuh"'
    """
    return _BACKSLASHED.sub(lambda include: include[0].replace("\\", "/"), text) if "\\" in text else text


def _plain(path: Path) -> Path | None:
    """The path of a file without ``..``, so that headers that include each other have one name; None where there is none."""
    plain = os.path.normpath(path)
    return Path(plain) if os.path.isfile(plain) else path if os.path.isfile(path) else None


def including_files(path: Path) -> dict[Path, str]:
    """Texts of the sources beside a file, or in the folder above, that include it, by path; those that nvcc compiles first."""
    beside = [other for folder in (path.parent, path.parent.parent) for other in sorted(folder.glob("*.c*"))]
    found = {}
    for other in beside:
        if other.suffix not in CUDA_SUFFIXES or other == path or not other.is_file():
            continue
        try:
            text = read_text(other)
            included = included_files(text, other.parent, ())
        except InputError:  # whatever lies there, and whatever it includes, is not this file's matter
            continue
        if path.resolve() in {p.resolve() for p in included}:
            found[other] = text
    return dict(sorted(found.items(), key=lambda item: CUDA_SUFFIXES.index(item[0].suffix)))


def read_text(path: Path) -> str:
    """The text of a source file, whatever the encoding of its comments; ``InputError`` where it is none or cannot be read."""
    try:
        require_regular(path)
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"source {path}: {error.strerror or error}") from error
    if "\0" in text:
        raise InputError(
            f"source {path} is no text (it has zero bytes), and no cubin, fat binary, object, library or program"
        )
    return text
