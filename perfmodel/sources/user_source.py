"""A user's ``.cu`` file ready for the compiler: own headers in place, host code blanked, its kernels known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compiler.compiled import CompiledKernel, compile_kernel
from ..compiler.request import CompileRequest
from ..errors import CompileError, InputError
from .host_code import Signature, device_code
from .includes import IMPLICIT_HEADER, inlined_source, read_source, stand_in_directory, without_unused_standard_headers

_OPTIONS = (
    "-lineinfo",
    "--device-as-default-execution-space",
    f"--pre-include={IMPLICIT_HEADER}",
    "--diag-suppress=47",
)
"""Line numbers; unmarked ``constexpr`` functions on the device; what nvcc declares by itself; macros defined twice."""
_ERROR = re.compile(r"^.*\berror\b.*$", re.MULTILINE)
_FILE = re.compile(r'(\.file\s+\d+\s+)"(?:[^"\n]*[/\\])?([^"/\\\n]+)"')
_NAME_FILE = "__nv_name_map"
"""What the compiler calls the place where it resolves the kernel's name."""
_TEXT_NAME = "source.cu"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSource:
    """Device code of a file, the name by which messages call it, and the kernels that it declares."""

    file_name: str
    text: str
    kernels: tuple[Signature, ...]
    macro_kernels: bool

    def kernel(self, name: str) -> tuple[str, Signature | None]:
        """The name expression for the compiler and the signature of a kernel that the user names.

        A name may leave out namespaces where only one kernel fits. The signature is None for a kernel that a macro makes.
        Raises ``InputError`` that lists the file's kernels where there is no such one.
        """
        base, opening, arguments = name.strip().partition("<")
        base = base.strip()
        found = [k for k in self.kernels if k.name == base] or [
            k for k in self.kernels if k.name.endswith(f"::{base.removeprefix('::')}")
        ]
        if not found and self.macro_kernels:
            return name, None
        if len(found) != 1:
            listed = "; ".join(k.text for k in self.kernels) or "none"
            problem = "several kernels" if found else "no kernel"
            raise InputError(f"{self.file_name} has {problem} {name!r}; its kernels: {listed}")
        if found[0].template and not opening:
            raise InputError(f"kernel {found[0].text} is a template; name its arguments, as in '{base}<…>'")
        return f"{found[0].name}{opening}{arguments}", found[0]


def read_user_source(source: str | Path, include: Sequence[str | Path] = ()) -> UserSource:
    """The device code of a file, or of a text that holds a kernel.

    Args:
        source: path of the file; a string with a line break or the word ``__global__`` is the source itself.
        include: folders of the user's headers.

    >>> read_user_source("__global__ void k(float *x) { x[0] = 1.0f; }").kernels[0].text
    'k(float *x)'
    """
    is_text = isinstance(source, str) and ("\n" in source or "__global__" in source)
    path = None if is_text else Path(source)
    text = str(source) if path is None else read_source(path)
    file_name = _TEXT_NAME if path is None else path.name
    folders = [Path(folder) for folder in include]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"include folder {folder} does not exist")
    whole = inlined_source(text, file_name, None if path is None else path.parent, folders)
    found = device_code(whole, file_name)
    return UserSource(
        file_name=file_name,
        text=without_unused_standard_headers(found.text),
        kernels=found.kernels,
        macro_kernels=found.macro_kernels,
    )


def user_request(
    source: UserSource, expression: str, defines: Mapping[str, str | int], options: Sequence[str] = ()
) -> CompileRequest:
    """What is compiled for one kernel under macros."""
    return CompileRequest(
        source=source.text,
        kernel=expression,
        file_name=source.file_name,
        defines=tuple(defines.items()),
        options=(*_OPTIONS, *options),
        include_directories=(str(stand_in_directory()),),
        architecture_specific=True,
    )


def compile_user_kernel(request: CompileRequest, architecture: str) -> CompiledKernel:
    """Compile; ``CompileError`` is the compiler's first error in one line, with the number of those that follow.

    ``InputError`` where the kernel's name cannot be resolved (template arguments that do not fit).
    """
    try:
        return compile_kernel(request, architecture)
    except CompileError as error:
        message = one_line(str(error))
        if message.startswith(_NAME_FILE):
            raise InputError(f"kernel {request.kernel!r}: {message.partition(': ')[2]}") from error
        raise CompileError(message) from error


def plain_file_names(ptx: str) -> str:
    """PTX whose line information names files without the folder in which the compiler happened to run.

    >>> plain_file_names('.file 1 "/home/user/k.cu"')
    '.file 1 "k.cu"'
    """
    return _FILE.sub(r'\1"\2"', ptx)


def one_line(message: str) -> str:
    """The first error of a compiler's message.

    >>> one_line("k.cu does not compile: k.cu(1): error: identifier x is undefined" + chr(10) + "k.cu(2): error: and y")
    'k.cu(1): error: identifier x is undefined (and 1 more error)'
    """
    found = [match[0].strip() for match in _ERROR.finditer(message)]
    found = [text for text in found if not re.search(r"\d+ (?:catastrophic )?errors? detected", text)]
    if not found:
        return " ".join(message.split())
    first = re.sub(r"^.*?does not compile[^:]*: ", "", found[0])
    more = len(found) - 1
    return first + (f" (and {more} more error{'s' if more > 1 else ''})" if more else "")
