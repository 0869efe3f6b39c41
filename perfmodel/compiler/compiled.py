"""One kernel compiled for one architecture: what the prediction is made from and what ``validation`` launches."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..errors import CompileError, InputError
from ..gpus.catalogue import load_architecture
from ..sources.includes import read_text
from ..sources.kernel_source import SourceKind
from ..sources.project_headers import files_with_bodies, project_folders
from ..sources.ptx_text import without_comments
from . import disk_cache
from .assembler import Assembled, assemble
from .device_images import ImageKind, device_images, image_for
from .front_end import Ptx, compile_apart
from .kernel_names import demangled, find_kernel, kernels_of, no_kernel
from .messages import TEXTURE_REFERENCES
from .nvcc import compile_file
from .nvcc_run import plain_file_names
from .ptx_functions import ptx_functions, with_kernel_only
from .request import CompileRequest, digest
from .resources import Resources, code_digest, read_resources
from .toolchain import compiler_version, nvcc_available, nvcc_version

_REFERENCE = re.compile(r"\.global\s+\.(?:texref|surfref|samplerref)\s+([\w$]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """PTX, cubin, resources and the content hash that names them together; ``note`` is what users should know, or empty.

    ``architecture`` is that of the machine code: a cubin of a user's binary may be for an earlier one than the GPU's. ``ptx`` is
    empty where such a binary has none. ``source_digest`` is the hash of what the user gave: source, headers, macros, options.
    """

    kernel_name: str
    architecture: str
    key: str
    ptx: str
    cubin: bytes
    resources: Resources
    note: str = ""
    source_digest: str = ""

    @property
    def code_digest(self) -> str:
        """Hash of the machine code, whatever the folder that it was compiled in."""
        return code_digest(self.cubin)


def compiler_of(request: CompileRequest) -> str:
    """Version of what compiles a request."""
    if request.kind in (SourceKind.PTX, SourceKind.BINARY) or uses_nvcc(request):
        return nvcc_version()
    return compiler_version()


def uses_nvcc(request: CompileRequest) -> bool:
    """Whether a request is compiled by nvcc: whole files, where a C++ compiler is installed."""
    return request.kind is SourceKind.CUDA_FILE and nvcc_available()


def content_key(request: CompileRequest, architecture: str, compiler: str | None = None) -> str:
    """Hash of everything that decides the code: source, included files, macros, options, compiler, architecture.

    ``compiler`` is the version to name where another than the installed one is meant (or none is installed).
    """
    return _key(request.decisive_parts(), request, architecture, compiler)


def _key(parts: tuple[object, ...], request: CompileRequest, architecture: str, compiler: str | None = None) -> str:
    return digest(*parts, request.virtual_architecture(architecture), compiler or compiler_of(request), architecture)


def _ptx(request: CompileRequest, virtual_architecture: str, parts: tuple[object, ...]) -> Ptx:
    if request.kind is SourceKind.PTX:
        return _chosen(request)
    key = "ptx-" + digest(*parts, virtual_architecture, compiler_of(request))
    stored = disk_cache.fetch(key)
    if stored is not None:
        return Ptx(**json.loads(stored))
    compiled = compile_file if uses_nvcc(request) else compile_apart
    ptx = compiled(request, virtual_architecture)
    disk_cache.keep(key, json.dumps(asdict(ptx)).encode())
    return ptx


def _chosen(request: CompileRequest) -> Ptx:
    """A user's PTX with the name of the kernel asked about."""
    kernels = kernels_of(request.source)
    name = find_kernel(kernels, request.kernel, request.file_name)
    if name is None:
        raise InputError(no_kernel(request.file_name, request.kernel, kernels))
    text = without_comments(request.source) if _REFERENCE.search(request.source) else ""
    for reference in _REFERENCE.finditer(text):
        if len(re.findall(rf"(?<![\w$]){re.escape(reference[1])}(?![\w$])", with_kernel_only(text, name))) > 1:
            line = text.count("\n", 0, reference.start()) + 1
            raise CompileError(f"{request.file_name}:{line}: reference {reference[1]}: {TEXTURE_REFERENCES}")
    return Ptx(text=plain_file_names(request.source), kernel_name=name, log="")


def _assembled(ptx: Ptx, key: str, request: CompileRequest, architecture: str) -> Assembled:
    stored = disk_cache.fetch("cubin-" + key)
    if stored is not None:
        log_bytes = int.from_bytes(stored[:8], "little")
        return Assembled(log=stored[8 : 8 + log_bytes].decode(), cubin=stored[8 + log_bytes :])
    assembled = assemble(ptx.text, request.target(architecture), request.options)
    log = assembled.log.encode()
    disk_cache.keep("cubin-" + key, len(log).to_bytes(8, "little") + log + assembled.cubin)
    return assembled


def compile_kernel(request: CompileRequest, architecture: str) -> CompiledKernel:
    """Compile (or fetch from the disk cache) one kernel for one architecture such as ``sm_80``.

    Raises ``CompileError`` with the compiler's message, ``CompilerMissingError`` without the extra ``compile``.

    >>> source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'
    >>> request = CompileRequest(source=source, kernel="k", file_name="k.cu")
    >>> compile_kernel(request, "sm_80").resources.stack_bytes_per_thread
    0
    """
    load_architecture(architecture)  # refuses what is none
    if request.kind is SourceKind.BINARY:
        return _from_binary(request, architecture)
    parts = request.decisive_parts()
    ptx = _ptx(request, request.virtual_architecture(architecture), parts)
    whole = _with_bodies(request, ptx)
    if whole is not None:
        with suppress(CompileError):  # else what the assembler says of the file alone
            return compile_kernel(whole, architecture)
    key = _key(parts, request, architecture)
    assembled = _assembled(ptx, key, request, architecture)
    return CompiledKernel(
        kernel_name=ptx.kernel_name,
        architecture=architecture,
        key=key,
        ptx=ptx.text,
        cubin=assembled.cubin,
        resources=read_resources(assembled.cubin, ptx.kernel_name, architecture, assembled.log),
        note=ptx.note,
        source_digest=digest(*parts),
    )


def compile_with_registers(compiled: CompiledKernel, request: CompileRequest, registers: int) -> CompiledKernel:
    """The kernel assembled anew with at most so many registers a thread; where it states launch bounds, these decide.

    Raises ``CompileError`` where the assembler refuses, or where there is no PTX to assemble.
    """
    if not compiled.ptx:
        raise CompileError(f"{compiled.kernel_name} has no PTX that could be assembled again")
    limited = replace(request, options=(*request.options, f"--maxrregcount={registers}"))
    ptx = Ptx(text=compiled.ptx, kernel_name=compiled.kernel_name, log="")
    key = digest(compiled.key, registers)
    assembled = _assembled(ptx, key, limited, compiled.architecture)
    return replace(
        compiled,
        key=key,
        cubin=assembled.cubin,
        resources=read_resources(assembled.cubin, compiled.kernel_name, compiled.architecture, assembled.log),
    )


def _with_bodies(request: CompileRequest, ptx: Ptx) -> CompileRequest | None:
    """The request together with files of the project that have the bodies of what the kernel calls; None where it needs none."""
    if request.path is None or not uses_nvcc(request):
        return None
    absent = [demangled(function.name) for function in ptx_functions(ptx.text) if function.is_declaration]
    names = [re.sub(r"[(<].*", "", name).rpartition("::")[2] for name in absent if "(" in name]
    given = tuple(map(Path, request.include_directories))
    found = files_with_bodies(names, request.path.parent) if names else ()
    more = tuple(path for path in found if path not in (request.path, *request.together))
    if not more:
        return None
    folders = [folder for path in more for folder in project_folders(read_text(path), path.parent, given)]
    directories = tuple(dict.fromkeys((*request.include_directories, *map(str, folders))))
    return replace(request, together=(*request.together, *more), include_directories=directories)


def _from_binary(request: CompileRequest, architecture: str) -> CompiledKernel:
    """The kernel's machine code that a GPU of the architecture executes, or what its PTX is assembled to."""
    images = device_images(request.content, request.file_name)
    image, text, name = image_for(images, request.kernel, architecture, request.file_name)
    if image.kind is ImageKind.PTX:
        ptx = replace(request, kind=SourceKind.PTX, source=image.ptx, kernel=name, content=b"")
        return compile_kernel(ptx, architecture)
    resources = read_resources(image.content, name, image.architecture, "")
    stated = (
        "spilled bytes are not stated by a cubin: its stack may hold them" if resources.stack_bytes_per_thread else ""
    )
    return CompiledKernel(
        kernel_name=name,
        architecture=image.architecture,
        key=content_key(request, architecture),
        ptx="" if text is None else text.ptx,
        cubin=image.content,
        resources=resources,
        note=stated,
        source_digest=digest(*request.decisive_parts()),
    )
