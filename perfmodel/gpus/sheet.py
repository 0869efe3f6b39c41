"""Reads one GPU file: TOML in which every value stands beside its source, above the values of the file it is based on."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_type_hints

from ..core.toml_text import parse_toml
from ..errors import InputError
from .gpu import Gpu, IntegerPorts

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

FIELD_TYPES: Mapping[str, Any] = MappingProxyType(
    {name: kind for name, kind in get_type_hints(Gpu).items() if name not in ("id", "name")}
)
"""The fields that a GPU file gives as ``{ value = …, source = "…" }``, with their types."""

_HEAD_KEYS = ("base", "name", "device_names")
_LARGEST = 2**62
"""More than any fact of a GPU; sums and products of them stay within 64 bits or are floating-point."""
_MAY_BE_ZERO = frozenset(
    {
        "barriers_per_sm",
        "block_dispatch_cycles",
        "compute_capability",
        "empty_kernel_s",
        "instruction_cache_l0_bytes",
        "instruction_prefetch_bytes",
        "instruction_supply_cycles",
        "launch_overhead_s",
        "shared_bytes_apart_from_l1",
        "l1_reserved_bytes",
        "shared_carve_outs_bytes",
        "shared_load_wavefronts_per_store_sector",
        "shared_reserved_bytes_per_block",
        "shared_store_wavefronts_per_load_request",
    }
)
_ACCEPTED = {
    int: "an integer",
    float: "a number",
    IntegerPorts: f"one of {', '.join(ports.value for ports in IntegerPorts)}",
    tuple[int, int]: "a list of two integers",
    tuple[int, ...]: "a list of integers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What a GPU file says, above what its base says; ``origin`` is how messages call the file."""

    origin: str
    name: str | None
    device_names: tuple[str, ...]
    facts: Mapping[str, Fact]


def read_sheet(path: Traversable, origin: str, base_of: Callable[[str], Sheet]) -> Sheet:
    """The sheet in a file; ``base_of`` finds the one that it is based on.

    Raises:
        InputError: the file cannot be read, is not TOML, or has a key or a value that is not accepted.
    """
    table = _toml(path, origin)
    name, device_names = table.get("name"), table.get("device_names", [])
    if not (name is None or isinstance(name, str)):
        raise InputError(f"{origin}: name = {name!r} must be a string")
    if not (isinstance(device_names, list) and all(isinstance(item, str) for item in device_names)):
        raise InputError(f"{origin}: device_names = {device_names!r} must be a list of strings")
    own = {key: _fact(origin, key, entry) for key, entry in table.items() if key not in _HEAD_KEYS}
    if "base" not in table:
        return Sheet(origin=origin, name=name, device_names=tuple(device_names), facts=own)
    if not isinstance(table["base"], str):
        raise InputError(f"{origin}: base = {table['base']!r} must be a string")
    try:
        base = base_of(table["base"])
    except InputError as error:
        raise InputError(f"{origin}: {error}") from None
    return Sheet(origin=origin, name=name or base.name, device_names=tuple(device_names), facts={**base.facts, **own})


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
    gpu = Gpu(id=gpu_id, name=str(sheet.name), **{field: sheet.facts[field].value for field in FIELD_TYPES})
    for agrees, rule in _rules(gpu):
        if not agrees:
            raise InputError(f"{sheet.origin}: {rule}")
    return gpu


def nearest(word: str, accepted: Iterable[str]) -> str:
    """End of a message about an unknown word: the accepted words nearest to it, or all of them where none is near.

    >>> nearest("H20", ["gh200", "h200", "t4"])
    'nearest: h200, gh200'
    """
    words, wanted = list(accepted), word.lower()
    beginning_so = [candidate for candidate in words if len(wanted) > 1 and candidate.startswith(wanted)]
    found = dict.fromkeys([*beginning_so, *difflib.get_close_matches(wanted, words, n=3)])
    return f"nearest: {', '.join(found)}" if found else f"accepted: {', '.join(words)}"


def _toml(path: Traversable, origin: str) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{origin}: there is no such file") from None
    except OSError as error:
        raise InputError(f"{origin}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{origin}: is not TOML: {error}") from error
    return parse_toml(text, f"{origin}: is not TOML")


def _fact(origin: str, key: str, entry: object) -> Fact:
    if key not in FIELD_TYPES:
        raise InputError(f"{origin}: unknown key {key!r}; {nearest(key, (*_HEAD_KEYS, *FIELD_TYPES))}")
    if not (isinstance(entry, dict) and entry.keys() == {"value", "source"}):
        raise InputError(f'{origin}: {key} must be {{ value = …, source = "…" }}, not {entry!r}')
    value, source = entry["value"], entry["source"]
    if not (isinstance(source, str) and source.strip()):
        raise InputError(f"{origin}: {key} must say its source in a string, not {source!r}")
    if not _is_kind(value, FIELD_TYPES[key]):
        raise InputError(f"{origin}: {key} = {value!r} must be {_ACCEPTED[FIELD_TYPES[key]]}")
    if not _is_in_range(value, key):
        bound = "0 or more" if key in _MAY_BE_ZERO else "more than 0"
        raise InputError(f"{origin}: {key} = {value!r} must be {bound} and finite")
    return Fact(value=_converted(value, FIELD_TYPES[key]), source=source)


def _is_kind(value: object, kind: Any) -> bool:
    if kind is int:
        return type(value) is int
    if kind is float:
        return type(value) in (int, float)
    if kind is IntegerPorts:
        return value in [ports.value for ports in IntegerPorts]
    is_integers = isinstance(value, list) and all(type(item) is int for item in value)
    return is_integers and (kind != tuple[int, int] or len(value) == 2)  # type: ignore[arg-type]


def _is_in_range(value: Any, key: str) -> bool:
    numbers = value if isinstance(value, list) else [] if isinstance(value, str) else [value]
    return all(number <= _LARGEST and (number > 0 or (number == 0 and key in _MAY_BE_ZERO)) for number in numbers)


def _converted(value: Any, kind: Any) -> Any:
    return kind(value) if kind in (int, float, IntegerPorts) else tuple(value)


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
