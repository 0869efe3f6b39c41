"""A user's Kernel Tuner script: run in a process of its own up to ``tune_kernel``, which is recorded and not executed.

Neither a GPU nor Kernel Tuner is needed. The process runs this module: ``python -m … SCRIPT FOLDER ARGUMENTS…``.
"""

from __future__ import annotations

import random
import runpy
import subprocess
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ...errors import InputError
from ...sources.user_module import AbsentLibraries
from .tuning_call import TuningCall, write_space

_PACKAGE = "kernel_tuner"
_REFUSED = 2
_POSITIONAL = (
    *("kernel_name", "kernel_source", "problem_size", "arguments", "tune_params"),
    *("grid_div_x", "grid_div_y", "grid_div_z", "restrictions"),
)
"""Parameters of ``tune_kernel`` in its order, as far as they say what is tuned."""


def record_script(script: Path, folder: Path, arguments: Sequence[str] = ()) -> Path:
    """Run a script up to its first ``tune_kernel`` and write what that is called with; the path of the space file.

    Args:
        script: the user's script; it runs in the current folder, with its own folder searched for imports.
        folder: where the space file and arrays go.
        arguments: what the script finds in ``sys.argv``.

    Raises:
        InputError: the script fails before, does not call ``tune_kernel``, or calls it with what is not read.
    """
    if not script.is_file():
        raise InputError(f"{script} is no file")
    command = [sys.executable, "-m", __name__, str(script.absolute()), str(folder), *arguments]
    run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if run.returncode != 0:
        lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"it ended with status {run.returncode}"
        raise InputError(f"{script}: {reason}")
    return folder / "space.toml"


class _RecordedError(BaseException):
    """The call is recorded, and nothing after it is to run; no ``except Exception`` of a script stops it."""


class _Anything:
    """Whatever a script takes from Kernel Tuner beside its functions: observers, options, helpers."""

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *arguments: object, **keywords: object) -> _Anything:
        return _Anything()


class _StandIn(Loader, MetaPathFinder):
    """Finds ``kernel_tuner`` and its modules, in place of the installed one."""

    def __init__(self, script: Path, folder: Path) -> None:
        self.script, self.folder = script, folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        own = fullname.partition(".")[0] == _PACKAGE
        return ModuleSpec(fullname, self, is_package=True) if own else None

    def exec_module(self, module: ModuleType) -> None:
        functions: dict[str, Any] = {"tune_kernel": self.tune_kernel, "run_kernel": self.run_kernel}
        vars(module).update(functions, __getattr__=lambda name: getattr(_Anything(), name))

    def run_kernel(
        self, name: object, source: object, size: object, arguments: Any, *rest: object, **options: object
    ) -> Any:
        """What a reference run gives is not looked at."""
        return list(arguments)

    def tune_kernel(self, *positional: Any, **keywords: Any) -> None:
        given = dict(zip(_POSITIONAL, positional, strict=False)) | keywords
        known = signature(TuningCall).parameters
        missing = [name for name in _POSITIONAL[:5] if name not in given]
        if missing:
            raise InputError(f"tune_kernel is called without {missing[0]}")
        call = TuningCall(**{name: value for name, value in given.items() if name in known}, folder=self.script.parent)
        write_space(call, self.folder)
        raise _RecordedError


def _run(script: Path, folder: Path, arguments: Sequence[str]) -> str:
    """Run the script; why there is no space file, or an empty text."""
    sys.meta_path.insert(0, _StandIn(script, folder))
    sys.path.insert(0, str(script.parent))
    sys.argv = [str(script), *arguments]
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # the generator that scripts use
    seeded = np.random.default_rng
    np.random.default_rng = lambda seed=None: seeded(0 if seed is None else seed)
    libraries = AbsentLibraries((script.parent,))  # what draws or keeps results need not be installed
    sys.meta_path.append(libraries)
    try:
        libraries.run(lambda: runpy.run_path(str(script), run_name="__main__"))
    except _RecordedError:
        return ""
    except InputError as error:
        return str(error)
    except SystemExit as error:
        return f"it ends with status {error.code} before it calls tune_kernel"
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(script)]
        where = f"line {lines[-1]}: " if lines else ""
        return f"{where}{type(error).__name__}: {' '.join(str(error).split())}"
    return "it does not call tune_kernel"


if __name__ == "__main__":
    failure = _run(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
    if failure:
        print(failure, file=sys.stderr)
        sys.exit(_REFUSED)
