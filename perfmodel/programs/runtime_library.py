"""The stand-in CUDA runtime as a shared library: built by the C++ compiler on first use, kept in the cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ..compiler.disk_cache import cache_directory
from ..compiler.messages import one_line
from ..compiler.toolchain import wheel_directory
from ..errors import CompileError, CompilerMissingError

_HEADERS = {12: ("cuda_runtime", "cuda_nvcc"), 13: ("cu13",)}
"""Wheels whose headers and libraries belong to a major version of CUDA."""
_ERROR = re.compile(r"^\s*(cudaError\w+|cudaSuccess)\s*=\s*(\d+)", re.MULTILINE)
_PER_THREAD = re.compile(r"_ptsz$|_ptds$")
_WITHOUT_EFFECT = (
    "cudaCtxResetPersistingL2Cache",
    "cudaDeviceSetCacheConfig",
    "cudaDeviceSetMemPool",
    "cudaDeviceSetSharedMemConfig",
    "cudaFuncSetCacheConfig",
    "cudaFuncSetSharedMemConfig",
    "cudaGraphAddDependencies",
    "cudaGraphAddDependencies_v2",
    "cudaGraphDebugDotPrint",
    "cudaGraphUpload",
    "cudaMemAdvise",
    "cudaMemAdvise_v2",
    "cudaMemPoolDestroy",
    "cudaMemPoolSetAccess",
    "cudaMemPoolSetAttribute",
    "cudaMemPoolTrimTo",
    "cudaMemPrefetchAsync",
    "cudaMemPrefetchAsync_v2",
    "cudaProfilerStart",
    "cudaProfilerStop",
    "cudaSetDeviceFlags",
    "cudaSetValidDevices",
    "cudaStreamAttachMemAsync",
    "cudaStreamCopyAttributes",
    "cudaStreamSetAttribute",
    "cudaThreadSetCacheConfig",
)
"""Functions that give hints to the hardware or the driver: they succeed and change nothing."""
_JUMP = {"x86_64": "jmp {}@PLT", "aarch64": "b {}"}


def cxx_compiler() -> str:
    """The C++ compiler that nvcc uses, too; ``CompilerMissingError`` where there is none."""
    found = shutil.which(os.environ.get("NVCC_CCBIN") or "g++")
    if found is None:
        raise CompilerMissingError(
            "programs are run with a runtime library that g++ builds, and no g++ is in the path: install it, or name a C++ "
            "compiler in NVCC_CCBIN"
        )
    return found


def runtime_library(cuda_major: int = 13) -> Path:
    """The library that takes the place of ``libcudart.so.12`` or ``libcudart.so.13``.

    Every function that NVIDIA's library exports is there; those that the stand-in lacks say so when they are called.

    Raises:
        CompilerMissingError: no C++ compiler, or the wheels of that version of CUDA are not installed.
        CompileError: the library does not compile; the text is the compiler's first error.
    """
    folders = [wheel_directory(package) for package in _HEADERS[cuda_major]]
    name = f"libcudart.so.{cuda_major}"
    sources = {file.name: file.read_text(encoding="utf-8") for file in _sources()}
    api = _exported(folders[0] / "lib" / name)
    enumeration = (folders[0] / "include" / "driver_types.h").read_text(encoding="utf-8", errors="replace")
    sources["generated.cpp"] = _generated(api, "\n".join(sources.values()), dict(_ERROR.findall(enumeration)))
    sources["versions.map"] = f"{name} {{ global: cuda*; __cuda*; }};\n"
    compiler = cxx_compiler()
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    key = hashlib.sha256("\0".join([version, str(cuda_major), *sources, *sources.values()]).encode()).hexdigest()
    target = cache_directory() / "runtime" / key[:32] / name
    if not target.is_file():
        _build(compiler, sources, [folder / "include" for folder in folders], target)
    return target


def _sources() -> list[Path]:
    folder = Path(str(resources.files("perfmodel.runtime")))
    return sorted((*folder.glob("*.cpp"), *folder.glob("*.hpp")))


def _exported(library: Path) -> list[str]:
    """Functions that NVIDIA's library exports."""
    with library.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".dynsym")
        symbols = [s for s in table.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"]
        return sorted({s.name for s in symbols if s["st_info"]["type"] == "STT_FUNC"})


def _generated(api: Sequence[str], written: str, errors: dict[str, str]) -> str:
    """What follows from NVIDIA's own lists: functions without effect, functions that are missing, names of errors."""
    defined = set(re.findall(r"^EXPORTED .*?\b(_*cuda\w+)\(", written, re.MULTILINE))
    jump = _JUMP.get(os.uname().machine)
    lines = ["// Made when the runtime is built.", 'extern "C" int perfmodel_missing(const char *function);']
    for name in api:
        plain = _PER_THREAD.sub("", name)
        if name in defined:
            continue
        head = f'extern "C" __attribute__((visibility("default"))) int {name}()'
        if plain != name and plain in defined and jump is not None:
            lines.append(f'__asm__(".globl {name}\\n.type {name},@function\\n{name}: {jump.format(plain)}");')
        elif plain in _WITHOUT_EFFECT:
            lines.append(f"{head} {{ return 0; }}")
        else:
            lines.append(f'{head} {{ return perfmodel_missing("{plain}"); }}')
    cases = [f'    case {number}: return "{name}";' for name, number in sorted(errors.items(), key=lambda e: int(e[1]))]
    lines += ['extern "C" const char *perfmodel_error_name(int error) {', "    switch (error) {", *cases]
    return "\n".join([*lines, '    default: return "unrecognized error code";', "    }", "}", ""])


def _build(compiler: str, sources: dict[str, str], includes: Sequence[Path], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="perfmodel-", dir=target.parent) as folder:
        for name, text in sources.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        built = Path(folder) / target.name
        command = [compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-w"]
        command += [f"-I{include}" for include in includes]
        command += [
            f"-Wl,-soname,{target.name}",
            f"-Wl,--version-script={Path(folder) / 'versions.map'}",
            "-o",
            str(built),
        ]
        command += [str(Path(folder) / name) for name in sources if name.endswith(".cpp")]
        run = subprocess.run([*command, "-ldl"], capture_output=True, text=True, errors="replace", check=False)
        if run.returncode != 0:
            raise CompileError(f"the stand-in runtime does not compile: {one_line(run.stderr, [folder])}")
        os.replace(built, target)
