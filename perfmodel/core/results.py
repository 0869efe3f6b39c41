"""What every public result can do: a short text, a table in a notebook, rows for pandas and CSV, a plot."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from ..errors import InputError, PerfmodelError
from .units import MICROSECONDS, time_text

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")
_MOST_ROWS = 20
"""Rows of a table in a notebook."""
_MOST_BARS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a plot: a duration with its 90 % interval, None where there is none."""

    label: str
    seconds: float
    interval_s: tuple[float, float] | None = None


class Result(ABC):
    """A single result; a class names ``headline``, ``to_rows``, ``plot`` and, where rows are wide, ``shown``.

    ``repr`` is one line; what a result holds is in its attributes.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def headline(self) -> str:
        """The result in one phrase."""

    @abstractmethod
    def to_rows(self) -> list[dict[str, Any]]:
        """Flat rows, for `perfmodel.frame` and CSV: names with units, seconds."""

    def shown(self) -> list[dict[str, str]]:
        """Rows as people read them, for a notebook."""
        return [{name: _text(name, value) for name, value in row.items()} for row in self.to_rows()]

    @abstractmethod
    def plot(self, ax: Any = None) -> Any:
        """Draw the result; returns the Matplotlib axes.

        Args:
            ax: axes to draw into; new ones where None.

        Raises:
            PerfmodelError: Matplotlib is not installed; the extra ``figures`` brings it.
        """

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.headline}>"

    def _repr_html_(self) -> str:
        rows = self.shown()
        more = f"<p>… and {len(rows) - _MOST_ROWS:,} more</p>" if len(rows) > _MOST_ROWS else ""
        return f"<p><b>{html.escape(self.headline)}</b></p>{html_table(rows[:_MOST_ROWS])}{more}"


class TimedResult(Result):
    """A result of predicted times, which ``plot`` draws as bars with their 90 % intervals; a class names ``bars``."""

    __slots__ = ()

    @abstractmethod
    def bars(self) -> list[Bar]:
        """What ``plot`` draws, in order."""

    def plot(self, ax: Any = None) -> Any:
        """Draw predicted times as bars, with their 90 % intervals; `Result.plot`."""
        return draw_bars(self.bars(), self.headline, ax)


class ResultList(TimedResult, Generic[Item]):
    """Several results in order: has a length, is iterated and indexed; a class names ``items``."""

    __slots__ = ()

    @property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """What the list holds."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return self.items[index]


def rows_of(value: object) -> list[dict[str, Any]]:
    """The rows of a result, of several (a list, a dictionary by name), or of what tells its row by ``to_row``.

    Raises:
        InputError: the value is none of these.
    """
    if isinstance(value, Result):
        return value.to_rows()
    if isinstance(value, Mapping):
        return [{"name": name, **row} for name, entry in value.items() for row in rows_of(entry)]
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [row for entry in value for row in rows_of(entry)]
    raise InputError(f"{value!r} has no rows: a result of perfmodel, or a list or dictionary of results, is needed")


def frame(results: object) -> pd.DataFrame:
    """Results as a pandas DataFrame: any result of this package, or a list or dictionary of several.

    Names say units. A prediction has its problem and configuration, ``predicted_s`` with ``interval_low_s`` and
    ``interval_high_s``, each term as ``dram_s`` …, resources, occupancy and counts. Results of a dictionary have its keys in
    the column ``name``.

    Raises:
        InputError: something else is given.

    >>> import perfmodel as pm
    >>> ranking = pm.rank(pm.TiledConv2d(height=512, width=512), gpu="h200", fidelity="analytic", top=3)
    >>> frame(ranking)["predicted_s"].is_monotonic_increasing, len(frame({"first": ranking[0]}))
    (True, 1)
    """
    import pandas as pd

    return pd.DataFrame(rows_of(results))


def html_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows of texts as an HTML table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    cells = (("".join(f"<td>{html.escape(row.get(name, ''))}</td>" for name in names)) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(name: str, value: object) -> str:
    if isinstance(value, float) and name.endswith("_s"):
        return time_text(value)
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def new_axes(width_inches: float, height_inches: float) -> Any:
    """Matplotlib axes of a figure of their own.

    Raises:
        PerfmodelError: Matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise PerfmodelError("plots need Matplotlib: pip install 'perfmodel[figures]'") from error
    _, axes = pyplot.subplots(figsize=(width_inches, height_inches), layout="constrained")
    return axes


def draw_bars(bars: Sequence[Bar], title: str, ax: Any = None) -> Any:
    """Horizontal bars in microseconds, the first on top, with intervals as whiskers; the axes."""
    shown = bars[:_MOST_BARS]
    ax = new_axes(7, 1 + 0.3 * len(shown)) if ax is None else ax
    times = [MICROSECONDS * bar.seconds for bar in shown]
    whiskers = None
    if any(bar.interval_s for bar in shown):
        bounds = [bar.interval_s or (bar.seconds, bar.seconds) for bar in shown]
        low = [max(0.0, time - MICROSECONDS * bound[0]) for time, bound in zip(times, bounds, strict=True)]
        high = [max(0.0, MICROSECONDS * bound[1] - time) for time, bound in zip(times, bounds, strict=True)]
        whiskers = (low, high)
    ax.barh(range(len(shown)), times, xerr=whiskers, capsize=2)
    ax.set_yticks(range(len(shown)), [bar.label for bar in shown])
    ax.invert_yaxis()
    ax.set_xlabel("predicted time (µs)")
    ax.set_title(title, fontsize="medium")
    return ax
