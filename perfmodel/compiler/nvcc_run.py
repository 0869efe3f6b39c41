"""One run of NVIDIA's nvcc after the other in a temporary folder: what it is called with, and what its messages mean."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CompileError, InputError
from ..gpus.catalogue import load_architecture
from ..sources.project_headers import templates_of
from . import disk_cache
from .assembler import PTX_VERSION_12_9
from .front_end import ASSEMBLER_OPTIONS, Ptx
from .host_code import Extent, without_conditions, without_host_code
from .kernel_names import (
    find_kernel,
    kernel_templates,
    kernels_of,
    no_kernel,
    split_name,
    unused_templates,
    without_parameters,
)
from .messages import (
    UNDECLARED,
    absent_headers,
    errors_of,
    has_advice,
    missing_header,
    one_line,
    unset_macros,
)
from .nvcc_options import OLD_NAMES, further_options, macro_options
from .ptx_functions import with_kernel_only
from .request import CompileRequest, digest, including_requests
from .toolchain import cuda13_program, nvcc_version, run_compiler

_OPTIONS = (
    *("-w", "--expt-relaxed-constexpr", "--extended-lambda", "--allow-unsupported-compiler"),
    *OLD_NAMES,
)
"""No warnings; what many projects set; whatever g++ there is; names that CUDA 13 no longer has."""
_WRAPPER = "whole_file.cu"
_ADDRESS = "perfmodel_kernel_address"
_ADDRESS_LINE = re.compile(rf"^.*(?:\b|_){_ADDRESS} = ([\w$]+);\n", re.MULTILINE)
_OLDEST_TARGET = "compute_75"
"""The oldest target of CUDA 13; its PTX is assembled by CUDA 12.9 for older architectures."""
_USUAL_HEADERS = (
    "algorithm",
    "cassert",
    "cfloat",
    "climits",
    "cmath",
    "cstdint",
    "cstdio",
    "cuda_bf16.h",
    "cuda_fp16.h",
)
"""What a file that is itself included by others may expect."""
_PLACEHOLDER = "#pragma once\n#include <cuComplex.h>\n#include <cuda_bf16.h>\n#include <cuda_fp16.h>\n"
"""A header that is not installed: those of CUDA that its libraries' headers include."""
_ALL_ERRORS = ("-Xcudafe", "--error_limit=1000")
"""The compiler's front end stops at 100 errors without it."""
_MANY_ERRORS = 100
"""So many are not those of a source that only lacks an option."""
_CRASH = re.compile(r"Segmentation fault|Aborted|Illegal instruction|Bus error|died due to signal")
MOST_ROUNDS = 20
_NEEDS_LINKING = "requires separate compilation mode"
"""Said of kernels that launch kernels; others of the file compile with code that can be linked."""
_LAUNCH = re.compile(r"\bcall\b[^;]*LaunchDevice")
_LINE = re.compile(r"(?:\.loc|\binlined_at)\s+(\d+)\s+(\d+)")
_FILE_NUMBER = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_NAMESPACE = re.compile(r"\bnamespace\s+((?:\w+\s*::\s*)*\w+)\s*\{")
UNROLL_MACRO = "PERFMODEL_UNROLL"
_UNROLL_MACROS = ("#define PERFMODEL_PRAGMA(x) _Pragma(#x)", f"#define {UNROLL_MACRO}(n) PERFMODEL_PRAGMA(unroll n)")
"""``#pragma unroll N`` with a macro for N: g++, which preprocesses for nvcc, leaves macros in pragmas as they are."""
_FILE = re.compile(r'(\.file\s+\d+\s+)"(?:[^"\n]*[/\\])?([^"/\\\n]+)"')


class RefusedError(CompileError):
    """The compiler refuses a file; ``output`` is all that it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output

    def __reduce__(self) -> tuple[type[CompileError], tuple[str]]:
        return CompileError, (str(self),)


class LacksHeaderError(RefusedError):
    """Errors remain in device code, and headers that are not installed."""


class NoKernelError(InputError):
    """A file has no such kernel; ``complete`` where nothing of it was left out, failed to compile or awaits another's macros."""

    def __init__(self, message: str, *, complete: bool) -> None:
        super().__init__(message)
        self.complete = complete

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, (str(self),)


@dataclass(frozen=True, slots=True)
class DevicePart:
    """A source and the user's headers without host code that does not compile, and headers that are not installed.

    ``ptx`` is what it compiles to together with ``expression``, ``shortened`` whether host code has gone.
    """

    texts: Mapping[Path, str]
    missing: tuple[str, ...] = ()
    shortened: bool = False
    ptx: str = ""
    expression: str = ""

    @property
    def note(self) -> str:
        """What users should know."""
        absent = f"not installed: {', '.join(self.missing)}" if self.missing else ""
        if not self.shortened:
            return absent
        return "host code that does not compile is left out" + (f" ({absent})" if absent else "")


class NvccRun:
    """nvcc at work in a temporary folder; ``overlay`` holds files that are compiled in the place of the user's."""

    def __init__(self, request: CompileRequest, virtual_architecture: str, folder: Path, time_limit_s: float) -> None:
        self.request, self.folder, self.time_limit_s = request, folder, time_limit_s
        number = virtual_architecture.removeprefix("compute_")
        supported = load_architecture(f"sm_{number}").compiled_by_cuda_13
        self.target = virtual_architecture if supported else _OLDEST_TARGET
        self.assembled_for = None if supported else f"sm_{number}"
        self.source = request.path or folder / request.file_name
        self.overlay: Path | None = None
        self.outer = ""
        self.relocatable = False
        self.further: list[str] = []
        """Options without which the file does not compile."""
        self.opened: tuple[str, ...] = ()
        """Namespaces that the name of a template leaves out."""
        self.part: DevicePart | None = None
        self.macros: frozenset[str] = frozenset()
        """What stands for ``__device__`` and the like in the source."""
        self.idle: list[list[str]] = []
        """Options that were tried and left as many errors."""
        if request.path is None:
            self.source.write_text(request.source, encoding="utf-8")

    def kernel(self) -> Ptx:
        """The kernel that the request names.

        Raises:
            NoKernelError: the file has no such kernel.
        """
        reason = unused_templates(text_of_templates(self.request))
        failed: CompileError | None = None
        expression = instantiation_of(self.request)
        if expression:
            try:
                text = self.ptx(expression)
                match = _ADDRESS_LINE.search(text)
                assert match is not None
                return self.result(text, match[1])
            except CompileError as error:
                failed, reason = error, re.sub(rf"^{_WRAPPER}:\d+: ", "", str(error))
        text = self.ptx("")
        kernels = kernels_of(text)
        name = self.request.file_name
        found = find_kernel(kernels, self.request.kernel, name)
        if found is not None:
            return self.result(text, found)
        left_out = [] if self.part is None or not self.part.note else [self.part.note]
        guarded = not kernels and "__global__" in self.request.source
        if guarded:
            left_out += self._unset_macros()
        raise NoKernelError(
            no_kernel(name, self.request.kernel, kernels, "; ".join([*left_out, reason])),
            complete=failed is None and self.part is None and not (guarded and including_requests(self.request)),
        )

    def result(self, text: str, kernel_name: str) -> Ptx:
        """PTX without the other kernels, with plain file names."""
        text = with_kernel_only(_ADDRESS_LINE.sub("", text), kernel_name)
        launch = _LAUNCH.search(text)
        if launch is not None:
            raise CompileError(
                f"{self._place(text, launch.start())}: kernel {split_name(kernel_name)[0]!r} launches kernels itself (dynamic "
                "parallelism), which is not executed: analyse the launched kernels"
            )
        if self.assembled_for is not None:
            version = ".".join(map(str, PTX_VERSION_12_9))
            text = re.sub(r"^\.version .*$", f".version {version}", text, count=1, flags=re.MULTILINE)
            text = re.sub(r"^\.target .*$", f".target {self.assembled_for}", text, count=1, flags=re.MULTILINE)
        others = ", ".join(os.path.relpath(path, self.source.parent) for path in self.request.together)
        together = f"compiled as one with {others}, which the kernel's functions are taken from" if others else ""
        notes = (self.outer, together, "" if self.part is None else self.part.note)
        return Ptx(text=plain_file_names(text), kernel_name=kernel_name, log="", note="; ".join(filter(None, notes)))

    def _place(self, text: str, position: int) -> str:
        """File and line of a place in PTX, where headers' lines are those that they are inlined at."""
        own = {number for number, path in _FILE_NUMBER.findall(text) if Path(path).name == self.request.file_name}
        lines = [line for number, line in _LINE.findall(text[:position]) if number in own]
        return f"{self.request.file_name}:{lines[-1]}" if lines else self.request.file_name

    def use(self, part: DevicePart) -> None:
        """Compile these texts from now on, with nearly empty headers for those that are not installed."""
        self.overlay, self.part = self.folder / "overlay", part
        for path, text in part.texts.items():
            _write(self._overlaid(self.folder / path), text)
        for header in part.missing:
            _write(self.folder / "missing" / header, _PLACEHOLDER)

    def unsolved(self, headers: Sequence[str], error: CompileError | None) -> CompileError:
        """The error of device code: where headers are not installed, these come first, since others may follow from them."""
        if error is None:
            return CompileError(f"{self.request.file_name}: errors remain after {MOST_ROUNDS} compilations")
        if not headers:
            return error
        folder = self.source.parent
        found = templates_of(headers, folder) if self.request.path else {}
        made = {header: os.path.relpath(place, folder) for header, place in found.items()}
        them = "them" if len(headers) > 1 else "it"
        text = f"{absent_headers(headers, made)}; without {them} device code does not compile ({error})"
        return LacksHeaderError(f"{self._included_at(headers[0])}: {text}", "")

    def _included_at(self, header: str) -> str:
        """File and line of the first place that includes a header."""
        include = re.compile(rf'^[ \t]*#[ \t]*include[ \t]*[<"]{re.escape(header)}[>"]', re.MULTILINE)
        for path, text in {self.source: self.request.source, **self.request.included_files()}.items():
            match = include.search(text)
            if match is not None:
                return f"{os.path.relpath(path, self.source.parent)}:{text.count(chr(10), 0, match.start()) + 1}"
        return self.request.file_name

    def absent_headers(self) -> tuple[str, ...]:
        """Headers that are included and lie nowhere, as far as the preprocessor finds them in one go."""
        command = [str(cuda13_program("nvcc")), "-E", *self._options(), "-Xcompiler", "-M,-MG"]
        status, output = self._ended([*command, str(self._wrapped(""))])
        names = [] if status else re.split(r"(?<!\\)\s+", output.partition(":")[2].replace("\\\n", " ").strip())
        return tuple(dict.fromkeys(n for n in names if "\\" not in n and ":" not in n and not os.path.exists(n)))

    def without_refused_host_code(
        self, errors: Iterable[tuple[str, int, str]], texts: Mapping[Path, str], extent: Extent
    ) -> dict[Path, str]:
        """The texts without host code at places of errors, where headers are not installed also without conditions."""
        lines: dict[Path, set[int]] = {}
        for file, line, _ in errors:
            lines.setdefault(Path(os.path.normpath(file)), set()).add(line)
        if self.part is not None and self.part.missing:
            texts = {
                path: without_conditions(text, lines.get(self._overlaid(path), ())) for path, text in texts.items()
            }
        return {
            path: without_host_code(text, lines.get(self._overlaid(path), ()), extent=extent, macros=self.macros)
            for path, text in texts.items()
        }

    def _overlaid(self, path: Path) -> Path:
        """Where the overlay holds a file."""
        assert self.overlay is not None
        return self.overlay / os.path.normpath(path).lstrip("/")

    def ptx(self, expression: str, *more: str) -> str:
        """PTX of the file and of the kernel that an expression instantiates; that of a whole file is kept on disk."""
        if self.part is not None:
            known = self.part.ptx and not more and expression == self.part.expression
            return self.part.ptx if known else self._compiled(expression, *more)
        parts = replace(self.request, kernel="").decisive_parts()  # the file's other kernels are compiled with it
        key = "file-" + digest(*parts, self.target, self.assembled_for, expression, more, nvcc_version())
        stored = disk_cache.fetch(key)
        if stored is not None:
            return stored.decode()
        text = self._compiled(expression, *more)
        disk_cache.keep(key, text.encode())
        return text

    def _compiled(self, expression: str, *more: str) -> str:
        """What `ptx` gives, compiled now."""
        wrapper, target = self._wrapped(expression), self.folder / "whole_file.ptx"
        command = [str(cuda13_program("nvcc")), "-ptx", *self._options(), *more, str(wrapper), "-o", str(target)]
        status, output = self._ended(command)
        texts = (self.request.source, *self.request.included_files().values()) if status else ()
        tried = status and missing_header(output) is None
        tried = tried and (self.part is None or len(errors_of(output)) <= _MANY_ERRORS)
        for further in further_options(output, texts, [*self.request.options, *self.further]) if tried else ():
            if further in self.idle:
                continue
            status, said = self._ended([*command, *further])
            if status == 0 or _NEEDS_LINKING in said:
                self.further, output = further, said
                break
            if len(errors_of(said)) >= len(errors_of(output)):
                self.idle.append(further)
            elif self.part is not None:
                self.further = further
            output = min(said, output, key=lambda text: len(errors_of(text)))
        if status == 0:
            return target.read_text(encoding="utf-8", errors="replace")
        refused = re.search(r"nvcc fatal\s*: (.*)", output)
        if refused:
            raise InputError(f"the compiler refuses an option: {refused[1]}")
        if _NEEDS_LINKING in output and not self.relocatable:
            self.relocatable = True
            return self._compiled(expression, *more)
        if expression and not self.opened and is_of_wrapper(output) and UNDECLARED.search(output):
            self.opened = _namespaces(texts, expression)
            try:
                if self.opened:
                    return self._compiled(expression, *more)
            except RefusedError:  # as it is said without them
                self.opened = ()
        said = output if self.overlay is None else output.replace(f"{self.overlay}/", "/")
        message = one_line(said, [str(self.source.parent), str(self.folder)]) or f"nvcc ended with {status}"
        if _CRASH.search(output) and not errors_of(output):
            message = (
                f"{self.request.file_name}: nvcc crashes on this file ({message}), outside of perfmodel, too: leave out what "
                "the kernel does not need, or give PTX or a cubin that another release of CUDA makes"
            )
        remedied = has_advice(output) or (self.part is not None and self.part.missing)
        if not remedied and UNDECLARED.search(message):
            message = "; ".join([message, *self._unset_macros(output)])
        raise RefusedError(message, output)

    def _unset_macros(self, output: str = "") -> list[str]:
        """What to do about macros that the source asks for; empty where nothing speaks for one."""
        texts = (self.request.source, *self.request.included_files().values())
        unset = unset_macros(texts, [name for name, _ in self.request.defines], output)
        return [f"macros that the source asks for and nothing sets: {', '.join(unset)} (--define sets one)"] * bool(
            unset
        )

    def _wrapped(self, expression: str) -> Path:
        """The file that is compiled: it includes the source, and has the kernel that an expression instantiates."""
        source = self.source if self.overlay is None else self._overlaid(self.source)
        lines = [f'#include "{path}"' for path in (source, *self.request.together)]
        if self.overlay is not None:
            lines = [*(f"#include <{header}>" for header in _USUAL_HEADERS), *_UNROLL_MACROS, *lines]
        if expression:
            lines += [f"using namespace {name};" for name in self.opened]
            lines.append(f"__device__ const void *const {_ADDRESS} = (const void *){expression};")
        wrapper = self.folder / _WRAPPER
        _write(wrapper, "\n".join(lines) + "\n")
        return wrapper

    def _options(self) -> list[str]:
        options = [f"-arch={self.target}", *_OPTIONS]
        if self.assembled_for is not None:  # the source asks for its own target
            options += [
                f"-Xcompiler=-U__CUDA_ARCH__,-D__CUDA_ARCH__={10 * int(self.assembled_for.removeprefix('sm_'))}"
            ]
        options += [*(["-rdc=true"] if self.relocatable else []), *self.further]
        options += macro_options(self.request.defines)
        folders = [Path(folder) for folder in self.request.include_directories]
        if self.overlay is not None:
            folders = [*map(self._overlaid, folders), *folders, self.folder / "missing"]
            options += ["-Xcompiler", "-iquote", "-Xcompiler", str(self._around()), *_ALL_ERRORS]
        options += [f"-I{folder}" for folder in folders]
        return options + [option for option in self.request.options if not option.startswith(ASSEMBLER_OPTIONS)]

    def _around(self) -> Path:
        """The folder of the source, under a name that a shell does not read: nvcc hands options on without quotes."""
        link = self.folder / "around"
        if not re.search(r"[^\w./+=@%:-]", str(self.source.parent)):
            return self.source.parent
        if not link.is_symlink():
            link.symlink_to(self.source.parent, target_is_directory=True)
        return link

    def _ended(self, command: list[str]) -> tuple[int, str]:
        """Exit status and messages; nvcc and all that it started are ended when time is up."""
        try:
            return run_compiler(command, self.folder, self.time_limit_s)
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"{self.request.file_name}: not compiled within {self.time_limit_s:g} s") from error


def instantiation_of(request: CompileRequest) -> str:
    """The kernel as an expression that instantiates a template; empty where its name is none of one."""
    name = without_parameters(request.kernel)
    return name if "<" in name else ""


def text_of_templates(request: CompileRequest) -> str:
    """The text of a source, or of its headers where these have the templates of kernels that it uses."""
    texts = (request.source, "\n".join(request.included_sources()))
    return next((text for text in texts if kernel_templates(text)), request.source)


def is_of_wrapper(output: str) -> bool:
    """Whether nothing but the name of a template is wrong."""
    return {Path(file).name for file, _, _ in errors_of(output)} == {_WRAPPER}


def _namespaces(texts: Iterable[str], expression: str) -> tuple[str, ...]:
    """Namespaces of the texts that name a template, outer ones first."""
    base = expression.partition("<")[0].rpartition("::")[2].strip()
    own = (text for text in texts if re.search(rf"\b{re.escape(base)}\s*\(", text))
    return tuple(dict.fromkeys(name for text in own for name in _NAMESPACE.findall(text)))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def plain_file_names(ptx: str) -> str:
    """PTX whose line information names files without their folders.

    >>> plain_file_names('.file 1 "/home/user/k.cu"')
    '.file 1 "k.cu"'
    """
    return _FILE.sub(r'\1"\2"', ptx)
