"""From CUDA source to PTX, cubin, resources and instruction mix, without a driver.

``request`` says what to compile, ``front_end`` (NVRTC) makes PTX, ``assembler`` (ptxas) makes a cubin, ``resources``
and ``sass`` read it, ``disk_cache`` remembers it, ``compiled`` joins these steps and ``pool`` runs many of them.
"""

from .compiled import CompiledKernel, compile_kernel, content_key
from .pool import compile_many
from .request import CompileRequest
from .resources import Resources
from .toolchain import compiler_available

__all__ = [
    "CompileRequest",
    "CompiledKernel",
    "Resources",
    "compile_kernel",
    "compile_many",
    "compiler_available",
    "content_key",
]
