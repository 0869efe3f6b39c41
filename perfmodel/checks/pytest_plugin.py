"""The pytest plug-in: a ``perf.toml`` is collected, and each of its launches on each GPU is a test.

pytest loads this module wherever perfmodel is installed, so that it imports nothing of the package before a file is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .baseline import LaunchResult
    from .check_file import CheckedLaunch

_FILE_NAME = "perf.toml"
_MARKER = "perfmodel"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--perfmodel-fail-on``."""
    group = parser.getgroup("perfmodel")
    group.addoption(
        "--perfmodel-fail-on", metavar="LIMITS", help=f"limits in place of those of {_FILE_NAME}, as time=5%%"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of collected launches."""
    config.addinivalue_line("markers", f"{_MARKER}: a launch of a {_FILE_NAME}, checked by perfmodel without a GPU")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take a perf.toml, whatever folder it stands in."""
    return PerfFile.from_parent(parent, path=file_path) if file_path.name == _FILE_NAME else None


class PerfFile(pytest.File):
    """A perf.toml: one item for each launch and GPU."""

    def collect(self) -> Iterator[pytest.Item]:
        """The launches, in the order of the file."""
        from ..errors import InputError
        from .check_file import read_check_file
        from .checking import earlier_results

        try:
            file = read_check_file(self.path, self.config.getoption("--perfmodel-fail-on"))
            earlier = earlier_results(file, required=True)
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for launch in file.launches:
            before = None if earlier is None else earlier.launches.get(launch.name, {}).get(launch.shown_gpu)
            yield PerfItem.from_parent(self, name=f"{launch.name}[{launch.shown_gpu}]", launch=launch, before=before)


class PerfItem(pytest.Item):
    """One launch on one GPU; it fails where `perfmodel check` would."""

    def __init__(self, *, launch: CheckedLaunch, before: LaunchResult | None, **keywords: Any) -> None:
        super().__init__(**keywords)
        self._launch, self._before = launch, before
        self.add_marker(_MARKER)

    def runtest(self) -> None:
        """Analyse the launch and compare."""
        from ..errors import PerfmodelError
        from .checking import judged, measured

        try:
            outcome = judged(self._launch, measured(self._launch), self._before)
        except PerfmodelError as error:
            outcome = judged(self._launch, error, self._before)
        if outcome.now is not None:
            self.user_properties.append(("predicted_us", outcome.now.time.predicted_us))
        if outcome.problems:
            from .formats import details

            pytest.fail("\n".join(details(outcome)), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """File and title, as pytest shows them."""
        return self.path, None, self._launch.title
