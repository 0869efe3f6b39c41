"""Compiler flags that a project states beside a source: in the ``compile_commands.json`` of a build, or in a Makefile."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from ..errors import InputError
from .compile_commands import CompileFlags, flags_of, read_compile_flags
from .includes import included_files, read_text
from .makefile import compile_commands_of, makefile_in
from .project_headers import folders_above

_COMMANDS = "compile_commands.json"
_BUILDS = ("build*", "out", "cmake-build-*")
"""Folders in which projects are built."""
_OF_DEVICE_CODE = re.compile(
    r"--?(?:use_fast_math|maxrregcount|fmad|ftz|prec-div|prec-sqrt|extra-device-vectorization)\b"
)
"""Options of Makefiles that are kept; others were written for an older compiler, or for host code."""


_NO_FLAGS = CompileFlags(include=(), defines=(), options=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFlags:
    """Flags, and what users should know: where they are from; both empty where a project states none."""

    flags: CompileFlags = _NO_FLAGS
    note: str = ""


def project_flags(source: Path, others: Sequence[Path] = ()) -> ProjectFlags:
    """The flags with which the project around a source compiles it.

    Those of the nearest ``compile_commands.json`` with an entry for the source, in its folder, those above and their build
    folders; else what all commands of the nearest Makefile that compile it have in common: folders of headers, options that
    change device code, and macros that the source or its headers ask for.

    Args:
        source: the file; where it cannot be read, there are no flags.
        others: further files of the same program.
    """
    source = source.absolute()
    for folder in (source.parent, *folders_above(source.parent)):
        found = _of_build(folder, source) or _of_makefile(folder, source, others)
        if found is not None:
            place = os.path.relpath(found[0], source.parent)
            said = _said(found[1], source.parent)
            return ProjectFlags(flags=found[1], note=f"flags of {place}: {said}") if said else ProjectFlags()
    return ProjectFlags()


def _of_build(folder: Path, source: Path) -> tuple[Path, CompileFlags] | None:
    """The one file of a build's commands that has an entry for the source."""
    found = []
    for path in _command_files(folder):
        try:
            found.append((path, read_compile_flags(path, source)))
        except InputError:  # of something else, or not for this file
            continue
    return found[0] if len(found) == 1 else None


def _command_files(folder: Path) -> Iterator[Path]:
    places = [folder, *(place for pattern in _BUILDS for place in sorted(folder.glob(pattern)))]
    return (path for place in dict.fromkeys(places) if os.path.isfile(path := place / _COMMANDS))


def _of_makefile(folder: Path, source: Path, others: Sequence[Path]) -> tuple[Path, CompileFlags] | None:
    makefile = makefile_in(folder)
    if makefile is None:
        return None
    try:
        stated = [flags_of(words, folder) for words in compile_commands_of(makefile, source)]
        if not stated:
            return None
        common = reduce(_common, stated)
        texts = [text for file in (source, *others) for text in _texts(file, common.include)]
    except (InputError, OSError, ValueError):  # it is not Make's, or the source cannot be read, which is said elsewhere
        return None
    asked = [(name, value) for name, value in common.defines if _asks(name, texts)]
    options = [option for option in common.options if _OF_DEVICE_CODE.match(option)]
    return makefile, replace(common, defines=tuple(asked), options=tuple(options))


def _common(one: CompileFlags, other: CompileFlags) -> CompileFlags:
    return CompileFlags(
        include=tuple(path for path in one.include if path in other.include),
        defines=tuple(define for define in one.defines if define in other.defines),
        options=tuple(option for option in one.options if option in other.options),
    )


def _texts(file: Path, include: Sequence[Path]) -> tuple[str, ...]:
    text = read_text(file)
    return (text, *included_files(text, file.parent, include).values())


def _asks(name: str, texts: Sequence[str]) -> bool:
    word = re.compile(rf"\b{re.escape(name)}\b")
    return any(word.search(text) for text in texts)


def _said(flags: CompileFlags, folder: Path) -> str:
    """Flags as they are given by hand."""
    words = [f"-D{name}" if value == 1 else f"-D{name}={value}" for name, value in flags.defines]
    words += [f"-I{min(os.path.relpath(path, folder), str(path), key=len)}" for path in flags.include]
    return " ".join((*words, *flags.options))
