"""The baseline of a check: what each launch took on each GPU, with hashes that tell what has changed since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..core.documents import converted
from ..core.files import parse_json, read_text, write_text
from ..errors import InputError
from ..prediction.analyze import ContentDigests
from .limits import Change, Limit, changes, quantities, regressions

FORMAT = 1
_TABLES_ON_LINES_OF_THEIR_OWN = 4
"""The file, its launches, the GPUs of a launch, the parts of a result."""
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ResultTime(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Predicted device time of one launch in microseconds, its 90 % interval and what limits it."""

    predicted_us: float
    interval_us: tuple[float, float] | None
    limiter: str


class LaunchResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one launch gave on one GPU; the digests are hashes of source, machine code, and launch with its arguments."""

    source: Digest
    code: Digest
    launch: Digest
    time: ResultTime
    resources: dict[str, int]
    counts: dict[str, int | float]

    @property
    def digests(self) -> ContentDigests:
        """The three hashes."""
        return ContentDigests(source=self.source, code=self.code, launch=self.launch)

    @property
    def quantities(self) -> dict[str, float]:
        """Every quantity that can be limited, by its name."""
        return quantities(msgspec.to_builtins(self))


class BaselineFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The baseline of `perfmodel check`: results by the names of launch and GPU, and the versions that gave them."""

    format: int
    perfmodel: str
    compiler: str
    launches: dict[str, dict[str, LaunchResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Versions of what gives a result besides the user's sources."""

    perfmodel: str
    compiler: str

    @property
    def text(self) -> str:
        """Both in one phrase."""
        return f"perfmodel {self.perfmodel}, {self.compiler}"


def present_tools() -> Tools:
    """The installed versions."""
    from ..compiler.toolchain import compiler_available, nvcc_available, nvcc_version

    compiler = nvcc_version() if nvcc_available() else "NVRTC" if compiler_available() else "no compiler"
    return Tools(perfmodel=version("perfmodel"), compiler=compiler)


def result_of(found: dict[str, Any], digests: ContentDigests) -> LaunchResult:
    """The result of an analysis from its JSON object and its hashes."""
    time = found["time"]
    return LaunchResult(
        source=digests.source,
        code=digests.code,
        launch=digests.launch,
        time=ResultTime(
            predicted_us=time["predicted_us"],
            interval_us=None if time["interval_us"] is None else tuple(time["interval_us"]),
            limiter=time["limiter"],
        ),
        resources=found["resources"],
        counts=found["counts"],
    )


def read_baseline(path: Path) -> BaselineFile:
    """The baseline in a file.

    Raises:
        InputError: the file cannot be read, is no baseline, or one of a newer format.
    """
    found = parse_json(path, read_text(path))
    if isinstance(found, dict) and found.get("format", FORMAT) != FORMAT:
        raise InputError(f"{path}: format = {found['format']!r} is not {FORMAT}, the one that this perfmodel reads")
    return converted(BaselineFile, found, str(path))


def write_baseline(path: Path, results: Iterable[tuple[str, str, LaunchResult]], tools: Tools) -> None:
    """Write launches, GPUs and their results, sorted by name, so that a change is a change of few lines.

    Raises:
        InputError: the file cannot be written.
    """
    launches: dict[str, dict[str, LaunchResult]] = {}
    for launch, gpu, result in results:
        launches.setdefault(launch, {})[gpu] = result
    file = BaselineFile(format=FORMAT, perfmodel=tools.perfmodel, compiler=tools.compiler, launches=launches)
    text = _laid_out(msgspec.to_builtins(file), _TABLES_ON_LINES_OF_THEIR_OWN)
    try:
        write_text(path, f"{text}\n")
    except OSError as error:
        raise InputError(f"baseline {path}: {error.strerror or error}") from error


def _laid_out(value: Any, levels: int, indent: str = "") -> str:
    """JSON with one line for each key of the outer tables, names sorted; what lies deeper stands on its key's line."""
    if not isinstance(value, dict) or not levels or not value:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    inner = f"{indent} "
    lines = [
        f"{inner}{json.dumps(name, ensure_ascii=False)}: {_laid_out(value[name], levels - 1, inner)}"
        for name in sorted(value)
    ]
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def growth_since(before: Mapping[str, Any], now: Mapping[str, Any], limits: Sequence[Limit]) -> tuple[Change, ...]:
    """What a limit does not allow between two objects of ``perfmodel analyze --json``.

    Raises:
        InputError: they are of different kernels or GPUs.
    """
    for name in ("kernel", "gpu"):
        if before[name] != now[name]:
            raise InputError(f"the baseline is of {name} {before[name]!r}, this result of {now[name]!r}")
    return regressions(changes(quantities(before), quantities(now)), limits)


def read_result(path: Path) -> dict[str, Any]:
    """An object that ``perfmodel analyze --json`` printed, for ``analyze --baseline``.

    Raises:
        InputError: the file cannot be read or holds something else; it is named.
    """
    try:
        found = parse_json(path, read_text(path))
        if not isinstance(found, dict):
            raise InputError("is no output of perfmodel analyze --json")
        for name in ("kernel", "gpu"):
            if name not in found:
                raise InputError(f"has no {name!r}; it must be an output of perfmodel analyze --json")
        quantities(found)
    except InputError as error:
        named = str(error) if str(path) in str(error) else f"{path}: {error}"
        raise InputError(f"baseline {named}") from None
    return found
