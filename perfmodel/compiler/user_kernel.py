"""A kernel of a user's source: what is compiled for it, and what its compiled code says of its parameters."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from elftools.dwarf.die import DIE

from ..errors import InputError, PerfmodelError
from ..launch.arguments import POINTER_BYTES, KernelParameter, Signature
from ..sources.kernel_source import KernelSource, SourceKind
from . import disk_cache
from .compiled import CompiledKernel, compile_kernel, content_key, uses_nvcc
from .debug_sections import debug_information
from .kernel_names import split_name
from .nvcc import compile_with_debug_information
from .ptx_functions import ptx_functions
from .request import CompileRequest
from .resources import cubin_parameters

_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*(?:\.align\s+\d+\s+)?)?[\w$%]+(?:\[(?P<size>\d+)\])?"
)
_DYNAMIC_SHARED = re.compile(r"\.extern\s+\.shared\s[^;]*?([\w$]+)\[\]\s*;")


def user_request(
    source: KernelSource, kernel: str, defines: Mapping[str, str | int], options: Sequence[str] = ()
) -> CompileRequest:
    """What is compiled for one kernel under macros, with line information.

    >>> from perfmodel.sources.kernel_source import read_kernel_source
    >>> user_request(read_kernel_source("__global__ void k() { }"), "k", {"N": 4}).defines
    (('N', 4),)
    """
    return CompileRequest(
        source=source.text,
        kernel=kernel.strip(),
        file_name=source.file_name,
        defines=tuple(defines.items()),
        options=("-lineinfo", *options),
        include_directories=tuple(str(folder) for folder in source.include),
        kind=source.kind,
        content=source.content,
        path=source.path if source.kind is SourceKind.CUDA_FILE else None,
    )


def signature_of(compiled: CompiledKernel) -> Signature:
    """Parameters of a kernel: sizes from its PTX or cubin, types from its mangled name; their names are ``arg0``, ``arg1``.

    A kernel that is declared ``extern "C"`` has no types in its name.
    """
    qualified, types = split_name(compiled.kernel_name)
    stated = _stated_in_ptx(compiled) if compiled.ptx else _stated_in_cubin(compiled)
    if types is None or len(types) != len(stated):
        types = ("",) * len(stated)
    parameters = tuple(
        KernelParameter(name=f"arg{position}", ptx_type=ptx_type, size_bytes=size_bytes, cpp_type=cpp_type)
        for position, ((ptx_type, size_bytes), cpp_type) in enumerate(zip(stated, types, strict=True))
    )
    return Signature(name=qualified, parameters=parameters)


def _stated_in_cubin(compiled: CompiledKernel) -> list[tuple[str, int]]:
    """PTX type without a kind, and size, of every parameter."""
    sizes = [parameter.size_bytes for parameter in cubin_parameters(compiled.cubin, compiled.kernel_name)]
    return [(f"b{8 * size}" if size in (1, 2, 4, POINTER_BYTES) else "b8", size) for size in sizes]


def _stated_in_ptx(compiled: CompiledKernel) -> list[tuple[str, int]]:
    """PTX type and size of every parameter."""
    match = re.search(rf"\.entry\s+{re.escape(compiled.kernel_name)}\s*(?:\(([^)]*)\))?", compiled.ptx)
    if match is None:
        raise InputError(f"kernel {compiled.kernel_name!r} is not in the PTX")
    stated = [_PARAMETER.search(part) for part in (match[1] or "").split(",") if part.strip()]
    return [
        (one["type"], max(1, int(re.sub(r"\D", "", one["type"])) // 8) * int(one["size"] or 1))
        for one in stated
        if one is not None
    ]


def compile_with_signature(request: CompileRequest, architecture: str) -> tuple[CompiledKernel, Signature]:
    """The compiled kernel and its `described_signature`, compiled at the same time; errors as for `compile_kernel`."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        described = pool.submit(_debug_ptx, request, architecture)
        compiled = compile_kernel(request, architecture)
        return compiled, _described(compiled, request, described.result)


def described_signature(compiled: CompiledKernel, request: CompileRequest) -> Signature:
    """The signature with the names that the source gives its parameters, and types for ``extern "C"`` kernels too.

    They come from the debug information of a compilation of its own; where there is none, as for PTX, the signature is that of
    `signature_of`.
    """
    return _described(compiled, request, partial(_debug_ptx, request, compiled.architecture))


def _described(compiled: CompiledKernel, request: CompileRequest, debug_ptx: Callable[[], str]) -> Signature:
    plain = signature_of(compiled)
    if not plain.parameters or not uses_nvcc(request):
        return plain
    key = _parameters_key(compiled.key)
    stored = disk_cache.fetch(key)
    if stored is None:
        stored = json.dumps(_declared(debug_ptx(), compiled.kernel_name)).encode()
        disk_cache.keep(key, stored)
    return plain.described([(name, cpp_type) for name, cpp_type in json.loads(stored)])


def _parameters_key(key: str) -> str:
    """Where names and types of the parameters of compiled code with a key are kept."""
    return f"parameter-names-{key}"


def _debug_ptx(request: CompileRequest, architecture: str) -> str:
    """The file's PTX with debug information; empty where that cannot be had, or what it says is known already."""
    if not uses_nvcc(request) or disk_cache.fetch(_parameters_key(content_key(request, architecture))) is not None:
        return ""
    try:
        return compile_with_debug_information(request, request.virtual_architecture(architecture))
    except (PerfmodelError, OSError):  # the compilation without debug information says what is wrong
        return ""


def _declared(ptx: str, kernel_name: str) -> list[tuple[str, str]]:
    """Names and C++ types of a kernel's parameters in the debug information; none where there is none."""
    information = debug_information(ptx)
    if information is None:
        return []
    wanted = _stable(kernel_name)
    for unit in information.iter_CUs():
        for die in unit.get_top_DIE().iter_children():
            linkage = die.attributes.get("DW_AT_MIPS_linkage_name") or die.attributes.get("DW_AT_linkage_name")
            if die.tag == "DW_TAG_subprogram" and linkage is not None and _stable(linkage.value.decode()) == wanted:
                children = [child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter"]
                return [(_name(child), _type_text(child)) for child in children]
    return []


def _stable(name: str) -> str:
    """A mangled name without the number of its file's anonymous namespace, which the compiler's options change."""
    return re.sub(r"_GLOBAL__N__[0-9a-f]{8}", "_GLOBAL__N_", name)


def _name(die: DIE) -> str:
    attribute = die.attributes.get("DW_AT_name")
    return "" if attribute is None else attribute.value.decode(errors="replace")


def _type_text(die: DIE) -> str:
    """The C++ type of what an entry describes.

    Typedefs are looked through, so that ``floatX`` reads as what it stands for.
    """
    if "DW_AT_type" not in die.attributes:
        return "void"
    kind: Any = die.get_DIE_from_attribute("DW_AT_type")
    inner = {"DW_TAG_pointer_type": "{}*", "DW_TAG_const_type": "{} const", "DW_TAG_volatile_type": "{} volatile"}
    if kind.tag in inner:
        return inner[kind.tag].format(_type_text(kind))
    if kind.tag in ("DW_TAG_typedef", "DW_TAG_restrict_type"):
        return _type_text(kind)
    return _name(kind)


def dynamic_shared_array(compiled: CompiledKernel) -> str | None:
    """Name of the array of dynamic shared memory that a kernel or a device function names, None where there is none."""
    bodies = "".join(
        compiled.ptx[function.start : function.stop]
        for function in ptx_functions(compiled.ptx)
        if not function.is_kernel or function.name == compiled.kernel_name
    )
    for match in _DYNAMIC_SHARED.finditer(compiled.ptx):
        if re.search(rf"(?<![.\w$]){re.escape(match[1])}(?![\w$])", bodies):
            return split_name(match[1])[0]
    return None
