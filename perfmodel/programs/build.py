"""A user's program compiled and linked with the stand-in runtime by NVIDIA's nvcc; what it lacks is named."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from ..compiler.disk_cache import cache_directory
from ..compiler.kernel_names import demangled
from ..compiler.messages import errors_of, missing_header, one_line
from ..compiler.nvcc_options import OLD_NAMES, SEPARATE, further_options, is_in_other_file, macro_options
from ..compiler.toolchain import cuda13_program, nvcc_version, read_by_a_shell, run_compiler
from ..core.files import require_regular
from ..errors import CompileError, InputError
from ..gpus.architecture import Architecture
from ..sources.includes import included_files, read_text
from .runtime_library import cxx_compiler, runtime_library

_OPTIONS = ("-w", "-O3", "-lineinfo", "--expt-relaxed-constexpr", "--extended-lambda", "--allow-unsupported-compiler")
_LIBRARIES = (
    (r"cublasLt", "libcublasLt"),
    (r"cublas", "libcublas"),
    (r"curand", "libcurand"),
    (r"cufft", "libcufft"),
    (r"cusparse", "libcusparse"),
    (r"cusolver", "libcusolver"),
    (r"cudnn", "libcudnn"),
    (r"nccl", "libnccl"),
    (r"nvrtc", "libnvrtc"),
    (r"nvml", "libnvidia-ml"),
    (r"npp", "libnpp"),
    (r"nvjpeg", "libnvjpeg"),
    (r"cu[A-Z]", "libcuda (the driver API)"),
    (r"cudaGL|cudaGraphicsGL|gl[A-Z]", "OpenGL"),
    (r"MPI_", "MPI"),
)
"""Libraries by how names of their functions and headers begin."""
_DEVICE_HEADER = re.compile(r"curand_\w+")
"""Headers of libraries whose code is in the header, so that nothing is linked."""
_UNDEFINED = re.compile(r"undefined reference to [`'\"]([^'\"`]+)['\"`]")
_TWICE = re.compile(r"multiple definition of [`'\"]([^'\"`]+)['\"`]")
_NOT_LINKED = re.compile(r"nvlink error\s*: Undefined reference to '([\w$]+)'")
_ASSEMBLER = re.compile(r"ptxas \S+, line \d+; error\s*: (.* not supported on \.target '\w+')")
_NOT_FOUND = re.compile(r"cannot find -l([\w.+-]+)")
_SOURCES = (".cu", ".cpp", ".cc", ".cxx", ".c++", ".C", ".c")
"""How names of files end that nvcc compiles."""
_CACHED_PROGRAMS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltProgram:
    """An executable and the runtime library that it runs with."""

    name: str
    path: Path
    library: Path


def built_program(
    files: Sequence[Path],
    architecture: Architecture,
    *,
    defines: Sequence[tuple[str, str | int]] = (),
    include: Sequence[Path] = (),
    options: Sequence[str] = (),
) -> BuiltProgram:
    """Compile and link a program's files; what was built before from the same files is used again.

    Raises:
        InputError: a file cannot be read, or the GPU is older than what nvcc 13 compiles for.
        CompileError: the compiler's or linker's first error, or the library that is missing.
        CompilerMissingError: nvcc or a C++ compiler is not installed.
    """
    if not architecture.compiled_by_cuda_13:
        raise InputError(
            f"programs are run on GPUs from sm_75 on, which nvcc 13 compiles for; choose another --gpu than one of "
            f"{architecture.name}"
        )
    library = runtime_library(13)
    number = architecture.name.removeprefix("sm_")
    command = ["-gencode", f"arch=compute_{number},code=[sm_{number},compute_{number}]", *_OPTIONS, *OLD_NAMES]
    command += macro_options(defines)
    command += [f"-I{folder}" for folder in include]
    command += options
    for file in files:
        _require_source(file)
    texts = _texts(files, include)
    files = _compiled_apart(files, include)
    key = _key(texts, [*command, str(library), nvcc_version(), cxx_compiler()])
    target = cache_directory() / "programs" / key / files[0].stem
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        _compile(command, files, tuple(texts.values()), library, target)
        _forget_old(target.parent.parent)
    return BuiltProgram(name=files[0].name, path=target, library=library)


def _require_source(file: Path) -> None:
    """That nvcc compiles a file, by its name; ``InputError`` says what else to do with it."""
    if file.suffix in _SOURCES or not file.is_file():
        return
    with file.open("rb") as stream:
        is_elf = stream.read(4) == b"\x7fELF"
    remedy = (
        "name a program by --exe, an object file or a library by --compiler-option"
        if is_elf
        else "name its source files"
    )
    raise InputError(f"{file} is no source file ({' '.join(_SOURCES)}): {remedy}")


def _compiled_apart(files: Sequence[Path], include: Sequence[Path]) -> list[Path]:
    """The files that no other one of them includes: `*.cu` names parts of files, too."""
    inside = {path.resolve() for file in files for path in included_files(read_text(file), file.parent, include)}
    return [file for file in files if file.resolve() not in inside] or list(files)


def _texts(files: Sequence[Path], include: Sequence[Path]) -> dict[Path, str]:
    """Texts of the files and of the user's headers."""
    texts: dict[Path, str] = {}
    for file in files:
        texts[file.resolve()] = text = read_text(file)
        texts |= included_files(text, file.parent, include)
    return texts


def _key(texts: Mapping[Path, str], options: Sequence[str]) -> str:
    """Hash of everything that decides the program."""
    named = [[str(path), text] for path, text in texts.items()]
    return hashlib.sha256(json.dumps([named, list(options)]).encode()).hexdigest()[:32]


def _forget_old(folder: Path) -> None:
    """Keep the programs that were built last."""
    built = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in built[_CACHED_PROGRAMS:]:
        shutil.rmtree(old, ignore_errors=True)


def _compile(options: Sequence[str], files: Sequence[Path], texts: Sequence[str], library: Path, target: Path) -> None:
    """Build a program; device code that uses what another file defines is compiled as one file, and linked where that fails."""
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        built = Path(folder) / "program"
        (Path(folder) / "libcudart.so").symlink_to(library)
        command = [str(cuda13_program("nvcc")), "-cudart", "shared", f"-L{folder}", *options]
        command += ["-Xlinker", f"-rpath={library.parent}", "-o", str(built)]
        together = [option for option in command if option not in SEPARATE]
        joined = [*together, *_joined(files, Path(folder))]
        apart = [*command, *(str(_plainly_named(file, Path(folder), number)) for number, file in enumerate(files))]
        ways = [apart] if together == command else [joined, apart]
        output, telling = "", apart
        while ways:
            way = ways.pop(0)
            status, said = run_compiler(way, Path(folder))
            if status == 0 and built.is_file():
                shutil.move(built, target)
                return
            if not output:
                ways += [[*way, *further] for further in further_options(said, texts, options)]
            if is_in_other_file(said) and way is apart:
                telling = [*apart, SEPARATE[0]]
                ways += [joined, telling]
            if not output or way is telling or len(errors_of(said)) < len(errors_of(output)):
                output = said
        raise CompileError(_reason(output, files, [str(files[0].parent), folder]))


def _joined(files: Sequence[Path], folder: Path) -> list[str]:
    """The files with those of CUDA C++ as one."""
    of_cuda = [file for file in files if file.suffix == ".cu"]
    whole = folder / "whole.cu"
    whole.write_text("".join(f'#include "{file.resolve()}"\n' for file in of_cuda), encoding="utf-8")
    others = [file for file in files if file.suffix != ".cu"]
    return [str(whole), *(str(_plainly_named(file, folder, number)) for number, file in enumerate(others))]


def _plainly_named(file: Path, folder: Path, number: int) -> Path:
    """A file, or one in the folder that includes it where nvcc would let a shell read its name."""
    if not read_by_a_shell(file):
        return file
    outer = folder / f"file{number}{file.suffix}"
    outer.write_text(f'#include "{file.resolve()}"\n', encoding="utf-8")
    return outer


def _place(name: str, files: Sequence[Path]) -> str:
    """File and line of the first use of a name in the program's files; the first file where it is in none of them."""
    word = re.compile(rf"\b{re.escape(re.sub(r'(_v[0-9]+)?([(].*)?$', '', name))}(_v[0-9]+)?\b")
    for file in files:
        for number, line in enumerate(read_text(file).splitlines(), 1):
            if word.search(line.partition("//")[0]):
                return f"{file.name}:{number}"
    return files[0].name


def _reason(output: str, files: Sequence[Path], folders: Sequence[str]) -> str:
    """Why a program cannot be built, in one line."""
    first = files[0]
    header = missing_header(output)
    if header is not None:
        file, line, _ = errors_of(output)[0]
        if _DEVICE_HEADER.match(Path(header).name):
            return one_line(output, folders)
        named = _library_of(Path(header).name)
        if named is not None:
            return f"{Path(file).name}:{line}: {_lacking(named, f'it includes {header}')}"
        return one_line(output, folders)
    not_found = _NOT_FOUND.search(output)
    if not_found is not None:
        return (
            f"{first.name}: {_lacking(_library_of(not_found[1]) or f'lib{not_found[1]}', f'option -l{not_found[1]}')}"
        )
    not_linked = _NOT_LINKED.search(output)
    if not_linked is not None:
        return (
            f"{_place(demangled(not_linked[1]), files)}: the device function {demangled(not_linked[1])} is in none of the "
            "files: name all files of the program"
        )
    twice = _TWICE.search(output)
    if twice is not None:
        where = _place(twice[1], files)
        return f"{where}: {twice[1]} is defined in two of the files: leave one of them out"
    undefined = list(dict.fromkeys(_UNDEFINED.findall(output)))
    if undefined and not errors_of(output.replace("error: ld returned", "")):
        named = next((library for name in undefined if (library := _library_of(name))), None)
        if named is not None:
            return f"{_place(undefined[0], files)}: {_lacking(named, f'it calls {undefined[0]}')}"
        more = f" (and {len(undefined) - 1} more)" if len(undefined) > 1 else ""
        return (
            f"{_place(undefined[0], files)}: {undefined[0]}{more} is not defined: name all files of the program, or its "
            "library by --compiler-option"
        )
    assembled = _ASSEMBLER.search(output)
    if assembled is not None:
        return f"{first.name}: {assembled[1]}: choose another --gpu"
    return one_line(output, folders) or "nvcc fails without a message"


def _library_of(name: str) -> str | None:
    return next((library for pattern, library in _LIBRARIES if re.match(pattern, name)), None)


def _lacking(library: str, evidence: str) -> str:
    return (
        f"the program needs {library} ({evidence}), which is no part of the stand-in runtime; its own kernels are answered one "
        "by one by `perfmodel analyze`"
    )


def linked_program(path: Path) -> BuiltProgram:
    """A program that is there already, linked with the shared CUDA runtime.

    Raises:
        InputError: it is none, is linked with the static runtime, or needs a library that the stand-in runtime has not.
    """
    try:
        require_regular(path)
        with path.open("rb") as file:
            dynamic = ELFFile(file).get_section_by_name(".dynamic")
            tags = [] if dynamic is None else list(dynamic.iter_tags())
            needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
    except OSError as error:
        raise InputError(f"--exe {path}: {error.strerror}") from error
    except ELFError as error:
        raise InputError(f"--exe {path} is no program: {error}") from error
    if not os.access(path, os.X_OK):
        raise InputError(f"--exe {path} may not be executed: chmod +x makes it so")
    for name in needed:
        library = _library_of(name.removeprefix("lib"))
        if library is not None and not name.startswith("libcudart"):
            raise InputError(f"--exe {path}: {_lacking(library, f'it is linked with {name}')}")
    versions = [int(match[1]) for name in needed if (match := re.fullmatch(r"libcudart\.so\.(\d+).*", name))]
    if not versions:
        raise InputError(
            f"--exe {path} is not linked with the shared CUDA runtime (libcudart.so): link it with `nvcc -cudart shared`, or "
            "name its source files"
        )
    if versions[0] not in (12, 13):
        raise InputError(
            f"--exe {path} is linked with libcudart.so.{versions[0]}; those of CUDA 12 and 13 are stood in for"
        )
    return BuiltProgram(name=path.name, path=path.resolve(), library=runtime_library(versions[0]))
