"""What a kernel takes: its parameters as the compiled code states them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

_CONSTANT_POINTER = re.compile(r"\bconst\b[^*]*\*(?!.*\*)")
_QUALIFIERS = re.compile(r"(?:\s*\b(?:const|volatile|__restrict__|__restrict|restrict))+\s*$")
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameter:
    """One parameter: its name, PTX type (``u64``; ``b8`` for a structure), size, and C++ type, empty where nothing states it.

    >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float const*").pointed_type
    'float'
    >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float* const").is_pointer
    True
    """

    name: str
    ptx_type: str
    size_bytes: int
    cpp_type: str = ""

    @property
    def text(self) -> str:
        """How a message shows it.

        >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float const*").text
        'const float *x'
        """
        usual = re.sub(r"^([^*]+) const\*", r"const \1*", self.cpp_type or f".{self.ptx_type}")
        return f"{usual[: -len(stars)]} {stars}{self.name}" if (stars := _stars(usual)) else f"{usual} {self.name}"

    @property
    def is_pointer(self) -> bool | None:
        """Whether it is a pointer; None where only the size is known."""
        if self.size_bytes != POINTER_BYTES or self.ptx_type not in ("u64", "b64", "s64"):
            return False
        return self._unqualified.endswith("*") if self.cpp_type else None

    @property
    def _unqualified(self) -> str:
        """The C++ type without what qualifies the parameter itself: ``float*`` of ``float* const``."""
        return _QUALIFIERS.sub("", self.cpp_type).rstrip()

    @property
    def is_written(self) -> bool:
        """Whether the kernel may write what it points to."""
        return not _CONSTANT_POINTER.search(self.cpp_type)

    @property
    def pointed_type(self) -> str | None:
        """The C++ type of the elements of a pointer, without qualifiers; None where it is unknown."""
        if not self.is_pointer:
            return None
        return " ".join(re.sub(r"\b(?:const|volatile)\b", " ", self._unqualified[:-1]).split())


def _stars(cpp_type: str) -> str:
    return cpp_type[len(cpp_type.rstrip("*")) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kernel's parameters in order, under the name that messages show."""

    name: str
    parameters: tuple[KernelParameter, ...]

    def described(self, descriptions: Sequence[tuple[str, str]]) -> Signature:
        """The same with names and C++ types that somebody else knows, where there are as many; empty texts say nothing."""
        if len(descriptions) != len(self.parameters):
            return self
        parameters = tuple(
            replace(own, name=name or own.name, cpp_type=cpp_type or own.cpp_type)
            for own, (name, cpp_type) in zip(self.parameters, descriptions, strict=True)
        )
        return replace(self, parameters=parameters)
