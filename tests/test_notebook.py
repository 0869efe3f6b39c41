"""The notebook of the examples runs from top to bottom, and its results show themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_notebook_runs(tmp_path: Path) -> None:
    for name in ("transpose.cu", "h200.jsonl.gz"):
        shutil.copy(EXAMPLES / name, tmp_path)
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    kinds = [kind for output in shown for kind in output.get("data", {})]
    assert kinds.count("image/png") == 2
    assert kinds.count("text/html") == 6  # a ranking, an analysis, a network, a validation, two frames
    assert "transpose on h200" in next(
        output["data"]["text/plain"] for output in shown if "Analysis" in output.get("data", {}).get("text/plain", "")
    )


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    assert not [cell for cell in notebook.cells if cell.get("outputs")]
