"""Kernels in Python files: the file is imported, but for what Torch's Inductor wrote, which is read without Torch."""

from __future__ import annotations

import sys
import traceback
from importlib import util
from pathlib import Path
from types import ModuleType

from ..errors import InputError
from .includes import read_text
from .inductor import inductor_kernel
from .python_kernel import is_kernel


def kernel_of_file(path: Path, name: str | None) -> tuple[object, str | None]:
    """The kernel object of a name in a Python file of the user's, which is imported for it, and which of its kernels is meant.

    An object that may hold several kernels (CuPy's RawModule, cuda.core's ObjectCode) is named with one of them, as in
    ``module.scale``; of other objects the second is None.

    Raises:
        InputError: the file cannot be imported, or has no such kernel; the message lists those it has.
    """
    text = read_text(path)
    if "torch._inductor" in text:
        return inductor_kernel(text, str(path), name), None
    module = _imported(path)
    kernels = [key for key, value in vars(module).items() if is_kernel(value)]
    if name is None and len(kernels) == 1:
        return vars(module)[kernels[0]], None
    holder, _, inner = (name or "").partition(".")
    if holder not in kernels:
        wanted = "kernel is missing" if name is None else f"{path.name} has no kernel {name!r}"
        raise InputError(f"{wanted}; kernels of {path.name}: {', '.join(kernels) or 'none'}")
    return vars(module)[holder], inner or None


def _imported(path: Path) -> ModuleType:
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.path.insert(0, str(path.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # whatever the user's file raises
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
        line = f" line {frames[-1].lineno}" if frames else ""
        raise InputError(f"{path}{line}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.absolute().parent))
    return module
