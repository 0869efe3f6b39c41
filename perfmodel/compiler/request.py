"""What is to be compiled: source, kernel, macros and options, as one value that can be hashed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from ..gpus.catalogue import load_architecture

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """One kernel of one source under one set of macros.

    ``kernel`` is a plain ``extern "C"`` name or a name expression such as ``conv<5,2>``. ``defines`` become
    ``-DNAME=VALUE`` in the given order; ``options`` are further NVRTC options; ``file_name`` is what messages and line
    information call the source; ``include_directories`` are searched for ``#include "…"``. ``architecture_specific``
    asks for a front-end run of its own for each target, even where the source does not look at ``__CUDA_ARCH__``.
    """

    source: str
    kernel: str
    file_name: str
    defines: tuple[tuple[str, str | int], ...] = ()
    options: tuple[str, ...] = ()
    include_directories: tuple[str, ...] = ()
    architecture_specific: bool = False

    def included_sources(self) -> tuple[str, ...]:
        """Texts of the files of ``include_directories`` that the source includes, transitively, in order of discovery.

        ``#include "…"`` looks beside the file that includes first. Files of the CUDA headers are left out: the compiler's
        version stands for them.
        """
        seen: dict[Path, str] = {}
        searched = tuple(Path(directory) for directory in self.include_directories)
        pending: list[tuple[str, tuple[Path, ...]]] = [(self.source, ())]
        while pending:
            text, beside = pending.pop()
            for quoted, angled in _INCLUDE.findall(text):
                folders = (*beside, *searched) if quoted else searched
                path = next((p for folder in folders if (p := folder / (quoted or angled)).is_file()), None)
                if path is not None and path not in seen:
                    seen[path] = _read(path)
                    pending.append((seen[path], (path.parent,)))
        return tuple(seen.values())

    def virtual_architecture(self, architecture: str) -> str:
        """The PTX target that the front end compiles for when ``architecture`` (``sm_86``) is asked about.

        A source that looks at neither ``__CUDA_ARCH__`` nor a CUDA header gives the same PTX for many targets, so that one
        front-end run serves them (`Architecture.ptx_target`).

        >>> CompileRequest(source="", kernel="k", file_name="k.cu").virtual_architecture("sm_86")
        'compute_60'
        """
        target = load_architecture(architecture)
        texts = (self.source, *self.included_sources())
        specific = self.architecture_specific or any("__CUDA_ARCH__" in t or "#include <" in t for t in texts)
        if specific:
            return "compute_{}{}".format(*target.compute_capability)
        return target.ptx_target


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"included file {path}: {error}") from error
