"""CUDA C++ in a Python file's text for cuda.core's ``Program``, PyCUDA's ``SourceModule`` or Torch's ``load_inline``."""

from __future__ import annotations

from dataclasses import dataclass

from .kernel_source import KernelSource, SourceKind
from .python_kernel import BroughtKernel, KernelWish


@dataclass(frozen=True, slots=True)
class CudaText:
    """The text, compiled as a file would be."""

    code: str


def read(kernel_object: CudaText, wish: KernelWish) -> BroughtKernel:
    """One kernel of the text; the only one needs no name."""
    name = wish.kernel or ""
    origin = f"kernel {name} of the text" if name else "the kernel of the text"
    source = KernelSource(kind=SourceKind.CUDA_FILE, file_name="source.cu", text=kernel_object.code)
    return wish.brought(source, name, origin)
