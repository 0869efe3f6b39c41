"""What a page is made of: facts, paragraphs, tables and drawings in sections; frozen, nothing here knows of HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

from perfmodel.core.units import MICROSECONDS

SIGNIFICANT_DIGITS = 4
MOST_DECIMALS = 5
"""A number that vanishes in them is shown as 0."""
ABSENT = "–"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a reader sees, and what a table sorts by: a number, or None to sort by the text (a number's absence comes last)."""

    text: str
    value: float | None = None

    @property
    def sort_key(self) -> str | None:
        """The number as text where the cell's own text does not say the same; None where it does or there is none."""
        if self.value is None:
            return None
        key = f"{self.value:.9g}"
        return None if key == self.text else key


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A table's column; ``order`` is how the rows arrive sorted by it (``ascending``, ``descending``), if they do."""

    title: str
    numeric: bool = True
    order: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns; ``sortable`` ones can be ordered by a click on a header."""

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    sortable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """Plain text."""

    kind: ClassVar[str] = "paragraph"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names with what they are."""

    kind: ClassVar[str] = "facts"
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A figure as SVG markup; ``says`` is what it shows, for those who do not see it; wide ones scroll on a narrow screen."""

    kind: ClassVar[str] = "drawing"
    name: str
    svg: str
    says: str
    caption: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRow:
    """A line of code with its numbers; rows of one ``place`` belong together. ``heat`` (0 … 1) is how deep it is shaded."""

    place: str
    label: str
    text: str
    numbers: tuple[Cell, ...] = ()
    heat: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePane:
    """Lines of code of one kind; ``columns`` are the titles of their numbers."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[CodeRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeView:
    """Panes side by side; a line that is chosen in one of them is shown in all."""

    kind: ClassVar[str] = "code"
    name: str
    caption: str
    panes: tuple[CodePane, ...]


Block = Table | Paragraph | Facts | Drawing | CodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    name: str
    heading: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A whole page: ``answer`` is what a reader came for, ``command`` prints the page again."""

    title: str
    answer: str
    facts: Facts
    sections: tuple[Section, ...]
    command: str

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """Every figure in the order of the page."""
        return tuple(b for section in self.sections for b in section.blocks if isinstance(b, Drawing))

    def table(self, name: str) -> Table:
        """The table of a name."""
        blocks = (block for section in self.sections for block in section.blocks)
        return next(block for block in blocks if isinstance(block, Table) and block.name == name)


def words(value: Any) -> Cell:
    """A cell of text; integers and truth values of a configuration sort as numbers.

    >>> words(32).value, words("column").value, words(None).text
    (32.0, None, 'none')
    """
    plain = value.value if isinstance(value, Enum) else value
    if plain is None:
        return Cell(text="none")
    if isinstance(plain, int):
        return Cell(text=str(plain), value=float(plain))
    return Cell(text=str(plain))


def number(value: float | None) -> Cell:
    """A cell of a number with four significant digits and no exponent; absent where it is None or not finite.

    >>> number(12345.678).text, number(0.0123456).text, number(7.0).text, number(None).text
    ('12,346', '0.01235', '7', '–')
    """
    if value is None or not math.isfinite(value):
        return Cell(text=ABSENT)
    if float(value).is_integer() or abs(value) < 0.5 * 10**-MOST_DECIMALS:
        return Cell(text=f"{round(value):,}", value=float(value))
    places = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return Cell(text=f"{value:,.{min(max(places, 0), MOST_DECIMALS)}f}", value=float(value))


def percent(fraction: float | None, *, signed: bool = False) -> Cell:
    """A cell of a fraction in percent, with its sign where it is a change.

    >>> percent(0.1234).text, percent(0.1234, signed=True).text, percent(0.1234).value
    ('12.34', '+12.34', 12.34)
    """
    if fraction is None or not math.isfinite(fraction):
        return Cell(text=ABSENT)
    value = round(fraction * 100, 9)
    return Cell(text=f"{value:+,.2f}" if signed else f"{value:,.2f}", value=value)


def microseconds(seconds: float | None) -> Cell:
    """A cell of a time in microseconds."""
    return number(None if seconds is None else seconds * MICROSECONDS)


def columns_of(titles: Sequence[str], *, text: Sequence[str] = ()) -> tuple[Column, ...]:
    """Columns of numbers, but for those whose titles are named in ``text``."""
    return tuple(Column(title=title, numeric=title not in text) for title in titles)
