"""The file of a user's own tuning space: macros and their values, constraints, launch and arguments as expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from ...core.documents import converted, parse_toml
from ...core.files import read_text
from ...errors import InputError
from ...launch.argument_spec import ArgumentSpec
from ...launch.argument_text import parse_argument
from ...launch.expression import Expression, Value, parse_expression

MAX_CANDIDATES = 100_000
"""Configurations of a space that are looked at: of more combinations those that meet the constraints, drawn from them where
these are more, too."""
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
Triple = tuple[Expression, Expression, Expression]


Parsed = TypeVar("Parsed")
Text = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$")]
Formula = int | Text
"""An integer or an expression."""
Sizes = Formula | Annotated[list[Formula], Meta(min_length=1, max_length=3)]
Given = bool | int | float | str


class SpaceTables(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tuning space for `perfmodel rank FILE.cu --space FILE.toml`: parameters with their values, launch and arguments."""

    kernel: Text
    grid: Sizes
    block: Sizes
    tune: Annotated[dict[Name, Annotated[list[Given], Meta(min_length=1)]], Meta(min_length=1)]
    arguments: list[Text]
    source: Text | None = None
    shared_bytes: Formula = 0
    constraints: list[Formula] = []
    include: list[Text] = []
    options: list[Text] = []
    sizes: dict[Name, Given] = {}
    tables: dict[Name, list[Given]] = {}
    macros: dict[Name, Formula] = {}
    contents: dict[Name, Text] = {}
    problem_size: list[Given] | None = None


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

    def allowed_places(self) -> NDArray[np.int64]:
        """Places among all combinations of those that meet the constraints, in order, without looking at all of them.

        Values are chosen one after the other, and a constraint is asked as soon as all that it names is known.

        >>> space = parse_space('kernel = "k"' + chr(10) + 'grid = 1' + chr(10) + 'block = "X * Y"' + chr(10) + 'arguments = []'
        ...                     + chr(10) + 'constraints = ["X * Y == 64"]' + chr(10) + '[tune]' + chr(10)
        ...                     + 'X = [32, 64]' + chr(10) + 'Y = [1, 2]', "s.toml", Path())
        >>> space.allowed_places().tolist()
        [1, 2]
        """
        if self.tables:
            raise InputError(f"tables and functions of a script are for at most {MAX_CANDIDATES:,} combinations")
        settled: list[list[tuple[str | None, Expression]]] = [[] for _ in self.tune]
        known_after = dict.fromkeys(self.sizes, 0) | {name: place for place, name in enumerate(self.tune)}
        for name, expression in (*self.macros.items(), *((None, one) for one in self.constraints)):
            after = max((known_after[one] for one in expression.names), default=0)
            settled[after].append((name, expression))
            if name is not None:
                known_after[name] = after
        found: list[int] = []
        self._extend(found, dict(self.sizes), 0, 0, settled)
        return np.array(found, np.int64)

    def _extend(
        self,
        found: list[int],
        names: dict[str, Value],
        depth: int,
        place: int,
        settled: Sequence[Sequence[tuple[str | None, Expression]]],
    ) -> None:
        """Go on with every value of the next tuned name that no constraint forbids."""
        if depth == len(settled):
            found.append(place)
            return
        name, values = list(self.tune.items())[depth]
        for number, value in enumerate(values):
            names[name] = value
            for macro, expression in settled[depth]:
                result = expression.value(names)
                if macro is not None:
                    names[macro] = result
                elif not result:
                    break
            else:
                self._extend(found, names, depth + 1, place * len(values) + number, settled)

    def kernel_name(self, names: Mapping[str, Value]) -> str:
        """The kernel of one configuration, ``{NAME}`` in it replaced by values."""
        return _PLACEHOLDER.sub(lambda match: str(names[match[1]]), self.kernel)


def read_space_file(path: Path) -> SpaceFile:
    """The space of a file; ``InputError`` names the file, the key and what would be accepted."""
    return parse_space(read_text(path), str(path), path.parent)


def parse_space(text: str, origin: str, folder: Path) -> SpaceFile:
    """The space of a TOML text; relative include folders begin at ``folder``.

    >>> space = parse_space('kernel = "k"' + chr(10) + 'grid = "ceil_div(1000, B)"' + chr(10) + 'block = "B"' + chr(10)
    ...                     + 'arguments = []' + chr(10) + '[tune]' + chr(10) + 'B = [32, 64]', "s.toml", Path())
    >>> space.grid[0].integer(space.names({"B": 64}))
    16
    """
    place = f"space {origin}"
    tables = converted(SpaceTables, parse_toml(text, place), place)
    try:
        return _space(tables, folder)
    except InputError as error:
        raise InputError(f"{place}: {error}") from None


def _space(given: SpaceTables, folder: Path) -> SpaceFile:
    combinations = prod(map(len, given.tune.values()))
    for name, values in given.tune.items():
        if len(set(values)) != len(values):
            raise InputError(f"tune.{name} has a value twice: {values!r}")
    for name, values in given.tables.items():
        if len(values) != combinations:
            raise InputError(f"tables.{name} must have {combinations} values, one for each combination of [tune]")
    sizes = {name: _value(value) for name, value in given.sizes.items()}
    found = SpaceFile(
        source=given.source,
        kernel=given.kernel,
        tune={name: tuple(map(_value, values)) for name, values in given.tune.items()},
        sizes=sizes,
        tables={name: tuple(map(_value, values)) for name, values in given.tables.items()},
        macros={name: _parsed(f"macros.{name}", parse_expression, text) for name, text in given.macros.items()},
        constraints=_all_parsed("constraints", parse_expression, given.constraints),
        grid=_triple("grid", given.grid),
        block=_triple("block", given.block),
        shared_bytes=_parsed("shared_bytes", parse_expression, given.shared_bytes),
        arguments=_all_parsed("arguments", parse_argument, given.arguments),
        contents={name: _parsed(f"contents.{name}", parse_argument, text) for name, text in given.contents.items()},
        include=tuple(folder / name for name in given.include),
        options=tuple(given.options),
        problem_size=tuple(sizes.values() if given.problem_size is None else map(_value, given.problem_size)),
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


def _value(value: Given) -> Value:
    return int(value) if isinstance(value, bool) else value


def _parsed(key: str, parse: Callable[[Any], Parsed], text: Formula) -> Parsed:
    try:
        return parse(text)
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def _all_parsed(key: str, parse: Callable[[Any], Parsed], texts: Iterable[Formula]) -> tuple[Parsed, ...]:
    return tuple(_parsed(key, parse, text) for text in texts)


def _triple(key: str, sizes: Sizes) -> Triple:
    parts = sizes if isinstance(sizes, list) else [sizes]
    x, y, z = _all_parsed(key, parse_expression, [*parts, 1, 1][:3])
    return x, y, z
