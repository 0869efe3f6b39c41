"""Raw kernels of CuPy: CUDA C++ with the options that CuPy hands to the compiler."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError
from .kernel_source import KernelSource, SourceKind, read_kernel_source
from .python_kernel import NAME_ONE, BroughtKernel, KernelWish

_KERNEL = re.compile(r"__global__\s[^;{}()]*?(?:__launch_bounds__\s*\([^()]*\)[^;{}()]*?)?\b(\w+)\s*\(")


def read(kernel_object: Any, wish: KernelWish) -> BroughtKernel:
    """A ``RawKernel``, or one kernel of a ``RawModule``; neither is compiled by CuPy, which needs a GPU for that."""
    name = wish.kernel or getattr(kernel_object, "name", None)
    if name is None:
        named = ", ".join(_KERNEL.findall(getattr(kernel_object, "code", None) or ""))
        held = f"this RawModule holds {named}" if named else "a RawModule may hold several"
        raise InputError(f"kernel is missing: {held}; {NAME_ONE}")
    return wish.brought(_source(kernel_object), name, f"the CuPy kernel {name}", options=kernel_object.options)


def _source(kernel_object: Any) -> KernelSource:
    package = Path(str(sys.modules["cupy"].__file__)).parent
    include = [folder for folder in (package / "_core" / "include",) if folder.is_dir()]
    if kernel_object.file_path is not None:
        return read_kernel_source(kernel_object.file_path, include)
    return KernelSource(
        kind=SourceKind.CUDA_FILE, file_name="source.cu", text=kernel_object.code, include=tuple(include)
    )
