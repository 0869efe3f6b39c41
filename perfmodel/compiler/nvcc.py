"""A whole CUDA C++ file to PTX with NVIDIA's nvcc: unmodified, with its host code and every header its author uses."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TypeVar

from ..errors import CompileError, InputError, PerfmodelError
from ..gpus.catalogue import load_architecture
from ..sources.project_headers import template_of
from .assembler import PTX_VERSION_12_9
from .front_end import ASSEMBLER_OPTIONS, Ptx
from .host_code import Extent, device_macros, without_host_code
from .kernel_names import (
    find_kernel,
    kernel_templates,
    kernels_of,
    no_kernel,
    split_name,
    template_example,
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
from .ptx_functions import with_kernel_only
from .request import CompileRequest, including_requests
from .toolchain import cuda13_program, run_compiler

OLD_NAMES = ("-DcudaThreadSynchronize=cudaDeviceSynchronize", "-DcudaThreadExit=cudaDeviceReset")
"""Names that CUDA 13 no longer has."""
_OF_THRUST = re.compile(r"error\b.*\n.*\bthrust::|\bthrust\b.* has no member")
_OLD_HEADERS = ("thrust/tuple.h", "iostream")
"""What Thrust's headers of CUDA 12 included and those of CUDA 13 do not."""
_OF_CUB = re.compile(r'namespace "cub" has no member "(?:Max|Min|Sum|Difference|Division|Equality|Inequality)"')
_OLDER_CUB = Path(__file__).with_name("older_cub.cuh")
_NEWER = re.compile(
    r"^\s*#\s*include\s*<(?:barrier|bit|compare|concepts|coroutine|format|latch|numbers|ranges|semaphore|source_location|span|version)>"
    r"|\brequires\b|\bconcept\b|\bconsteval\b|\bconstinit\b|\bco_await\b|<=>|\bstd::(?:bit_cast|remove_cvref_t|type_identity_t)\b"
    r"|\[\]\s*<\s*(?:typename|class|int|auto)\b",
    re.MULTILINE,
)
"""What C++20 brought, and nvcc's default of C++17 does not take."""
_APART = re.compile(r"Unresolved extern (?:function|variable)")
SEPARATE = ("-rdc=true", "--relocatable-device-code=true", "-dc")
"""Options that compile the device code of each file apart."""


def is_in_other_file(output: str) -> bool:
    """Whether device code of a file uses what another one defines."""
    return _APART.search(output) is not None


def further_options(output: str, sources: Iterable[str], options: Sequence[str]) -> list[list[str]]:
    """Options to try after an error, in order; none where nothing speaks for one.

    Args:
        output: what the compiler printed.
        sources: texts of the files that are compiled.
        options: what it was called with.

    >>> further_options("k.cu(1): error: qualified name is not allowed" + chr(10) + "  thrust::tuple<float, float> f()", [""], [])
    [['-include', 'thrust/tuple.h', '-include', 'iostream']]
    >>> further_options("k.cu(2): error: expected a type", ["#include <concepts>"], [])
    [['-std=c++20']]
    """
    found: list[list[str]] = []
    if not any(option.startswith(("-std", "--std")) for option in options) and any(map(_NEWER.search, sources)):
        found.append(["-std=c++20"])
    if _OF_THRUST.search(output):
        found.append([word for header in _OLD_HEADERS for word in ("-include", header)])
    if _OF_CUB.search(output):
        found.append(["-include", str(_OLDER_CUB)])
    return found


TIME_LIMIT_S = 600.0

ResultT = TypeVar("ResultT")

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
_IDLE_ROUNDS = 4
"""Compilations in a row that leave as many errors, after which no more are tried."""
_CRASH = re.compile(r"Segmentation fault|Aborted|Illegal instruction|Bus error|died due to signal")
_MAX_ROUNDS = 20
_CAREFUL_ROUNDS = 6
"""Rounds in which statements are left out; then functions are."""
_NEEDS_LINKING = "requires separate compilation mode"
"""Said of kernels that launch kernels; others of the file compile with code that can be linked."""
_LAUNCH = re.compile(r"\bcall\b[^;]*LaunchDevice")
_LINE = re.compile(r"(?:\.loc|\binlined_at)\s+(\d+)\s+(\d+)")
_FILE_NUMBER = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_NAMESPACE = re.compile(r"\bnamespace\s+((?:\w+\s*::\s*)*\w+)\s*\{")
_UNROLL = re.compile(r"^([ \t]*)#[ \t]*pragma[ \t]+unroll[ \t]+([^\s/].*?)[ \t]*(?://.*)?$", re.MULTILINE)
_UNROLL_MACRO = "PERFMODEL_UNROLL"
_UNROLL_MACROS = ("#define PERFMODEL_PRAGMA(x) _Pragma(#x)", f"#define {_UNROLL_MACRO}(n) PERFMODEL_PRAGMA(unroll n)")
"""``#pragma unroll N`` with a macro for N: g++, which preprocesses for nvcc, leaves macros in pragmas as they are."""
_FILE = re.compile(r'(\.file\s+\d+\s+)"(?:[^"\n]*[/\\])?([^"/\\\n]+)"')


def compile_file(request: CompileRequest, virtual_architecture: str, time_limit_s: float = TIME_LIMIT_S) -> Ptx:
    """PTX of one kernel of a file.

    The name of a template is instantiated by taking its address, so that the file itself need not use it. Where the file does
    not compile, host code with errors is left out, which `Ptx.note` says: a library that only it needs may not be installed.

    Raises:
        CompileError: the compiler's first error in one line, or that it took too long.
        InputError: the file has no such kernel; the message lists those it has. An option is refused.
    """
    return _first_success(request, virtual_architecture, time_limit_s, lambda run: run.kernel())


def compile_with_debug_information(request: CompileRequest, virtual_architecture: str) -> str:
    """PTX of the whole file that carries the names and types of every kernel's parameters; not optimised."""
    expression = _template(request)
    return _first_success(request, virtual_architecture, TIME_LIMIT_S, lambda run: run.ptx(expression, "-G"))


def _template(request: CompileRequest) -> str:
    """The kernel as an expression that instantiates a template; empty where its name is none of one."""
    name = without_parameters(request.kernel)
    return name if "<" in name else ""


def _first_success(
    request: CompileRequest, virtual_architecture: str, time_limit_s: float, compiled: Callable[[_Run], ResultT]
) -> ResultT:
    """The result of the first way to compile a file that gives one.

    The file is compiled whole, and without host code that has errors; by itself, and as part of a file that includes it. The
    error is that of the first way, or that of the file's device code.
    """
    failed: CompileError | InputError | None = None
    ways = [(request, False)]
    while ways:
        whole, shortened = ways.pop(0)
        with tempfile.TemporaryDirectory(prefix="perfmodel-") as name:
            run = _Run(whole, virtual_architecture, Path(name), time_limit_s)
            run.outer = "" if whole is request else f"compiled as part of {whole.file_name}, which includes this file"
            try:
                if shortened:
                    run.use(_device_part(whole, virtual_architecture, time_limit_s))
                return compiled(run)
            except (CompileError, InputError) as error:
                if isinstance(error, InputError) and not (isinstance(error, _NoKernelError) and not error.complete):
                    raise  # the file compiles, and the kernel's name or an option is wrong
                ways = _other_ways(request, error) if failed is None else ways
                own = error if whole is request and _is_of_device_code(error, failed) else None
                absent = _unused_template(request, failed) if isinstance(error, _NoKernelError) else None
                failed = absent or own or failed or error
    assert failed is not None
    raise failed from None


def _is_of_device_code(error: PerfmodelError, before: PerfmodelError | None) -> bool:
    """Whether an error of a file without its host code says more than the one before."""
    if isinstance(error, (_LacksHeaderError, _NoKernelError)):
        return True
    if not isinstance(error, _RefusedError) or not isinstance(before, _RefusedError):
        return False
    return len(errors_of(error.output)) < len(errors_of(before.output))


def _other_ways(request: CompileRequest, error: PerfmodelError) -> list[tuple[CompileRequest, bool]]:
    """What else to compile, and whether without host code; a missing header is missing in the files around, too."""
    outer = including_requests(request)
    whole, shortened = [(one, False) for one in outer], [(one, True) for one in (request, *outer)]
    lacks_header = isinstance(error, _RefusedError) and missing_header(error.output) is not None
    return [*shortened[:1], *whole, *shortened[1:]] if lacks_header else [*whole, *shortened]


def _unused_template(request: CompileRequest, failed: CompileError | InputError | None) -> InputError | None:
    """What to do where the host code that uses a template has errors; None where the kernel is no such template."""
    name = request.kernel.rpartition("::")[2].strip()
    templates = kernel_templates(_with_templates(request))
    if failed is None or not templates or (name and name not in templates):
        return None
    uncompiled = f"the host code that uses it does not compile ({failed})"
    if not name:
        return InputError(
            f"{request.file_name} has no kernel but templates ({', '.join(templates)}): name one with its arguments, "
            f"as in {template_example(_with_templates(request))!r}; {uncompiled}"
        )
    return InputError(
        f"kernel {request.kernel!r} is a template, and {uncompiled}: name it with its arguments, as in "
        f"{template_example(_with_templates(request), name)!r}"
    )


def _with_templates(request: CompileRequest) -> str:
    """The text of a source, or of its headers where these have the templates of kernels that it uses."""
    texts = (request.source, "\n".join(request.included_sources()))
    return next((text for text in texts if kernel_templates(text)), request.source)


@dataclass(frozen=True, slots=True)
class _DevicePart:
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


_ONE_AT_A_TIME = Lock()
"""Held while host code is left out: the compilation for names of parameters, which runs beside, asks for the same."""


def _device_part(request: CompileRequest, virtual_architecture: str, time_limit_s: float) -> _DevicePart:
    """What is left of a source when host code with errors has gone; worked out once.

    Raises:
        CompileError: errors remain that are none of host code.
    """
    with _ONE_AT_A_TIME:
        found = _device_part_or_error(request, virtual_architecture, time_limit_s)
    if isinstance(found, CompileError):
        raise found
    return found


@lru_cache(maxsize=16)
def _device_part_or_error(
    request: CompileRequest, virtual_architecture: str, time_limit_s: float
) -> _DevicePart | CompileError:
    try:
        return _without_host_code(request, virtual_architecture, time_limit_s)
    except CompileError as error:
        return error


def _without_host_code(request: CompileRequest, virtual_architecture: str, time_limit_s: float) -> _DevicePart:
    expression = _template(request)
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as name:
        run = _Run(request, virtual_architecture, Path(name), time_limit_s)
        texts = {run.source: request.source} | request.included_files()
        part = _DevicePart({path: _UNROLL.sub(rf"\1{_UNROLL_MACRO}(\2)", text) for path, text in texts.items()})
        run.macros = device_macros(texts.values())
        run.use(part)
        part = replace(part, missing=run.absent_headers())
        rounds, ptx = _Rounds(), ""
        for _ in range(_MAX_ROUNDS):
            run.use(part)
            try:
                ptx = run.ptx(expression)
                break
            except _RefusedError as error:
                if expression and _is_of_wrapper(error.output):
                    expression = ""  # the file has no such template, and is compiled for what it has
                    continue
                header = missing_header(error.output)
                if header is not None and header not in part.missing:
                    part = replace(part, missing=(*part.missing, header))
                    continue
                extent = rounds.next(error)
                shorter = run.without_refused_host_code(error.output, part.texts, extent)
                if shorter == part.texts and extent is Extent.STATEMENTS:
                    shorter = run.without_refused_host_code(error.output, part.texts, Extent.DECLARATIONS)
                if shorter == part.texts or rounds.idle > _IDLE_ROUNDS:
                    break
                part = replace(part, texts=shorter, shortened=True)
        if not ptx:
            raise run.unsolved(part.missing, rounds.fewest)
        named = {Path(request.file_name) if path == run.source else path: text for path, text in part.texts.items()}
        return replace(part, texts=part.texts if request.path else named, ptx=ptx, expression=expression)


@dataclass(slots=True)
class _Rounds:
    """How much goes where host code has errors: more where that leaves as many errors as there were."""

    extent: Extent = Extent.STATEMENTS
    number: int = 0
    errors: int = 0
    idle: int = 0
    fewest: _RefusedError | None = None
    """The refusal with the fewest errors: what is left out may also make new ones."""

    def next(self, error: _RefusedError) -> Extent:
        """The extent for the errors of one compilation."""
        before, self.errors = self.errors, len(errors_of(error.output))
        fewest = self.errors + 1 if self.fewest is None else len(errors_of(self.fewest.output))
        self.idle = 0 if self.errors < fewest else self.idle + 1
        if self.errors <= fewest:
            self.fewest = error
        self.number += 1
        if self.number > _CAREFUL_ROUNDS and (self.extent is Extent.STATEMENTS or self.errors >= before):
            self.extent = Extent(min(self.extent + 1, max(Extent)))
        # the compiler names an undeclared variable once: its next use shows when this one has gone
        return max(self.extent, Extent.DECLARATIONS) if self.idle > 1 else self.extent


class _RefusedError(CompileError):
    """The compiler refuses a file; ``output`` is all that it printed."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output

    def __reduce__(self) -> tuple[type[CompileError], tuple[str]]:
        return CompileError, (str(self),)


class _LacksHeaderError(_RefusedError):
    """Errors remain in device code, and headers that are not installed."""


class _NoKernelError(InputError):
    """A file has no such kernel; ``complete`` where nothing of it was left out and nothing failed to compile."""

    def __init__(self, message: str, *, complete: bool) -> None:
        super().__init__(message)
        self.complete = complete

    def __reduce__(self) -> tuple[type[InputError], tuple[str]]:
        return InputError, (str(self),)


class _Run:
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
        self.part: _DevicePart | None = None
        self.macros: frozenset[str] = frozenset()
        """What stands for ``__device__`` and the like in the source."""
        self.idle: list[list[str]] = []
        """Options that were tried and left as many errors."""
        if request.path is None:
            self.source.write_text(request.source, encoding="utf-8")

    def kernel(self) -> Ptx:
        """The kernel that the request names.

        Raises:
            _NoKernelError: the file has no such kernel.
        """
        reason = unused_templates(_with_templates(self.request))
        failed: CompileError | None = None
        expression = _template(self.request)
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
        if not kernels and "__global__" in self.request.source:
            left_out += self._unset_macros()
        raise _NoKernelError(
            no_kernel(name, self.request.kernel, kernels, "; ".join([*left_out, reason])),
            complete=failed is None and self.part is None,
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
        notes = (self.outer, "" if self.part is None else self.part.note)
        return Ptx(text=plain_file_names(text), kernel_name=kernel_name, log="", note="; ".join(filter(None, notes)))

    def _place(self, text: str, position: int) -> str:
        """File and line of a place in PTX, where headers' lines are those that they are inlined at."""
        own = {number for number, path in _FILE_NUMBER.findall(text) if Path(path).name == self.request.file_name}
        lines = [line for number, line in _LINE.findall(text[:position]) if number in own]
        return f"{self.request.file_name}:{lines[-1]}" if lines else self.request.file_name

    def use(self, part: _DevicePart) -> None:
        """Compile these texts from now on, with nearly empty headers for those that are not installed."""
        self.overlay, self.part = self.folder / "overlay", part
        for path, text in part.texts.items():
            _write(self._overlaid(self.folder / path), text)
        for header in part.missing:
            _write(self.folder / "missing" / header, _PLACEHOLDER)

    def unsolved(self, headers: Sequence[str], error: CompileError | None) -> CompileError:
        """The error of device code: where headers are not installed, these come first, since others may follow from them."""
        if error is None:
            return CompileError(f"{self.request.file_name}: errors remain after {_MAX_ROUNDS} compilations")
        if not headers:
            return error
        folder = self.source.parent
        found = {header: template_of(header, folder) for header in headers} if self.request.path else {}
        made = {header: os.path.relpath(place, folder) for header, place in found.items() if place is not None}
        them = "them" if len(headers) > 1 else "it"
        text = f"{absent_headers(headers, made)}; without {them} device code does not compile ({error})"
        return _LacksHeaderError(f"{self._included_at(headers[0])}: {text}", "")

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

    def without_refused_host_code(self, output: str, texts: Mapping[Path, str], extent: Extent) -> dict[Path, str]:
        """The texts without host code at places of errors."""
        lines: dict[Path, set[int]] = {}
        for file, line, _ in errors_of(output):
            lines.setdefault(Path(os.path.normpath(file)), set()).add(line)
        return {
            path: without_host_code(text, lines.get(self._overlaid(path), ()), extent=extent, macros=self.macros)
            for path, text in texts.items()
        }

    def _overlaid(self, path: Path) -> Path:
        """Where the overlay holds a file."""
        assert self.overlay is not None
        return self.overlay / os.path.normpath(path).lstrip("/")

    def ptx(self, expression: str, *more: str) -> str:
        """PTX of the file and of the kernel that an expression instantiates."""
        if self.part is not None and self.part.ptx and not more and expression == self.part.expression:
            return self.part.ptx
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
            return self.ptx(expression, *more)
        if expression and not self.opened and _is_of_wrapper(output) and UNDECLARED.search(output):
            self.opened = _namespaces(texts, expression)
            try:
                if self.opened:
                    return self.ptx(expression, *more)
            except _RefusedError:  # as it is said without them
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
        raise _RefusedError(message, output)

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
        lines = [f'#include "{source}"']
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
        # a comma would end the value
        options += ["-D{}={}".format(name, str(value).replace(",", "\\,")) for name, value in self.request.defines]
        folders = [Path(folder) for folder in self.request.include_directories]
        if self.overlay is not None:
            folders = [*map(self._overlaid, folders), *folders, self.folder / "missing"]
            options += ["-Xcompiler", "-iquote", "-Xcompiler", str(self._around()), *_ALL_ERRORS]
        options += [f"-I{folder}" for folder in folders]
        return options + [option for option in self.request.options if not option.startswith(ASSEMBLER_OPTIONS)]

    def _around(self) -> Path:
        """The folder of the source, under a name without blanks: nvcc hands options on without quotes."""
        link = self.folder / "around"
        if not re.search(r"[\s,]", str(self.source.parent)):
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


def _is_of_wrapper(output: str) -> bool:
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
