"""Include directives of a user's file: own headers are put in place, CUDA's stay, those of the host are blanked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from ..compiler.toolchain import header_directories
from ..errors import InputError

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*', re.MULTILINE)
_COMMENT_OR_INCLUDE = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' + _INCLUDE.pattern, re.MULTILINE | re.DOTALL
)
_PRAGMA_ONCE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once[ \t]*$", re.MULTILINE)
_HOST_HEADERS = re.compile(
    r"cuda\.h|cuda_runtime(?:_api)?\.h|cuda_profiler_api\.h|cudaProfiler\.h|device_launch_parameters\.h|device_functions\.h"
    r"|cuda_(?:gl|egl|vdpau)_interop\.h|nvrtc\.h|driver_functions\.h|thrust/.*|nvtx3/.*|helper_(?:cuda|functions|string|timer)\.h"
)
"""Headers whose device part the compiler knows by itself, or that only host code needs."""
_STANDARD_NAMESPACE = frozenset(
    {"algorithm", "array", "complex", "functional", "initializer_list", "limits", "optional", "tuple", "type_traits"}
    | {"utility", "cmath", "cstddef", "cstdint", "iterator", "memory"}
)
"""Stand-ins that fill the namespace ``std``; left out where device code does not name it, because they cost time."""
_NAMES_STD = re.compile(r"(?<!cuda::)\bstd::|\busing\s+(?:namespace\s+)?std\b")
IMPLICIT_HEADER = "perfmodel_implicit.h"
_MAX_DEPTH = 64


def stand_in_directory() -> Path:
    """Folder of the stand-ins for headers of the C and C++ library."""
    return Path(str(files("perfmodel.sources.headers")))


@dataclass(slots=True)
class _Inliner:
    directories: Sequence[Path]
    once: set[Path] = field(default_factory=set)

    def inlined(self, source: str, file_name: str, folder: Path | None, depth: int) -> str:
        if depth > _MAX_DEPTH:
            raise InputError(f"{file_name}: includes are nested deeper than {_MAX_DEPTH}")
        own = () if folder is None else (folder,)

        def replaced(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0]
            quoted = match[2] is not None
            name = match[2] or match[3]
            found = _found(name, (*(own if quoted else ()), *self.directories))
            if found is None:
                return match[0] if _known(name) or (quoted and not _HOST_HEADERS.fullmatch(name)) else ""
            line = source.count("\n", 0, match.start()) + 1
            return self._header(found, depth) + f'\n#line {line + 1} "{file_name}"'

        return _COMMENT_OR_INCLUDE.sub(replaced, source)

    def _header(self, path: Path, depth: int) -> str:
        resolved = path.resolve()
        if resolved in self.once:
            return ""
        text = read_source(path)
        if _PRAGMA_ONCE.search(text):
            self.once.add(resolved)
            text = _PRAGMA_ONCE.sub("", text)
        body = self.inlined(text, path.name, path.parent, depth + 1)
        return f'#line 1 "{path.name}"\n{body}'


def _found(name: str, directories: Sequence[Path]) -> Path | None:
    return next((path for folder in directories if (path := folder / name).is_file()), None)


def _known(name: str) -> bool:
    """Whether the compiler finds a header among CUDA's or the stand-ins, and it is no host header."""
    if _HOST_HEADERS.fullmatch(name):
        return False
    return _found(name, (*header_directories(), stand_in_directory())) is not None


def inlined_source(source: str, file_name: str, folder: Path | None, directories: Sequence[Path]) -> str:
    """The source with the user's own headers in place, between ``#line`` directives that keep every line's name.

    Args:
        source: text of the file.
        file_name: what messages and line information call it.
        folder: where ``#include "…"`` looks first; None for a text without a file.
        directories: the user's include folders.
    """
    return _Inliner(directories).inlined(_PRAGMA_ONCE.sub("", source), file_name, folder, 0)


def without_unused_standard_headers(device_text: str) -> str:
    """Device code without the includes that only serve the namespace ``std``, where it does not name that namespace."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", device_text, flags=re.DOTALL)
    if _NAMES_STD.search(code):
        return device_text
    return _INCLUDE.sub(lambda m: "" if m[3] in _STANDARD_NAMESPACE else m[0], device_text)


def read_source(path: Path) -> str:
    """The text of a source file, whatever the encoding of its comments; ``InputError`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"source {path}: {error}") from error
