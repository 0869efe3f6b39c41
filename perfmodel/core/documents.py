"""Documents that a user hands in (TOML, JSON) as typed records: strict keys and types, one line where they are wrong."""

from __future__ import annotations

import difflib
import re
import reprlib
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from ..errors import InputError

T = TypeVar("T")

_KINDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
}
_LONGEST_LIST = 80
_MOST_WORDS = 40
"""Accepted words that a message lists; of more it has the first ones and their number."""
_COMPLAINT = re.compile(r"(?P<text>.*?)(?: - at (?P<of_key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kind>[^`]*)`(?: (?P<range>.*?))?(?:, got .*)?")


def parse_toml(text: str, place: str) -> dict[str, Any]:
    """The tables of a TOML text; ``place`` begins the message where it is none.

    Raises:
        InputError: The text is damaged, nested too deeply, or has an integer too long to read.

    >>> parse_toml("a = [1, 2]", "example")
    {'a': [1, 2]}
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: is not TOML: {error}") from error


def converted(kind: type[T], value: Any, place: str) -> T:
    """The record of a type (a ``msgspec.Struct`` that forbids unknown fields) that tables and lists describe.

    Raises:
        InputError: A key is unknown or missing, or a value has another type or range; ``place``, the key, the value and
            what would be accepted are named.

    >>> from perfmodel.records.schema import Failure
    >>> converted(Failure, {"kind": "time-out", "message": "no answer"}, "example").kind
    <FailureKind.TIME_OUT: 'time-out'>
    >>> converted(Failure, {"kind": "launch", "message": 3}, "example")
    Traceback (most recent call last):
    perfmodel.errors.InputError: example: message = 3 must be a text
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{place}: {_explained(str(error), value, kind)}") from None


def to_builtins(value: Any) -> Any:
    """Records as tables, Enum members as their values, tuples as lists: what ``json.dumps`` takes.

    >>> from perfmodel.records.schema import Failure, FailureKind
    >>> to_builtins(Failure(kind=FailureKind.TIME_OUT, message="no answer in 20 s"))
    {'kind': 'time-out', 'message': 'no answer in 20 s'}
    """
    return msgspec.to_builtins(value)


def nearest(word: str, accepted: Iterable[str]) -> str:
    """End of a message about an unknown word: the accepted words nearest to it, or all of them where none is near.

    >>> nearest("H20", ["gh200", "h200", "t4"])
    'nearest: h200, gh200'
    """
    words, wanted = list(accepted), word.lower()
    beginning_so = [candidate for candidate in words if len(wanted) > 1 and candidate.startswith(wanted)]
    near = dict.fromkeys([*beginning_so, *difflib.get_close_matches(wanted, words, n=3)])
    if near:
        return f"nearest: {', '.join(near)}"
    shown = words if len(words) <= _MOST_WORDS else [*words[: _MOST_WORDS // 4], f"… ({len(words)} in all)"]
    return f"accepted: {', '.join(shown)}"


def located(place: str, function: Callable[..., T], *arguments: Any) -> T:
    """What a function gives of a document's values; ``place`` begins the message where it refuses them.

    >>> located("perf.toml: launch[0]", nearest, "h20", ["h200"])
    'nearest: h200'
    """
    try:
        return function(*arguments)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def named_file(place: str, folder: Path, name: str) -> Path:
    """The file that a document names, by its path from the document's folder on.

    Raises:
        InputError: It does not exist; ``place`` begins the message, and files of nearly the same name are named.
    """
    path = folder / name
    if path.exists():
        return path
    beside = sorted(entry.name for entry in path.parent.glob("*")) if path.parent.is_dir() else []
    near = f"; {nearest(path.name, beside)}" if beside else ""
    raise InputError(f"{place}: file {name!r} does not exist{near}")


def _explained(complaint: str, value: Any, kind: Any) -> str:
    """The library's complaint with the names of keys, the value, and what would be accepted."""
    parts = _COMPLAINT.fullmatch(complaint)
    text, path, of_key = parts.group("text", "path", "of_key") if parts else (complaint, "", None)
    key = ""
    for step in re.findall(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]", path or ""):
        name, index = step
        if index == "...":
            name = next(str(entry) for entry in value if not _is_valid(value[entry], _part(kind, name)))
        kind = _part(kind, name or index)
        value = value[int(index)] if index.isdigit() else value[name]
        key += f"[{index}]" if index.isdigit() else f".{name}" if key else name
    where = f"{key}: " if key else ""
    quoted = re.search(r"`([^`]*)`", text)
    if "unknown field" in text and quoted:
        return f"{where}unknown key {quoted[1]!r}; {nearest(quoted[1], _hints(kind))}"
    if "missing required field" in text and quoted:
        return f"{where}{quoted[1]} is missing; give {_wanted(quoted[1], _hints(kind).get(quoted[1]))}"
    if of_key:
        return f"{where}keys {', '.join(map(repr, value))} must each be {_accepted(text, str)}"
    return f"{key or 'the document'} = {reprlib.repr(value)} must be {_accepted(text, kind)}"


def _wanted(name: str, kind: Any) -> str:
    """What a missing key must be."""
    kind = _without_alternatives(kind)
    plain = get_origin(kind) or kind
    if plain is list and _hints(get_args(kind)[0]):
        return f"a table [[{name}]] for each"
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"one of {', '.join(str(member.value) for member in plain)}"
    names = {int: "int", float: "float", str: "str", bool: "bool", list: "array", dict: "object"}
    return _KINDS[names.get(plain, "object")]


def _accepted(text: str, kind: Any) -> str:
    plain = kind if isinstance(kind, type) else get_origin(kind)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return f"one of {', '.join(str(member.value) for member in plain)}"
    expected = _EXPECTED.fullmatch(text)
    if expected is None:
        return text
    if expected["kind"] == "object":
        keys = ", ".join(_hints(kind))
        return f"a table of {keys}" if 0 < len(keys) < _LONGEST_LIST else "a table"
    names = [_KINDS.get(name, name) for name in expected["kind"].split(" | ") if name != "null"]
    return " or ".join(names) + (f" {expected['range']}" if expected["range"] else "")


def _is_valid(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _part(kind: Any, step: str) -> Any:
    """The type of a field, an entry or an element of a value of a type; ``Any`` where it is not known."""
    kind = _without_alternatives(kind)
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return arguments[1] if arguments else Any
    if step.isdigit():
        return arguments[0] if arguments else Any
    hint = _hints(kind).get(step, Any)
    return arguments[0] if isinstance(hint, TypeVar) and arguments else hint


def _without_alternatives(kind: Any) -> Any:
    """The first type of a union that is more than an absent value, without bounds."""
    if get_origin(kind) is Annotated:
        return _without_alternatives(get_args(kind)[0])
    if get_origin(kind) not in (Union, types.UnionType):
        return kind
    return next(part for part in get_args(kind) if part not in (type(None), msgspec.UnsetType))


def _hints(kind: Any) -> dict[str, Any]:
    """Fields of a record with their types; none of what is no record."""
    plain = get_origin(_without_alternatives(kind)) or _without_alternatives(kind)
    if not (isinstance(plain, type) and issubclass(plain, msgspec.Struct)):
        return {}
    hints = get_type_hints(plain, include_extras=True)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(plain)}
