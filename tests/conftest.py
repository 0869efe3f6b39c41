"""What all tests share: the options of the command line, the published measurements, skips that can be forbidden."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from perfmodel.core.garbage import collect_rarely

DATA_VARIABLE = "PERFMODEL_DATA"

settings.register_profile("same on every run", derandomize=True)
settings.register_profile("drawn anew", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same on every run"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="a skipped GPU test is a failure")
    parser.addoption(
        "--require-data", action="store_true", help="a test skipped for want of published data is a failure"
    )
    parser.addoption("--require-browser", action="store_true", help="a skipped browser test is a failure")
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files instead of comparing with them")


def _gpu_present() -> bool:
    try:
        import cupy
    except ImportError:
        return False
    try:
        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def _data_folder() -> Path | None:
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named and Path(named).is_dir() else None


def pytest_collection_finish() -> None:
    """What was imported and collected stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    collect_rarely()


def pytest_unconfigure() -> None:
    """At its end Python clears all that there is: libraries list as leaks what is left."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _gpu_present():
        _absent(item, "--require-gpu", "no CUDA GPU with CuPy")
    if item.get_closest_marker("data") and _data_folder() is None:
        _absent(item, "--require-data", f"{DATA_VARIABLE} names no folder with the published measurements")
    if item.get_closest_marker("compiler"):
        from perfmodel.compiler.toolchain import compiler_available

        if not compiler_available():
            pytest.skip("the extra `compile` is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Only the fixture of the browser tests knows whether there is a browser, so it is their skip that is forbidden."""
    report = yield
    if report.skipped and item.get_closest_marker("browser") and item.config.getoption("--require-browser"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"{reason} (--require-browser)"
    return report


def _absent(item: pytest.Item, option: str, reason: str) -> None:
    if item.config.getoption(option):
        pytest.fail(f"{reason} ({option})", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def published_data() -> Path:
    """The folder of the published measurements; only for tests marked ``data``."""
    folder = _data_folder()
    assert folder is not None
    return folder


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))
