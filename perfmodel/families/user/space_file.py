"""The file of a user's own tuning space: macros and their values, constraints, launch and arguments as expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...core.documents import parse_toml
from ...errors import InputError
from ...launch.argument_spec import ArgumentSpec, parse_argument
from ...launch.expression import Expression, Value, parse_expression

_KEYS = (
    *("source", "kernel", "grid", "block", "shared_bytes", "arguments", "constraints", "include", "options"),
    *("sizes", "tune", "tables", "macros", "contents", "problem_size"),
)
MAX_CANDIDATES = 100_000
"""Combinations of a space that are looked at."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
Triple = tuple[Expression, Expression, Expression]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceFile:
    """A tuning space as its file states it; see the manual's page on ``analyze``.

    ``tune`` holds the values of each macro, ``sizes`` names with one value, ``macros`` those computed from the others, in order;
    ``tables`` names whose value is given for each combination of ``tune``, the last macro varying fastest; ``contents`` what
    module-scope arrays hold. ``source`` is the CUDA file or its text where the space brings it along. ``problem_size`` is what a
    cache file says of the problem: ``sizes`` unless the space states it.
    """

    source: str | None
    kernel: str
    tune: Mapping[str, tuple[Value, ...]]
    sizes: Mapping[str, Value]
    tables: Mapping[str, tuple[Value, ...]]
    macros: Mapping[str, Expression]
    constraints: tuple[Expression, ...]
    grid: Triple
    block: Triple
    shared_bytes: Expression
    arguments: tuple[ArgumentSpec, ...]
    contents: Mapping[str, ArgumentSpec]
    include: tuple[Path, ...]
    options: tuple[str, ...]
    problem_size: tuple[Value, ...]

    def names(self, tuned: Mapping[str, Value]) -> dict[str, Value]:
        """Every name that expressions may use, for one choice of the tuned values."""
        found: dict[str, Value] = {**self.sizes, **tuned}
        if self.tables:
            place = self._place(tuned)
            found |= {name: values[place] for name, values in self.tables.items()}
        for name, expression in self.macros.items():
            found[name] = expression.value(found)
        return found

    def _place(self, tuned: Mapping[str, Value]) -> int:
        """Which combination of the tuned values this is."""
        place = 0
        for name, values in self.tune.items():
            if tuned[name] not in values:
                raise InputError(f"{name}={tuned[name]!r} is none of the tuned values {', '.join(map(str, values))}")
            place = place * len(values) + values.index(tuned[name])
        return place

    def kernel_name(self, names: Mapping[str, Value]) -> str:
        """The kernel of one configuration, ``{NAME}`` in it replaced by values."""
        return _PLACEHOLDER.sub(lambda match: str(names[match[1]]), self.kernel)


def read_space_file(path: Path) -> SpaceFile:
    """The space of a file; ``InputError`` names the file, the key and what would be accepted."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"space {path}: {error}") from error
    return parse_space(text, str(path), path.parent)


def parse_space(text: str, origin: str, folder: Path) -> SpaceFile:
    """The space of a TOML text; relative include folders begin at ``folder``.

    >>> space = parse_space('kernel = "k"' + chr(10) + 'grid = "ceil_div(1000, B)"' + chr(10) + 'block = "B"' + chr(10)
    ...                     + 'arguments = []' + chr(10) + '[tune]' + chr(10) + 'B = [32, 64]', "s.toml", Path())
    >>> space.grid[0].integer(space.names({"B": 64}))
    16
    """
    document = parse_toml(text, f"space {origin}")
    try:
        return _space(document, folder)
    except InputError as error:
        raise InputError(f"space {origin}: {error}") from None


def _space(document: dict[str, Any], folder: Path) -> SpaceFile:
    unknown = [key for key in document if key not in _KEYS]
    if unknown:
        raise InputError(f"unknown key {unknown[0]!r} (accepted: {', '.join(_KEYS)})")
    for key in ("kernel", "grid", "block", "tune", "arguments"):
        if key not in document:
            raise InputError(f"key {key!r} is missing")
    tune = {name: _choices(name, values) for name, values in _table(document, "tune").items()}
    if not tune:
        raise InputError("[tune] names no macro")
    sizes = {name: _value(f"sizes.{name}", value) for name, value in _table(document, "sizes").items()}
    macros = {name: _expression(f"macros.{name}", value) for name, value in _table(document, "macros").items()}
    contents = {name: _argument(f"contents.{name}", text) for name, text in _table(document, "contents").items()}
    combinations = prod(map(len, tune.values()))
    tables = {name: _entries(name, values, combinations) for name, values in _table(document, "tables").items()}
    found = SpaceFile(
        source=_text("source", document["source"]) if "source" in document else None,
        kernel=_text("kernel", document["kernel"]),
        tune=tune,
        sizes=sizes,
        tables=tables,
        macros=macros,
        constraints=tuple(_expression("constraints", text) for text in _list(document, "constraints")),
        grid=_triple("grid", document["grid"]),
        block=_triple("block", document["block"]),
        shared_bytes=_expression("shared_bytes", document.get("shared_bytes", 0)),
        arguments=tuple(_argument("arguments", text) for text in _list(document, "arguments")),
        contents=contents,
        include=tuple(folder / _text("include", text) for text in _list(document, "include")),
        options=tuple(_text("options", text) for text in _list(document, "options")),
        problem_size=tuple(
            _value("problem_size", v) for v in _list({"problem_size": [*sizes.values()]} | document, "problem_size")
        ),
    )
    _require_known_names(found)
    return found


def _require_known_names(space: SpaceFile) -> None:
    known = {*space.sizes, *space.tune, *space.tables}
    stated = len(space.sizes) + len(space.tune) + len(space.tables) + len(space.macros)
    if len({*known, *space.macros}) != stated:
        raise InputError("a name stands in more than one of sizes, tune, tables and macros")
    for name, expression in space.macros.items():
        _require_names(f"macros.{name}", expression.names, known)
        known.add(name)
    _require_names("kernel", frozenset(_PLACEHOLDER.findall(space.kernel)), known)
    for key, expressions in (
        ("constraints", space.constraints),
        ("grid", space.grid),
        ("block", space.block),
        ("shared_bytes", (space.shared_bytes,)),
    ):
        for expression in expressions:
            _require_names(key, expression.names, known)


def _require_names(key: str, names: frozenset[str], known: set[str]) -> None:
    missing = sorted(names - known)
    if missing:
        raise InputError(f"{key} uses the unknown name {missing[0]!r} (known: {', '.join(sorted(known))})")


def _table(document: dict[str, Any], key: str) -> dict[str, Any]:
    found = document.get(key, {})
    if not isinstance(found, dict):
        raise InputError(f"[{key}] must be a table of names, not {found!r}")
    for name in found:
        if not _NAME.fullmatch(name):
            raise InputError(f"{key}.{name} is no name of a macro or array")
    return found


def _list(document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key, [])
    if not isinstance(found, list):
        raise InputError(f"{key} must be a list, not {found!r}")
    return found


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{key} must be a text, not {value!r}")
    return value


def _value(key: str, value: Any) -> Value:
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, int | float | str):
        raise InputError(f"{key} must be a number or a text, not {value!r}")
    return value


def _choices(name: str, values: Any) -> tuple[Value, ...]:
    if not isinstance(values, list) or not values:
        raise InputError(f"tune.{name} must be a list of values, not {values!r}")
    found = tuple(_value(f"tune.{name}", value) for value in values)
    if len(set(found)) != len(found):
        raise InputError(f"tune.{name} has a value twice: {values!r}")
    return found


def _entries(name: str, values: Any, combinations: int) -> tuple[Value, ...]:
    if not isinstance(values, list) or len(values) != combinations:
        raise InputError(f"tables.{name} must be a list of {combinations} values, one for each combination of [tune]")
    return tuple(_value(f"tables.{name}", value) for value in values)


def _expression(key: str, value: Any) -> Expression:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"{key} must be an expression or an integer, not {value!r}")
    try:
        return parse_expression(value)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def _triple(key: str, value: Any) -> Triple:
    parts = value if isinstance(value, list) else [value]
    if not 1 <= len(parts) <= 3:
        raise InputError(f"{key} must have one to three expressions, not {value!r}")
    found = [_expression(key, part) for part in parts]
    found += [parse_expression(1)] * (3 - len(found))
    return found[0], found[1], found[2]


def _argument(key: str, value: Any) -> ArgumentSpec:
    try:
        return parse_argument(_text(key, value))
    except InputError as error:
        raise InputError(f"{key}: {error}") from None
