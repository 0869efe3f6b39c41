"""The commands by which a Makefile compiles a file, read and not executed.

GNU Make manual, chapters on rules, variables and conditionals. What only executing would tell (``$(shell …)`` and other
functions) stays unexpanded, and conditions that ask for it are not decided: what they guard is left out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from .includes import read_text

NAMES = ("GNUmakefile", "makefile", "Makefile")
"""Makefiles by the names that Make looks for, in its order."""
_ASSIGNMENT = re.compile(r"\s*(?:(?:export|override)\s+)*([\w.-]+)\s*(\?=|::?=|\+=|=)\s*(.*)")
_RULE = re.compile(r"((?:\$\([^()]*\)|[^:=])+)::?(?!=)([^;]*)(?:;(.*))?$")
_CONDITION = re.compile(r"(ifeq|ifneq|ifdef|ifndef)\b\s*(.*)")
_INCLUDE = re.compile(r"[-s]?include\s+(.*)")
_VARIABLE = re.compile(r"\$[({]([\w.-]+)(?::%?([^=(){}%]*)=%?([^(){}%]*))?[)}]")
"""A variable, and one of whose words the endings are replaced."""
_COMMENT = re.compile(r"(?<!\\)#.*")
_INPUTS = re.compile(r"\$[<^]|\$\([<^]\)")
"""Where a command names what a rule depends on."""
_SOURCES = re.compile(r"[^\s\"']*\.(?:cu|cpp|cc|cxx|c)(?![\w.])")
_DEEPEST = 20
"""How deep variables and included files may nest."""


def compile_commands_of(makefile: Path, source: Path) -> tuple[tuple[str, ...], ...]:
    """The words of each command of a Makefile that compiles a file with nvcc; none where none does.

    Words with parts that are not known without executing are left out.

    Raises:
        InputError: the Makefile cannot be read.
    """
    reader = _Reader(makefile.parent, source)
    reader.read(makefile, 0)
    found = []
    for targets, inputs, command in reader.recipes:
        if "nvcc" not in (text := reader.expanded(command)):
            continue
        named = _SOURCES.findall(text)
        by_rule = _INPUTS.search(text) is not None and reader.may_depend(targets, inputs)
        if any(map(reader.is_source, named)) or (not named and by_rule):
            try:
                words = shlex.split(text)
            except ValueError:  # quotes of several lines
                continue
            found.append(tuple(word for word in words if "$" not in word and "`" not in word))
    return tuple(dict.fromkeys(found))


class _Reader:
    """Variables and recipes of a Makefile and of those that it includes."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.source = folder, source
        self.variables: dict[str, str] = {"CURDIR": str(folder), "NVCC": "nvcc"}
        self.recipes: list[tuple[str, str, str]] = []
        """Targets and what they depend on, as written, and a command."""

    def read(self, path: Path, depth: int) -> None:
        """Take in one file."""
        rule = ("", "")
        conditions: list[bool | None] = []
        for line in _logical_lines(read_text(path)):
            if line.startswith("\t"):
                if all(conditions):
                    self.recipes.append((*rule, line.strip()))
                continue
            plain = _COMMENT.sub("", line).strip()
            if self._is_conditional(plain, conditions) or not all(conditions):
                continue
            if included := _INCLUDE.match(plain):
                for name in self.expanded(included[1]).split():
                    if depth < _DEEPEST and os.path.isfile(self.folder / name):
                        self.read(self.folder / name, depth + 1)
            elif assigned := _ASSIGNMENT.match(plain):
                self._assign(*assigned.groups())
            elif found := _RULE.match(plain):
                rule = (found[1], found[2])
                if found[3]:
                    self.recipes.append((*rule, found[3]))

    def _assign(self, name: str, operator: str, value: str) -> None:
        before = self.variables.get(name)
        if operator == "+=":
            self.variables[name] = f"{before or ''} {value}".strip()
        elif operator != "?=" or before is None:
            self.variables[name] = self.expanded(value) if operator.startswith(":") else value

    def _is_conditional(self, line: str, conditions: list[bool | None]) -> bool:
        """Whether a line is a directive of conditions, which are brought up to date; None is one that nothing decides."""
        if opened := _CONDITION.match(line):
            conditions.append(self._holds(opened[1], opened[2]))
        elif line.startswith("else") and conditions:
            last = conditions.pop()
            further = _CONDITION.match(line.removeprefix("else").strip())
            holds = None if last is None else not last
            conditions.append(self._holds(further[1], further[2]) if further and holds else holds)
        elif line.startswith("endif") and conditions:
            conditions.pop()
        else:
            return False
        return True

    def _holds(self, kind: str, text: str) -> bool | None:
        if kind in ("ifdef", "ifndef"):
            name = self.expanded(text)
            return None if "$" in name else bool(self.variables.get(name)) is (kind == "ifdef")
        match = re.fullmatch(r"\((.*?),(.*)\)|[\"'](.*?)[\"']\s+[\"'](.*?)[\"']", text)
        if match is None:
            return None
        left, right = (self.expanded(part).strip() for part in match.groups() if part is not None)
        return None if "$" in left + right else (left == right) is (kind == "ifeq")

    def expanded(self, text: str) -> str:
        """The text with the values of variables; those that are not set are empty, functions stay."""
        for _ in range(_DEEPEST):
            further = _VARIABLE.sub(self._value, text)
            if further == text:
                break
            text = further
        return text

    def _value(self, match: re.Match[str]) -> str:
        value, old, new = self.variables.get(match[1], ""), match[2], match[3]
        if old is None:
            return value
        words = self.expanded(value).split()
        return " ".join(word.removesuffix(old) + new if word.endswith(old) else word for word in words)

    def is_source(self, word: str) -> bool:
        """Whether a word names the source, in the Makefile's folder or where Make looks for what is not there."""
        places = (".", *re.split(r"[\s:]+", self.expanded("$(VPATH)")))
        return any(os.path.normpath(self.folder / place / word) == str(self.source) for place in places)

    def may_depend(self, targets: str, inputs: str) -> bool:
        """Whether a rule is one for the source, as far as it can be told."""
        words = self.expanded(inputs)
        if self.folder == self.source.parent and (
            self.expanded(targets).strip().startswith(".cu")
            or ("$" in words and ".cu" in words)  # .cu.o: or a function
        ):
            return True
        return any(self.is_source(word.replace("%", self.source.stem)) for word in words.split())


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with those that continue them."""
    return iter(re.sub(r"\\\n[ \t]*", " ", text).splitlines())


def makefile_in(folder: Path) -> Path | None:
    """The Makefile that Make would take in a folder."""
    return next((path for name in NAMES if os.path.isfile(path := folder / name)), None)
