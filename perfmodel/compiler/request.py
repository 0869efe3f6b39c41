"""What is to be compiled: source, kernel, macros and options, as one value that can be hashed."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from ..gpus.catalogue import load_architecture
from ..sources.includes import included_files, including_files, read_text
from ..sources.kernel_source import SourceKind
from ..sources.project_headers import project_folders

_SPECIFIC = re.compile(r"\bwgmma\.|\bsetmaxnreg\.|__CUDA_ARCH_FEAT_SM\d+_ALL|\btcgen05\.")
"""Features of the architecture-specific targets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """One kernel of one source under one set of macros.

    ``kernel`` is a plain ``extern "C"`` name or a name expression such as ``conv<5,2>``. ``defines`` become
    ``-DNAME=VALUE`` in the given order; ``options`` are further options of the compiler; ``file_name`` is what messages and
    line information call the source; ``include_directories`` are searched for ``#include "…"``, as is the folder of ``path``,
    where the source is a file. ``architecture_specific`` asks for a front-end run of its own for each target, even where the
    source does not look at ``__CUDA_ARCH__``. A binary has no source; its bytes are ``content``. ``together`` are further files
    that are compiled as one with a source that is a file: they have bodies of functions that it calls.
    """

    source: str
    kernel: str
    file_name: str
    defines: tuple[tuple[str, str | int], ...] = ()
    options: tuple[str, ...] = ()
    include_directories: tuple[str, ...] = ()
    architecture_specific: bool = False
    kind: SourceKind = SourceKind.DEVICE_CODE
    path: Path | None = None
    content: bytes = b""
    together: tuple[Path, ...] = ()

    def included_files(self) -> dict[Path, str]:
        """Texts of the user's headers that the source includes, transitively, by path, in order of discovery.

        Those of CUDA and of the C++ library are left out: the compiler's version stands for them.
        """
        folder = None if self.path is None else self.path.parent
        return included_files(self.source, folder, [Path(directory) for directory in self.include_directories])

    def included_sources(self) -> tuple[str, ...]:
        """The texts of `included_files`."""
        return tuple(self.included_files().values())

    def decisive_parts(self) -> tuple[object, ...]:
        """What decides the code: texts, kernel, macros, options; the include directories' names do not, their files do."""
        decisive = (self.source, self.included_sources(), self.kernel, self.file_name, self.defines, self.options)
        if self.kind is SourceKind.DEVICE_CODE:
            return decisive
        including = [(whole.source, whole.included_sources()) for whole in including_requests(self)]
        folders = [Path(directory) for directory in self.include_directories]
        for path in self.together:
            text = read_text(path)
            including.append((text, tuple(included_files(text, path.parent, folders).values())))
        return (
            *decisive,
            *([including] if including else []),
            self.kind.value,
            *([hashlib.sha256(self.content).hexdigest()] if self.content else []),
        )

    def target(self, architecture: str) -> str:
        """What the code is assembled for: the architecture, or its specific variant where the source needs that.

        ``wgmma`` and ``setmaxnreg`` are features of ``sm_90a`` alone; PTX names its own target (PTX ISA, ``.target``).

        >>> source = 'asm volatile("wgmma.fence.sync.aligned;");'
        >>> CompileRequest(source=source, kernel="k", file_name="k.cu").target("sm_90")
        'sm_90a'
        """
        if self.kind is SourceKind.PTX:
            return f"{architecture}a" if re.search(rf"\.target\s+{architecture}a\b", self.source) else architecture
        if self.kind is SourceKind.BINARY or not load_architecture(architecture).has_specific_variant:
            return architecture
        texts = (self.source, *self.included_sources())
        return f"{architecture}a" if any(map(_needs_specific_variant, texts)) else architecture

    def virtual_architecture(self, architecture: str) -> str:
        """The PTX target that the front end compiles for when ``architecture`` (``sm_86``) is asked about.

        A source that looks at neither ``__CUDA_ARCH__`` nor a CUDA header gives the same PTX for many targets, so that one
        front-end run serves them (`Architecture.ptx_target`).

        >>> CompileRequest(source="", kernel="k", file_name="k.cu").virtual_architecture("sm_86")
        'compute_60'
        """
        target = load_architecture(architecture)
        if self.kind in (SourceKind.PTX, SourceKind.BINARY):
            return "ptx"  # needs no front end
        suffix = self.target(architecture).removeprefix(architecture)
        if suffix:
            return "compute_{}{}{}".format(*target.compute_capability, suffix)
        texts = (self.source, *self.included_sources())
        specific = self.architecture_specific or self.kind is SourceKind.CUDA_FILE
        specific = specific or any(map(_looks_at_architecture, texts))
        if specific:
            return "compute_{}{}".format(*target.compute_capability)
        return target.ptx_target


@lru_cache(maxsize=256)  # each configuration of a kernel asks about the same text
def _needs_specific_variant(text: str) -> bool:
    return _SPECIFIC.search(text) is not None


@lru_cache(maxsize=256)
def _looks_at_architecture(text: str) -> bool:
    return "__CUDA_ARCH__" in text or "#include <" in text


def digest(*parts: object) -> str:
    """Hash of values that JSON has."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def including_requests(request: CompileRequest) -> tuple[CompileRequest, ...]:
    """Requests for the same kernel of the files that include the request's; a fragment of a program compiles only there."""
    if request.path is None:
        return ()
    given = [Path(folder) for folder in request.include_directories]
    return tuple(
        replace(
            request,
            source=text,
            path=path,
            file_name=path.name,
            include_directories=tuple(map(str, (*given, *project_folders(text, path.parent, given)))),
        )
        for path, text in including_files(request.path).items()
    )
