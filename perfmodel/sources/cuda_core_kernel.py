"""Object code of cuda.core: a cubin, a fat binary or PTX, with the names of its kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from .kernel_source import KernelSource, SourceKind
from .python_kernel import NAME_ONE, BroughtKernel, KernelWish

_KINDS = {
    "cubin": SourceKind.BINARY,
    "fatbin": SourceKind.BINARY,
    "object": SourceKind.BINARY,
    "library": SourceKind.BINARY,
    "ptx": SourceKind.PTX,
}


def read(kernel_object: Any, wish: KernelWish) -> BroughtKernel:
    """One kernel of an ``ObjectCode``; ``kernel=`` may name it as the C++ source does."""
    kind = _KINDS.get(kernel_object.code_type)
    if kind is None:
        raise InputError(f"an ObjectCode of {kernel_object.code_type} holds no kernel yet: compile it to cubin or ptx")
    names = {str(name): _text(symbol) for name, symbol in (kernel_object.symbol_mapping or {}).items()}
    name = wish.kernel or (next(iter(names)) if len(names) == 1 else None)
    if name is None:
        known = f" (known: {', '.join(names)})" if names else ""
        raise InputError(f"kernel is missing: {NAME_ONE}{known}")
    code = kernel_object.code
    content = Path(code).read_bytes() if isinstance(code, str) else bytes(code)
    is_text = kind is SourceKind.PTX
    source = KernelSource(
        kind=kind,
        file_name=kernel_object.name or "object code",
        text=content.rstrip(b"\0").decode() if is_text else "",
        content=b"" if is_text else content,
    )
    return wish.brought(source, names.get(name, name), f"kernel {name} of the ObjectCode", name=name)


def _text(symbol: bytes | str) -> str:
    return symbol.decode() if isinstance(symbol, bytes) else symbol
