"""CUDA C++ to PTX with NVRTC: no driver, no GPU; in a process of its own, because it crashes on some sources."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import CompileError, InputError
from ..sources.kernel_source import SourceKind
from .kernel_names import find_kernel, kernels_of, no_kernel, unused_templates
from .messages import one_line
from .request import CompileRequest
from .toolchain import header_directories, nvrtc
from .workers import ending, in_worker, interrupt_deferred, kept_pool, stop_pools

_NAME_FILE = "__nv_name_map"
"""What NVRTC calls the place where it resolves the kernel's name."""
ASSEMBLER_OPTIONS = ("--maxrregcount", "-maxrregcount")
"""Options that belong to the assembler and not to the front end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ptx:
    """PTX text, the kernel's name in it (mangled for templates), the compiler's warnings, and what users should know."""

    text: str
    kernel_name: str
    log: str
    note: str = ""


def _checked(result: tuple[Any, ...]) -> Any:
    if int(result[0]) != 0:
        text = nvrtc().nvrtcGetErrorString(result[0])[1].decode()
        raise CompileError(f"NVRTC: {text}")
    return result[1] if len(result) == 2 else None


def _text(size: Any, fetch: Any, program: Any) -> str:
    """What NVRTC writes for a program, into memory of our own: it would write into shared ``bytes`` objects, too."""
    buffer = bytearray(_checked(size(program)))
    _checked(fetch(program, buffer))
    return buffer.rstrip(b"\0").decode("utf-8", errors="replace")


def front_end_options(request: CompileRequest, virtual_architecture: str) -> list[str]:
    """NVRTC's option list for a request."""
    options = [f"-arch={virtual_architecture}"]
    options += [f"-D{name}={value}" for name, value in request.defines]
    options += [f"-I{directory}" for directory in request.include_directories]
    if request.kind is SourceKind.CUDA_FILE:
        options.append("--device-as-default-execution-space")
    if request.path is not None:
        options.append(f"-I{request.path.parent}")
    if "#include" in request.source:
        options += [f"-I{directory}" for directory in header_directories()]
    options += [option for option in request.options if not option.startswith(ASSEMBLER_OPTIONS)]
    return options


def compile_to_ptx(request: CompileRequest, virtual_architecture: str) -> Ptx:
    """Run the front end; ``CompileError`` carries the compiler's own message.

    >>> source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'
    >>> compile_to_ptx(CompileRequest(source=source, kernel="k", file_name="k.cu"), "compute_60").kernel_name
    'k'
    """
    api = nvrtc()
    program = _checked(api.nvrtcCreateProgram(request.source.encode(), request.file_name.encode(), 0, [], []))
    try:
        expression = request.kernel.encode()
        if expression:
            _checked(api.nvrtcAddNameExpression(program, expression))
        options = [option.encode() for option in front_end_options(request, virtual_architecture)]
        outcome = api.nvrtcCompileProgram(program, len(options), options)
        log = _text(api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog, program).strip()
        if int(outcome[0]) != 0:
            reason = api.nvrtcGetErrorString(outcome[0])[1].decode()
            if int(outcome[0]) == int(api.nvrtcResult.NVRTC_ERROR_INVALID_OPTION):
                raise InputError(f"the compiler refuses an option: {log or reason}")
            if request.kind is SourceKind.CUDA_FILE:
                raise _refused_file(request, log or reason)
            raise CompileError(f"{request.file_name} does not compile for {virtual_architecture}: {log or reason}")
        text = _text(api.nvrtcGetPTXSize, api.nvrtcGetPTX, program)
        if expression:
            lowered = _checked(api.nvrtcGetLoweredName(program, expression)).decode()
        else:
            lowered = find_kernel(kernels_of(text), "", request.file_name)
            if lowered is None:
                raise InputError(no_kernel(request.file_name, "", (), unused_templates(request.source)))
    finally:
        api.nvrtcDestroyProgram(program)
    return Ptx(text=text, kernel_name=lowered, log=log)


def errors_of_source(request: CompileRequest, virtual_architecture: str) -> str:
    """The first error that the front end finds where no kernel is asked for, in one line; empty where there is none."""
    api = nvrtc()
    program = _checked(api.nvrtcCreateProgram(request.source.encode(), request.file_name.encode(), 0, [], []))
    try:
        options = [option.encode() for option in front_end_options(request, virtual_architecture)]
        outcome = api.nvrtcCompileProgram(program, len(options), options)
        return one_line(_text(api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog, program)) if int(outcome[0]) else ""
    finally:
        api.nvrtcDestroyProgram(program)


def _refused_file(request: CompileRequest, log: str) -> CompileError | InputError:
    """The error of a user's file, which NVRTC gets where nvcc cannot run."""
    message = one_line(log)
    if message.startswith(_NAME_FILE):
        return InputError(f"kernel {request.kernel!r}: {message.partition(': ')[2]}")
    return CompileError(f"{message} (NVRTC compiles device code only; install g++ for files with host code)")


TIME_LIMIT_S = 600.0

ResultT = TypeVar("ResultT")


def compile_apart(request: CompileRequest, virtual_architecture: str, time_limit_s: float = TIME_LIMIT_S) -> Ptx:
    """`compile_to_ptx` in another process, which is kept for later requests; its result and errors.

    In a worker process it runs at once: such a process has no children, and whoever started it learns how it ended.

    Raises:
        CompileError: also where the compiler crashes or takes longer than the limit.

    >>> source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'
    >>> compile_apart(CompileRequest(source=source, kernel="k", file_name="k.cu"), "compute_60").kernel_name
    'k'
    """
    if in_worker():
        return compile_to_ptx(request, virtual_architecture)
    try:
        return _in_worker(compile_to_ptx, request, virtual_architecture, time_limit_s)
    except _CrashError as crash:
        text = f"{request.file_name}: the compiler NVRTC crashed ({crash}) at kernel {request.kernel!r}"
    try:
        found = _in_worker(errors_of_source, request, virtual_architecture, time_limit_s)
    except _CrashError:
        found = ""
    remedy = (
        f"correct this first: {found}"
        if found
        else "install g++, so that nvcc compiles the file and says what is wrong"
    )
    raise CompileError(f"{text}; {remedy}")


class _CrashError(Exception):
    """The compiler's process ended by itself; the text says how."""


def _in_worker(
    function: Callable[[CompileRequest, str], ResultT],
    request: CompileRequest,
    virtual_architecture: str,
    time_limit_s: float,
) -> ResultT:
    from pebble import ProcessExpired

    try:
        with interrupt_deferred():
            future = kept_pool(1).schedule(function, args=(request, virtual_architecture), timeout=time_limit_s)
        found: ResultT = future.result()
        return found
    except FutureTimeoutError:
        raise CompileError(f"{request.file_name}: not compiled within {time_limit_s:g} s") from None
    except ProcessExpired as error:
        raise _CrashError(ending(int(error.exitcode))) from None
    except KeyboardInterrupt:
        stop_pools()
        raise
