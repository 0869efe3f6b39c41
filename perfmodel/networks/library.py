"""Networks as data files: the project's own, and a user's in the same form.

A file has ``title``, ``source`` and a table ``layer`` for each layer: ``name``; ``after``, the names of the layers whose results
it takes (left out: the layer before it; ``[]``: none); ``family`` with ``problem``, the fields of the family's problem without
``batch``; or, where no family covers it, ``operation`` with ``uncovered``, the reason, and where they are known ``kind``, the
``elements`` that it reads and writes and its ``flops``, both for one image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from ..core.choices import one_of
from ..core.constants import FLOAT_BYTES
from ..core.documents import parse_toml
from ..errors import InputError
from ..families.registry import family
from .covering import describe
from .graph import Demand, Layer, LayerKind, Network, assemble

_FILE_KEYS = {"title", "source", "layer"}
_COVERED_KEYS = {"name", "after", "family", "problem"}
_UNCOVERED_KEYS = {"name", "after", "operation", "uncovered", "kind", "elements", "flops"}


def network_names() -> tuple[str, ...]:
    """Names of the networks that come with the project, in alphabetical order.

    >>> "mobilenet_v1" in network_names()
    True
    """
    folder = resources.files("perfmodel.data").joinpath("networks")
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")))


def load_network(name_or_file: str, batch: int = 1) -> Network:
    """The network of a name, or of a file that ends in ``.toml``, with the batch put into every layer.

    Raises ``InputError`` for an unknown name (with the nearest ones), an unreadable file or a layer that is wrong.

    >>> load_network("mobilenet_v1", batch=32).layers[0].problem.batch
    32
    """
    if name_or_file.endswith(".toml"):
        return _parse(Path(name_or_file).stem, name_or_file, _read(Path(name_or_file)), batch)
    if name_or_file not in network_names():
        near = get_close_matches(name_or_file, network_names(), n=2, cutoff=0.4)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"unknown network {name_or_file!r}{hint} (known: {', '.join(network_names())}, or a file)")
    text = resources.files("perfmodel.data").joinpath("networks", f"{name_or_file}.toml").read_text(encoding="utf-8")
    return _parse(name_or_file, name_or_file, text, batch)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text in UTF-8"
        raise InputError(f"network file {path} cannot be read: {reason}") from error


def _parse(name: str, origin: str, text: str, batch: int) -> Network:
    content = parse_toml(text, f"network file {origin} is not TOML")
    _require_keys(origin, content, required={"title", "layer"}, accepted=_FILE_KEYS)
    if not isinstance(content["layer"], list):
        raise InputError(f"network file {origin}: layer must be an array of tables, [[layer]]")
    return assemble(name, str(content["title"]), batch, _layers(origin, content["layer"], batch))


def _layers(origin: str, entries: list[Any], batch: int) -> Iterator[tuple[Layer, list[str]]]:
    before: list[str] = []
    for place, entry in enumerate(entries, 1):
        where = f"{origin}, layer {place}"
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise InputError(f"network file {where}: needs a name")
        where = f"{origin}, layer {entry['name']!r}"
        after = entry.get("after", before)
        if not isinstance(after, list) or not all(isinstance(item, str) for item in after):
            raise InputError(f"network file {where}: after={after!r} must be a list of layer names")
        yield _layer(where, entry, batch), after
        before = [entry["name"]]


def _layer(where: str, entry: Mapping[str, Any], batch: int) -> Layer:
    if "uncovered" in entry:
        _require_keys(where, entry, required={"operation"}, accepted=_UNCOVERED_KEYS)
        return Layer(
            name=entry["name"],
            operation=str(entry["operation"]),
            uncovered=str(entry["uncovered"]),
            kind=one_of(LayerKind, f"network file {where}: kind", entry.get("kind", LayerKind.OTHER)),
            demand=_demand(where, entry, batch),
        )
    _require_keys(where, entry, required={"family", "problem"}, accepted=_COVERED_KEYS)
    if not isinstance(entry["problem"], dict):
        raise InputError(f"network file {where}: problem={entry['problem']!r} must be a table")
    chosen = family(str(entry["family"]))
    try:
        problem = chosen.problem_type(batch=batch, **entry["problem"])
    except (TypeError, InputError) as error:
        message = str(error).replace(f"{chosen.problem_type.__name__}.__init__() ", "")
        raise InputError(f"network file {where}: {message}") from error
    operation = describe(problem) or " ".join(f"{name} {value}" for name, value in entry["problem"].items())
    kind = LayerKind.CONVOLUTION if describe(problem) else LayerKind.OTHER
    return Layer(name=entry["name"], operation=operation, problem=problem, kind=kind)


def _demand(where: str, entry: Mapping[str, Any], batch: int) -> Demand | None:
    """What a layer without a family moves and computes, from what the file says of one image."""
    numbers = {name: entry.get(name, 0) for name in ("elements", "flops")}
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise InputError(f"network file {where}: {name}={value!r} must be an integer, 0 or more")
    if not any(numbers.values()):
        return None
    return Demand(dram_bytes=FLOAT_BYTES * batch * numbers["elements"], flops=batch * numbers["flops"])


def _require_keys(where: str, table: Mapping[str, Any], required: set[str], accepted: set[str]) -> None:
    unknown, missing = sorted(set(table) - accepted), sorted(required - set(table))
    if unknown:
        raise InputError(f"network file {where}: unknown key {unknown[0]!r} (accepted: {', '.join(sorted(accepted))})")
    if missing:
        raise InputError(f"network file {where}: {missing[0]!r} is missing")
