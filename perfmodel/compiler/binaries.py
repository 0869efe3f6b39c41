"""PTX inside binaries: programs, libraries and object files carry it in their fat binary; a cubin has none."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ..errors import InputError
from .kernel_names import find_kernel, kernels_of, listed
from .toolchain import cuda13_program


def ptx_modules(path: Path) -> tuple[str, ...]:
    """The PTX texts that a binary holds, one for each architecture of each source file; empty for a cubin."""
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        command = [str(cuda13_program("cuobjdump")), "--extract-ptx", "all", str(path)]
        subprocess.run(command, cwd=folder, capture_output=True, check=False)
        return tuple(file.read_text(encoding="utf-8", errors="replace") for file in sorted(Path(folder).glob("*.ptx")))


def ptx_with_kernel(path: Path, kernel: str) -> str:
    """The PTX of a binary that holds a kernel.

    Raises:
        InputError: the binary holds no PTX, or none with this kernel.
    """
    modules = ptx_modules(path)
    if not modules:
        raise InputError(
            f"{path.name} holds machine code without PTX, which is executed here: compile it with "
            "-gencode=arch=compute_XX,code=compute_XX, or name its .cu or .ptx file"
        )
    for text in modules:
        if find_kernel(kernels_of(text), kernel, path.name) is not None:
            return text
    names = dict.fromkeys(name for text in modules for name in kernels_of(text))
    raise InputError(f"{path.name} has no kernel {kernel!r} in PTX; its kernels: {listed(names)}")
