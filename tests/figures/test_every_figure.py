"""Each figure is legible as SVG and PNG, and comes out the same twice."""

import pkgutil
from pathlib import Path

import pytest

import perfmodel.figures
from perfmodel.figures.commands import FIGURES, draw_figure
from perfmodel.figures.style import COLUMN_INCHES, PAGE_INCHES

NOT_FIGURES = {"commands", "report", "style"}
PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
DOTS_PER_INCH = 200


def test_every_module_is_registered_once() -> None:
    modules = {module.name for module in pkgutil.iter_modules(perfmodel.figures.__path__)}
    assert set(FIGURES) == modules - NOT_FIGURES


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_figure_is_drawn_the_same_twice(name: str, tmp_path: Path) -> None:
    (svg, png), (svg_again, png_again) = (draw_figure(name, tmp_path / folder) for folder in ("first", "second"))
    assert (svg.name, png.name) == (f"{name}.svg", f"{name}.png")
    assert svg.read_bytes() == svg_again.read_bytes()
    assert png.read_bytes() == png_again.read_bytes()
    assert "<text" in svg.read_text()  # letters stay letters, so that the figure can be searched and read aloud
    data = png.read_bytes()
    assert data.startswith(PNG_SIGNATURE)
    width = int.from_bytes(data[16:20], "big")  # PNG specification, IHDR
    assert width in (int(COLUMN_INCHES * DOTS_PER_INCH), int(PAGE_INCHES * DOTS_PER_INCH))
