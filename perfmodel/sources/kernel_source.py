"""What a user brings: a CUDA C++ file or text, PTX, or a binary with device code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ..core.files import require_regular
from ..errors import InputError
from .grid_barrier import with_grid_barrier
from .includes import included_files, read_text
from .project_headers import headers_note, project_folders

_BINARIES = (b"\x7fELF", b"\x50\xed\x55\xba", b"!<arch>\n")
"""How ELF files, fat binaries and static libraries begin."""
_PTX = re.compile(r"(?>\s+|//[^\n]*+|/\*.*?\*/)*+\.version\b", re.DOTALL)
_TEXT_NAMES = {False: "source.cu", True: "source.ptx"}
_FENCE = re.compile(r"\s*(```[^\n]*)")
"""How a text begins that was copied with the Markdown around it."""


class SourceKind(Enum):
    """Which compiler a source needs.

    ``DEVICE_CODE`` is CUDA C++ without host code and without a file, as the kernels of this package are; ``CUDA_FILE`` may hold
    host code and includes whatever its author's compiler finds; ``BINARY`` is a cubin, a fat binary, an object, a library or a
    program.
    """

    DEVICE_CODE = "device code"
    CUDA_FILE = "CUDA C++ file"
    PTX = "PTX"
    BINARY = "binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """A source before it is known which of its kernels is asked about.

    ``file_name`` is what messages call it; ``path`` is None for a text without a file; ``include`` are folders of headers;
    ``text`` is empty for a binary, whose bytes are ``content``; ``note`` is what
    users should know, or empty.
    """

    kind: SourceKind
    file_name: str
    text: str
    path: Path | None = None
    include: tuple[Path, ...] = ()
    content: bytes = b""
    note: str = ""

    def texts(self) -> tuple[str, ...]:
        """The text and those of the user's headers that it includes."""
        folder = None if self.path is None else self.path.parent
        return (self.text, *included_files(self.text, folder, self.include).values())


def read_kernel_source(source: str | Path, include: Sequence[str | Path] = ()) -> KernelSource:
    """The source that a user names.

    Args:
        source: path of a CUDA C++ file, a PTX file or a binary; a string with a line break or the word ``__global__`` is the
            source itself.
        include: folders of the user's headers.

    Raises:
        InputError: a file or folder cannot be read, or the file begins with Markdown.

    >>> read_kernel_source("__global__ void k(float *x) { x[0] = 1.0f; }").kind
    <SourceKind.CUDA_FILE: 'CUDA C++ file'>
    """
    folders = tuple(Path(folder).absolute() for folder in include)
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"include folder {folder} does not exist")
    if isinstance(source, str) and is_source_text(source):
        kind = _kind(source)
        return KernelSource(kind=kind, file_name=_TEXT_NAMES[kind is SourceKind.PTX], text=source, include=folders)
    path = Path(source).absolute()
    try:
        require_regular(path)
        with path.open("rb") as stream:
            content = stream.read(max(map(len, _BINARIES)))
            if content.startswith(_BINARIES):
                content += stream.read()
                return KernelSource(
                    kind=SourceKind.BINARY, file_name=path.name, text="", path=path, include=folders, content=content
                )
    except OSError as error:
        raise InputError(f"source {source}: {error.strerror or error}") from error
    text = read_text(path)
    fence = _FENCE.match(text)
    if fence is not None:
        line = fence[0].count("\n") + 1
        raise InputError(
            f"{path.name}:{line}: Markdown around the code ({fence[1]}); delete the lines that begin with ```"
        )
    kind = _kind(text)
    if path.suffix == ".ptx" and kind is not SourceKind.PTX:
        raise InputError(f"source {source} is no PTX: it does not begin with .version")
    more = project_folders(text, path.parent, folders) if kind is SourceKind.CUDA_FILE else ()
    text = with_grid_barrier(text) if kind is SourceKind.PTX else text
    return KernelSource(
        kind=kind,
        file_name=path.name,
        text=text,
        path=path,
        include=(*folders, *more),
        note=headers_note(more, path.parent),
    )


def is_source_text(source: str) -> bool:
    """Whether a string is a source itself and not the path of a file."""
    return "\n" in source or "__global__" in source


def _kind(text: str) -> SourceKind:
    """PTX begins with its version, after comments at most."""
    return SourceKind.PTX if _PTX.match(text) else SourceKind.CUDA_FILE
