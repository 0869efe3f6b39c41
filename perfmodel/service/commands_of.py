"""A request as the command line that answers it, so that the service and the program are one path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ..errors import InputError
from ..families.registry import family
from ..families.user.space_file import read_space_file
from .confinement import inside
from .requests import AnalyzeRequest, GpusRequest, PredictRequest, RankRequest, Request

_SOURCE_NAME = "source.cu"


def command_of(request: Request, root: Path, private: Path) -> list[str]:
    """The words behind ``perfmodel`` for a request; every file that it names lies in the folder ``root``.

    Args:
        request: the tool's arguments.
        root: the folder that may be read, without links in its path.
        private: an empty folder for a source that was sent as text.

    Raises:
        InputError: a name leads out of the folder, or the request contradicts itself.
    """
    match request:
        case GpusRequest():
            words = ["gpus"] if request.name is None else ["gpus", "show", _gpu(request.name, root)]
        case AnalyzeRequest():
            words = _analyze(request, root, private)
        case RankRequest():
            words = _rank(request, root)
        case PredictRequest():
            settings = [f"--set={name}={_text(value)}" for name, value in request.configuration.items()]
            words = ["predict", family(request.family).name, *_problem(request.problem), *settings]
            words += [f"--fidelity={request.fidelity.value}"]
    if not isinstance(request, GpusRequest):
        words += [f"--gpu={_gpu(request.gpu, root)}", f"--l2={request.l2.value}"]
        words += [] if request.sm_clock_mhz is None else [f"--sm-clock-mhz={request.sm_clock_mhz}"]
    return [*words, "--json"]


def _analyze(request: AnalyzeRequest, root: Path, private: Path) -> list[str]:
    if (request.file is None) == (request.source is None):
        raise InputError("file and source: one of them is needed")
    if request.source is not None:
        path = private / _SOURCE_NAME
        path.write_text(request.source, encoding="utf-8")
    else:
        path = _source(str(request.file), root)
    words = ["analyze", str(path)]
    words += [] if request.kernel is None else [f"--kernel={request.kernel}"]
    words += [f"--grid={_sizes(request.grid)}", f"--block={_sizes(request.block)}"]
    words += [f"--arg={argument}" for argument in request.arguments]
    words += [f"--constant={name}={spec}" for name, spec in request.contents.items()]
    words += [f"--define={name}={value}" for name, value in request.defines.items()]
    words += [f"--include={inside(root, folder)}" for folder in request.include]
    words += [] if request.cluster is None else [f"--cluster={_sizes(request.cluster)}"]
    words += [] if request.shared_bytes is None else [f"--shared={request.shared_bytes}"]
    return [*words, *(["--source"] if request.lines else [])]


def _rank(request: RankRequest, root: Path) -> list[str]:
    options = [f"--top={request.top}", f"--fidelity={request.fidelity.value}"]
    if request.family is not None:
        if request.file is not None or request.space is not None:
            raise InputError("family has no place beside file and space: give one or the others")
        return ["rank", family(request.family).name, *_problem(request.problem), *options]
    if request.file is None or request.space is None:
        raise InputError("family, or file with space, is needed")
    if request.problem:
        raise InputError("problem has no place beside file: sizes stand in the space")
    space = _named(request.space, root)
    if read_space_file(root / space).options:
        raise InputError(f"space {request.space}: the service takes no options of the compiler")
    return ["rank", str(_source(request.file, root)), f"--space={space}", *options]


def _named(name: str, root: Path) -> Path:
    """A file of the folder by its name from there on, as the process that answers begins there."""
    path = inside(root, name).relative_to(root)
    if str(path).startswith("-"):
        raise InputError(f"{name!r} begins like an option")
    return path


def _source(name: str, root: Path) -> Path:
    path = _named(name, root)
    if path.suffix.lower() == ".py":
        raise InputError(f"{name}: the service runs no Python file; give CUDA C++, PTX or a binary")
    return path


def _gpu(name: str, root: Path) -> str:
    if name.startswith("-"):
        raise InputError(f"{name!r} is no name of a GPU")
    return str(inside(root, name)) if name.endswith(".toml") else name


def _problem(values: Mapping[str, str | int | float | bool | None]) -> list[str]:
    wrong = [name for name in values if not name.isidentifier()]
    if wrong:
        raise InputError(f"problem: {wrong[0]!r} is no name of a field")
    return [f"--{name.replace('_', '-')}={_text(value)}" for name, value in values.items()]


def _text(value: str | int | float | bool | None) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _sizes(sizes: Iterable[int]) -> str:
    return ",".join(map(str, sizes))
