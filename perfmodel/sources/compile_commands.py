"""A project's own compiler flags, from the ``compile_commands.json`` that CMake, Bear and others write."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ..errors import InputError
from .project_headers import hides_cuda

_INCLUDE = ("-I", "--include-path", "-isystem", "--system-include")
_DEFINE = ("-D", "--define-macro")
_ATTACHED = ("-I", "-D", "-isystem")
"""Options whose value may follow without a space."""
_KEPT_WITH_VALUE = (
    *(
        "-std",
        "--std",
        "-U",
        "--undefine-macro",
        "-include",
        "--pre-include",
        "-Xptxas",
        "--ptxas-options",
        "-Xcompiler",
    ),
    *(
        "--compiler-options",
        "-maxrregcount",
        "--maxrregcount",
        "-fmad",
        "--fmad",
        "-ftz",
        "--ftz",
        "-prec-div",
        "--prec-div",
    ),
    *("-prec-sqrt", "--prec-sqrt", "-Xcudafe", "-default-stream", "--default-stream"),
)
_KEPT = (
    *("-use_fast_math", "--use_fast_math", "-extended-lambda", "--extended-lambda", "-expt-extended-lambda"),
    *("--expt-extended-lambda", "-expt-relaxed-constexpr", "--expt-relaxed-constexpr", "-restrict", "--restrict"),
    *("-extra-device-vectorization", "--extra-device-vectorization"),
)
_FILES_OF_OPTIONS = ("--options-file", "-optf")


class _Entry(msgspec.Struct):
    directory: str
    file: str
    command: str = ""
    arguments: list[str] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFlags:
    """Folders of headers, macros and further options that decide what the device code is."""

    include: tuple[Path, ...]
    defines: tuple[tuple[str, str | int], ...]
    options: tuple[str, ...]


def read_compile_flags(commands: str | Path, source: str | Path) -> CompileFlags:
    """The flags with which a project compiles a source.

    Kept are folders of headers, macros, the language's standard and what changes the device code (``--use_fast_math``,
    ``-maxrregcount`` …); targets, warnings, debugging and outputs are left out. Paths are relative to the entry's directory.

    Raises:
        InputError: the file cannot be read, or has no entry for the source.
    """
    commands, wanted = Path(commands), Path(source).absolute().resolve()
    try:
        entries = msgspec.json.decode(commands.read_bytes(), type=list[_Entry])
    except OSError as error:
        raise InputError(f"--compile-commands {commands}: {error.strerror or error}") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"--compile-commands {commands}: {error}") from error
    for entry in entries:
        folder = commands.absolute().parent / entry.directory
        if (folder / entry.file).resolve() == wanted:
            try:
                words = entry.arguments or shlex.split(entry.command)
                return flags_of(words[1:], folder)
            except (ValueError, OSError) as error:
                raise InputError(f"--compile-commands {commands}: entry of {entry.file}: {error}") from error
    names = ", ".join(dict.fromkeys(Path(entry.file).name for entry in entries if entry.file.endswith((".cu", ".cuh"))))
    raise InputError(
        f"--compile-commands {commands}: no entry for {wanted}; its CUDA files: {names or 'none'} (give --include, --define and "
        "--compiler-option instead)"
    )


def flags_of(words: Sequence[str], folder: Path) -> CompileFlags:
    """What counts of a command's options, whose paths are relative to a folder; not another CUDA's headers: nvcc has its own."""
    include, defines, options = [], [], []
    for name, value in _pairs(_expanded(words, folder)):
        if name in _INCLUDE:
            include.append(folder / value)
        elif name in _DEFINE:
            macro, given, text = value.partition("=")
            defines.append((macro, text if given else 1))
        elif name in _KEPT_WITH_VALUE:
            is_file = name in ("-include", "--pre-include") and (folder / value).is_file()
            options.append(f"{name}={folder / value if is_file else value}")
        elif name in _KEPT:
            options.append(name)
    return CompileFlags(
        include=tuple(path for path in dict.fromkeys(include) if path.is_dir() and not hides_cuda(path)),
        defines=tuple(defines),
        options=tuple(options),
    )


def _expanded(words: Sequence[str], folder: Path) -> Iterator[str]:
    """The words, those in files of options among them."""
    pending = list(words)
    while pending:
        name, given, value = (word := pending.pop(0)).partition("=")
        if name in _FILES_OF_OPTIONS:
            file = value if given else pending.pop(0)
            pending = [*shlex.split((folder / file).read_text(encoding="utf-8")), *pending]
        else:
            yield word


def _pairs(words: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Every option with its value, which follows it, or ``=``, or nothing in between."""
    for word in words:
        name, given, value = word.partition("=")
        attached = next((option for option in _ATTACHED if word.startswith(option) and word != option), None)
        if attached is not None and name not in _INCLUDE:
            yield attached, word[len(attached) :]
        elif given:
            yield name, value
        elif word in (*_INCLUDE, *_DEFINE, *_KEPT_WITH_VALUE):
            yield word, next(words, "")
        else:
            yield word, ""
