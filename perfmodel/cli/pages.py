"""The page of an analysis, which is written by what stands above the command line; it is brought as commands are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import PerfmodelError

if TYPE_CHECKING:
    from ..advice.advise import Advised
    from ..prediction.analyze import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisPages:
    """Who writes pages: ``require`` raises where a library is missing, ``html`` gives the text from the command line."""

    require: Callable[[], None]
    html: Callable[[Analysis, Advised, str], str]


_WRITERS: list[AnalysisPages] = []


def bring_analysis_pages(writer: AnalysisPages) -> None:
    """Name the writer; the function of an entry point of ``perfmodel.commands`` does so."""
    _WRITERS[:] = [writer]


def analysis_pages() -> AnalysisPages:
    """The writer; ``PerfmodelError`` where none was brought, or a library is missing."""
    if not _WRITERS:
        raise PerfmodelError("no page can be written: this installation has no perfmodel.figures")
    _WRITERS[0].require()
    return _WRITERS[0]
