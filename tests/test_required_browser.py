"""Where there is no browser its tests skip; with ``--require-browser`` they fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BROWSER_TEST = "tests/figures/report/test_in_a_browser.py::test_the_policy_of_a_page_forbids_what_is_not_in_it"


@pytest.mark.parametrize(("options", "status"), [((), 0), (("--require-browser",), 1)])
def test_a_skipped_browser_test_fails_where_it_is_required(
    options: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    (tmp_path / "PyQt6").mkdir()
    (tmp_path / "PyQt6" / "__init__.py").write_text("raise ImportError('libnss3.so: cannot open shared object file')")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *options, BROWSER_TEST],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout
    assert "libnss3.so: cannot open shared object file" in done.stdout
    assert ("(--require-browser)" in done.stdout) == bool(options)
