"""A place in the CUDA source, from the compiler's line information."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source file."""

    file: str
    line: int
