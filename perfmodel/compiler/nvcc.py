"""A whole CUDA C++ file to PTX with NVIDIA's nvcc: unmodified, with its host code and every header its author uses."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..errors import CompileError, InputError, PerfmodelError
from .device_part import device_part
from .front_end import Ptx
from .kernel_names import (
    kernel_templates,
    template_example,
)
from .messages import (
    errors_of,
    is_of_older_cuda,
    missing_header,
)
from .nvcc_run import LacksHeaderError, NoKernelError, NvccRun, RefusedError, instantiation_of, text_of_templates
from .request import CompileRequest, including_requests

TIME_LIMIT_S = 600.0

ResultT = TypeVar("ResultT")


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
    expression = instantiation_of(request)
    return _first_success(request, virtual_architecture, TIME_LIMIT_S, lambda run: run.ptx(expression, "-G"))


def _first_success(
    request: CompileRequest, virtual_architecture: str, time_limit_s: float, compiled: Callable[[NvccRun], ResultT]
) -> ResultT:
    """The result of the first way to compile a file that gives one.

    The file is compiled whole, and without host code that has errors; by itself, and as part of a file that includes it. The
    error is that of the first way, or that of the file's device code.
    """
    failed: CompileError | InputError | None = None
    unused_template: InputError | None = None
    """What to do about a template that only host code with errors uses."""
    outer: CompileError | None = None
    """The error of a file that includes this one."""
    ways = [(request, False)]
    while ways:
        whole, shortened = ways.pop(0)
        with tempfile.TemporaryDirectory(prefix="perfmodel-") as name:
            run = NvccRun(whole, virtual_architecture, Path(name), time_limit_s)
            run.outer = "" if whole is request else f"compiled as part of {whole.file_name}, which includes this file"
            try:
                if shortened:
                    run.use(device_part(whole, virtual_architecture, time_limit_s))
                return compiled(run)
            except (CompileError, InputError) as error:
                if isinstance(error, InputError) and not (isinstance(error, NoKernelError) and not error.complete):
                    raise  # the file compiles, and the kernel's name or an option is wrong
                ways = _other_ways(request, error) if failed is None else ways
                if whole is not request and _lacks_header(error):  # so do the other files that include this one
                    ways = [way for way in ways if way[1] != shortened]
                own = error if whole is request and _is_of_device_code(error, failed) else None
                outer = error if outer is None and whole is not request and isinstance(error, RefusedError) else outer
                absent = _unused_template(request, outer or failed) if isinstance(error, NoKernelError) else None
                unused_template = absent or (None if own else unused_template)
                failed = (failed if absent else own) or failed or error
    assert failed is not None
    raise unused_template or failed from None


def _is_of_device_code(error: PerfmodelError, before: PerfmodelError | None) -> bool:
    """Whether an error of a file without its host code says more than the one before."""
    if isinstance(error, (LacksHeaderError, NoKernelError)):
        return True
    if not isinstance(error, RefusedError) or not isinstance(before, RefusedError):
        return False
    if missing_header(before.output) is not None and missing_header(error.output) is None:
        return True  # the header was found, or is not needed
    return is_of_older_cuda(error.output) or len(errors_of(error.output)) < len(errors_of(before.output))


def _other_ways(request: CompileRequest, error: PerfmodelError) -> list[tuple[CompileRequest, bool]]:
    """What else to compile, and whether without host code; a missing header is missing in the files around, too."""
    outer = including_requests(request)
    whole, shortened = [(one, False) for one in outer], [(one, True) for one in (request, *outer)]
    return [*shortened[:1], *whole, *shortened[1:]] if _lacks_header(error) else [*whole, *shortened]


def _lacks_header(error: PerfmodelError) -> bool:
    lacks = isinstance(error, RefusedError) and missing_header(error.output) is not None
    return lacks or isinstance(error, LacksHeaderError)


def _unused_template(request: CompileRequest, failed: CompileError | InputError | None) -> InputError | None:
    """What to do where the host code that uses a template has errors; None where the kernel is no such template."""
    name = request.kernel.rpartition("::")[2].strip()
    templates = kernel_templates(text_of_templates(request))
    if failed is None or not templates or (name and name not in templates):
        return None
    uncompiled = f"the host code that uses it does not compile ({failed})"
    if not name:
        return InputError(
            f"{request.file_name} has no kernel but templates ({', '.join(templates)}): name one with its arguments, "
            f"as in {template_example(text_of_templates(request))!r}; {uncompiled}"
        )
    return InputError(
        f"kernel {request.kernel!r} is a template, and {uncompiled}: name it with its arguments, as in "
        f"{template_example(text_of_templates(request), name)!r}"
    )
