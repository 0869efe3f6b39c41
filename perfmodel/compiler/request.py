"""What is to be compiled: source, kernel, macros and options, as one value that can be hashed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileRequest:
    """One kernel of one source under one set of macros.

    ``kernel`` is a plain ``extern "C"`` name or a name expression such as ``conv<5,2>``. ``defines`` become ``-DNAME=VALUE``
    in the given order; ``options`` are further NVRTC options; ``file_name`` is what messages and line information call the source.
    """

    source: str
    kernel: str
    file_name: str
    defines: tuple[tuple[str, str | int], ...] = ()
    options: tuple[str, ...] = ()
    include_directories: tuple[str, ...] = ()
