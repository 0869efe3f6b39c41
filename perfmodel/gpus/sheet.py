"""Reads one GPU file: TOML in which every value stands beside its source, above the values of the file it is based on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ..core.documents import converted, parse_toml
from ..errors import InputError
from .architecture import Architecture
from .gpu import Gpu

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

T = TypeVar("T")


class Fact(Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    """One value and where it comes from; a source that begins with ``derived:`` says that nobody published it."""

    value: T
    source: Annotated[str, Meta(pattern=r"\S")]


def _types(record: type, *others: str) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    return {name: kind for name, kind in hints.items() if name not in others}


_ARCHITECTURE_TYPES = _types(Architecture, "name")
FIELD_TYPES: Mapping[str, Any] = MappingProxyType(
    {"compute_capability": tuple[int, int], **_ARCHITECTURE_TYPES, **_types(Gpu, "id", "name", "architecture")}
)
"""The fields that a GPU file gives as ``{ value = …, source = "…" }``, with their types."""

GpuFile = msgspec.defstruct(
    "GpuFile",
    [
        ("base", str | None, None),
        ("name", str | None, None),
        ("device_names", tuple[str, ...], ()),
        ("aliases", tuple[str, ...], ()),
        *((name, Fact[kind] | UnsetType, UNSET) for name, kind in FIELD_TYPES.items()),  # type: ignore[valid-type]
    ],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    namespace={"__doc__": "A GPU file: its base, its names, and every value with its source."},
)
"""What a GPU file may say: its base, its names, and every field with a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What a GPU file says, above what its base says; ``origin`` is how messages call the file.

    ``device_names`` are what the driver calls the GPU, ``aliases`` what people call it. ``origins`` names the file that each fact
    stands in.
    """

    origin: str
    name: str | None
    device_names: tuple[str, ...]
    aliases: tuple[str, ...]
    facts: Mapping[str, Fact[Any]]
    origins: Mapping[str, str]


def read_sheet(path: Traversable, origin: str, base_of: Callable[[str], Sheet]) -> Sheet:
    """The sheet in a file; ``base_of`` gives the one that it is based on.

    Raises:
        InputError: the file cannot be read, is not TOML, or has a key or a value that is not accepted.
    """
    table: Any = converted(GpuFile, _toml(path, origin), origin)
    own = {name: getattr(table, name) for name in FIELD_TYPES if getattr(table, name) is not UNSET}
    origins = dict.fromkeys(own, origin)
    names = {"device_names": table.device_names, "aliases": table.aliases}
    if table.base is None:
        return Sheet(origin=origin, name=table.name, facts=own, origins=origins, **names)
    try:
        base = base_of(table.base)
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    name = table.name or base.name
    return Sheet(origin=origin, name=name, facts={**base.facts, **own}, origins={**base.origins, **origins}, **names)


def architecture_from_sheet(name: str, sheet: Sheet) -> Architecture:
    """The architecture that a sheet describes, under a name such as ``sm_90``."""
    return Architecture(name=name, **{field: sheet.facts[field].value for field in _ARCHITECTURE_TYPES})


def gpu_from_sheet(gpu_id: str, sheet: Sheet) -> Gpu:
    """The GPU that a sheet describes.

    Raises:
        InputError: a field is missing, or two fields contradict each other.
    """
    missing = [field for field in FIELD_TYPES if field not in sheet.facts]
    if sheet.name is None:
        missing.insert(0, "name")
    if missing:
        raise InputError(f"{sheet.origin}: missing {', '.join(missing)}; give them, or a base that has them")
    values = {field: fact.value for field, fact in sheet.facts.items() if field not in _ARCHITECTURE_TYPES}
    major, minor = values.pop("compute_capability")
    architecture = architecture_from_sheet(f"sm_{major}{minor}", sheet)
    gpu = Gpu(id=gpu_id, name=str(sheet.name), architecture=architecture, **values)
    for agrees, rule in _rules(gpu):
        if not agrees:
            raise InputError(f"{sheet.origin}: {rule}")
    return gpu


def _toml(path: Traversable, origin: str) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{origin}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{origin}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: is not TOML: {error}") from error
    return parse_toml(text, origin)


def _rules(gpu: Gpu) -> Iterable[tuple[bool, str]]:
    """What the fields of one GPU owe each other: whether it holds, and how to say it."""
    carve_outs = gpu.shared_carve_outs_bytes
    yield (
        gpu.base_clock_hz <= gpu.boost_clock_hz,
        f"base_clock_hz = {gpu.base_clock_hz:g} must not exceed boost_clock_hz = {gpu.boost_clock_hz:g}",
    )
    yield (
        gpu.registers_per_sm % gpu.sub_partitions_per_sm == 0,
        f"sub_partitions_per_sm = {gpu.sub_partitions_per_sm} must divide registers_per_sm = {gpu.registers_per_sm}",
    )
    yield (
        gpu.shared_bytes_per_block <= gpu.shared_bytes_per_block_opt_in,
        f"shared_bytes_per_block = {gpu.shared_bytes_per_block} must not exceed "
        f"shared_bytes_per_block_opt_in = {gpu.shared_bytes_per_block_opt_in}",
    )
    yield (
        gpu.shared_bytes_per_block_opt_in + gpu.shared_reserved_bytes_per_block <= gpu.shared_bytes_per_sm,
        f"shared_bytes_per_block_opt_in = {gpu.shared_bytes_per_block_opt_in} and the reserved bytes "
        f"must fit in shared_bytes_per_sm = {gpu.shared_bytes_per_sm}",
    )
    yield (
        not carve_outs or (list(carve_outs) == sorted(set(carve_outs)) and carve_outs[-1] == gpu.shared_bytes_per_sm),
        f"shared_carve_outs_bytes = {list(carve_outs)} must ascend to shared_bytes_per_sm = {gpu.shared_bytes_per_sm}",
    )
    yield (
        (carve_outs[-1] if carve_outs else 0) <= gpu.l1_bytes_per_sm - gpu.l1_reserved_bytes,
        f"l1_bytes_per_sm = {gpu.l1_bytes_per_sm} must hold the largest carve-out of shared memory and what is reserved",
    )
