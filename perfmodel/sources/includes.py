"""Texts of the headers that a source includes, as far as they are the user's own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError

_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def included_files(text: str, folder: Path | None, directories: Sequence[Path]) -> dict[Path, str]:
    """Text of every file that a source includes, directly or not, by path, in order of discovery.

    ``#include "…"`` looks beside the file that includes first (``folder`` for the source itself). Conditions are ignored: a file
    that only some macro includes is listed too. Headers of CUDA and of the C++ library are found in none of the folders.
    """
    seen: dict[Path, str] = {}
    pending: list[tuple[str, Path | None]] = [(text, folder)]
    while pending:
        current, beside = pending.pop()
        for quoted, angled in _INCLUDE.findall(current):
            folders = directories if beside is None or not quoted else (beside, *directories)
            path = next((p for folder in folders if (p := folder / (quoted or angled)).is_file()), None)
            if path is not None and path not in seen:
                seen[path] = read_text(path)
                pending.append((seen[path], path.parent))
    return seen


def read_text(path: Path) -> str:
    """The text of a source file, whatever the encoding of its comments; ``InputError`` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(f"source {path}: {error}") from error
