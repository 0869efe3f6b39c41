"""What an argument of a kernel is: a buffer, a scalar, a null pointer, a structure, a tensor map, a texture or a surface."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path

from ..errors import InputError
from .element_type import ElementType
from .expression import Expression
from .texture import AddressMode, Extent


class FillKind(Enum):
    """What a buffer holds before the launch."""

    RANDOM = "random"
    CONSTANT = "constant"
    ARANGE = "arange"
    BOUNDED = "bounded"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Contents of a buffer: the kind, with a constant, bounds (inclusive for integers) or a file where it needs them."""

    kind: FillKind
    low: float = 0
    high: float = 0
    path: Path | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether contents are random."""
        return self.kind in (FillKind.RANDOM, FillKind.BOUNDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSpec:
    """A buffer: elements, how many (None: as many as the file has), contents, and extents where there are several axes."""

    text: str
    element: ElementType
    count: Expression | None
    fill: Fill
    shape: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSpec:
    """A scalar: its type, None for that of the parameter, and value."""

    text: str
    element: ElementType | None
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class NullSpec:
    """A null pointer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerSpec:
    """A field of a structure that points to a buffer; without one it is null."""

    text: str
    buffer: BufferSpec | None = None


FieldSpec = ScalarSpec | BufferSpec | PointerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureSpec:
    """A structure, or a buffer of so many: a file that holds their bytes, or the fields of each in order."""

    text: str
    path: Path | None = None
    fields: tuple[FieldSpec, ...] = ()
    in_buffer: bool = False
    count: Expression | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapSpec:
    """A tensor map: its buffer, extents of the array and of the box (outermost first), strides, swizzle."""

    text: str
    buffer: BufferSpec
    shape: tuple[Expression, ...]
    box: tuple[Expression, ...]
    strides_bytes: tuple[Expression, ...] | None = None
    element_strides: tuple[Expression, ...] | None = None
    swizzle_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextureSpec:
    """A texture or surface object: its array's texels, extents (outermost first), and how it is seen."""

    text: str
    buffer: BufferSpec
    shape: tuple[Expression, ...]
    extent: Extent
    channels: int
    in_memory: bool
    address_mode: AddressMode
    linear: bool
    normalized: bool
    as_float: bool


ArgumentSpec = BufferSpec | ScalarSpec | NullSpec | StructureSpec | TensorMapSpec | TextureSpec


def spec_identity(spec: ArgumentSpec) -> str:
    """A text that is the same where a spec means the same: of a file its contents count, not its name."""
    path = spec.fill.path if isinstance(spec, BufferSpec) else spec.path if isinstance(spec, StructureSpec) else None
    if path is None:
        return spec.text
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"argument {spec.text!r}: {path} cannot be read: {error}") from error
    return f"{spec.text.partition('@')[0]}@{digest}"
