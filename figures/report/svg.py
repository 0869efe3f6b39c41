"""Figures as SVG markup that can stand inside a page: no outside reference, no name that another figure has too."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..style import figure

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_ROOT = re.compile(r"<svg [^>]*?viewBox=\"([^\"]+)\"[^>]*>")
_NAMES = re.compile(r"(\bid=\"|url\(#|href=\"#)")


@contextmanager
def canvas(width_inches: float, height_inches: float, **grid: Any) -> Iterator[tuple[Any, Any]]:
    """``style.figure`` in which a label is what it says: nothing in it is taken for a formula."""
    import matplotlib as mpl

    with mpl.rc_context({"text.parse_math": False}), figure(width_inches, height_inches, **grid) as drawn:
        yield drawn


def markup(drawn: Any, name: str) -> str:
    """The figure as one ``<svg>`` element; the same figure gives the same text. To be called while its canvas is open."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata=_NO_METADATA)
    return embedded(text.getvalue(), name)


def markup_of_file(draw: Callable[[Path], tuple[Path, Path]], name: str) -> str:
    """The same for a figure that draws itself into a folder and gives back the paths of SVG and PNG."""
    with TemporaryDirectory() as folder:
        svg, _ = draw(Path(folder))
        return embedded(svg.read_text(encoding="utf-8"), name)


def embedded(svg: str, name: str) -> str:
    """A file's SVG without prologue, metadata and fixed size; its names begin with ``name``.

    >>> embedded('<?xml version="1.0"?><svg width="9pt" viewBox="0 0 9 9"><g id="a"/></svg>', "f")
    '<svg viewBox="0 0 9 9"><g id="f-a"/></svg>'
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = _ROOT.sub(lambda found: f'<svg viewBox="{found[1]}">', body, count=1)
    return _NAMES.sub(lambda found: f"{found[1]}{name}-", body).strip()
