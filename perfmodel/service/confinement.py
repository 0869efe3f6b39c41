"""What a request may read: files of one folder, and what Python and the compilers consist of."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..compiler.disk_cache import cache_directory
from ..errors import InputError

_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*(?:#|%:|\?\?=)[ \t]*(include|include_next|import|embed)\b[ \t]*([^\n]*)", re.MULTILINE)
_NAME = re.compile(r"\"([^\"\n]+)\"|<([^>\n]+)>")
_OF_THE_SYSTEM = ("/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/etc")
_READS = ("open", "os.listdir", "os.scandir")


def inside(root: Path, name: str) -> Path:
    """The path of a file of the folder.

    Raises:
        InputError: the name leads out of the folder, by itself or by a link.
    """
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"{name!r} is outside the folder that the service may read")
    return path


def require_includes_inside(root: Path, file: Path | None, text: str, folders: Sequence[Path]) -> None:
    """That a source, and whatever headers of the folder it includes, includes nothing from outside.

    What no folder of the user's has is a header of the toolkit or of the C++ library, and its name must not climb.

    Raises:
        InputError: an include leads out of the folder, or is computed by a macro.
    """
    for folder in folders:
        inside(root, str(folder))
    pending: list[tuple[str, Path | None]] = [(text, None if file is None else file.parent)]
    seen: set[Path] = set()
    while pending:
        current, beside = pending.pop()
        for name in _included_names(current):
            for folder in (*([beside] if beside else []), *folders):
                path = inside(root, os.path.normpath(folder / name))
                if path.is_file() and path not in seen:
                    seen.add(path)
                    pending.append((path.read_text(encoding="utf-8", errors="replace"), path.parent))


def _included_names(text: str) -> Iterable[str]:
    plain = _COMMENT.sub(" ", _CONTINUED.sub("", text))
    for keyword, operand in _DIRECTIVE.findall(plain):
        found = _NAME.match(operand.strip())
        name = (found[1] or found[2]) if found else ""
        if not found:
            raise InputError(f"#{keyword} {operand.strip()}: the service reads no file whose name a macro computes")
        if keyword == "embed" or os.path.isabs(name) or ("<" in operand and ".." in Path(name).parts):
            raise InputError(f"#{keyword} {operand.strip()}: is outside the folder that the service may read")
        yield name


def confine(root: Path) -> None:
    """From now on this process opens and lists only files of the folder, of Python, of the compilers and of the cache.

    It is an audit hook (`sys.addaudithook`): it cannot be taken back.
    """
    package = Path(__file__).parents[2]
    own = [root, cache_directory(), Path(tempfile.gettempdir()), Path(sys.prefix), Path(sys.base_prefix), package]
    allowed = {str(place.resolve()) for place in (*own, *(Path(entry) for entry in sys.path if entry))}
    tops = tuple(allowed | set(_OF_THE_SYSTEM))

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _READS and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not any(path == top or path.startswith(f"{top.rstrip('/')}/") for top in tops):
                raise PermissionError(13, "is outside the folder that the service may read", path)

    sys.addaudithook(watch)
