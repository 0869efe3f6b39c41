"""A source without host code that does not compile: what needs a library that is not installed, for example."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from ..errors import CompileError
from ..sources.includes import with_slashes
from .host_code import Extent, device_macros
from .messages import errors_of, is_of_older_cuda, missing_header
from .nvcc_run import MOST_ROUNDS, UNROLL_MACRO, DevicePart, NvccRun, RefusedError, instantiation_of, is_of_wrapper
from .request import CompileRequest

_IDLE_ROUNDS = 4
"""Compilations in a row that leave as many errors, after which no more are tried."""
_CAREFUL_ROUNDS = 6
"""Rounds in which statements are left out; then functions are."""
_UNROLL = re.compile(r"^([ \t]*)#[ \t]*pragma[ \t]+unroll[ \t]+([^\s/].*?)[ \t]*(?://.*)?$", re.MULTILINE)
_ONE_AT_A_TIME = Lock()
"""Held while host code is left out: the compilation for names of parameters, which runs beside, asks for the same."""


def device_part(request: CompileRequest, virtual_architecture: str, time_limit_s: float) -> DevicePart:
    """What is left of a source when host code with errors has gone; worked out once.

    Raises:
        CompileError: errors remain that are none of host code.
    """
    with _ONE_AT_A_TIME:
        found = _device_part_or_error(request, virtual_architecture, time_limit_s)
    if isinstance(found, CompileError):
        raise found
    return found


@lru_cache(maxsize=16)
def _device_part_or_error(
    request: CompileRequest, virtual_architecture: str, time_limit_s: float
) -> DevicePart | CompileError:
    try:
        return _without_host_code(request, virtual_architecture, time_limit_s)
    except CompileError as error:
        return error


def _without_host_code(request: CompileRequest, virtual_architecture: str, time_limit_s: float) -> DevicePart:
    expression = instantiation_of(request)
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as name:
        run = NvccRun(request, virtual_architecture, Path(name), time_limit_s)
        texts = {run.source: request.source} | request.included_files()
        part = DevicePart(
            {path: _UNROLL.sub(rf"\1{UNROLL_MACRO}(\2)", with_slashes(text)) for path, text in texts.items()}
        )
        run.macros = device_macros(texts.values())
        run.use(part)
        part = replace(part, missing=run.absent_headers())
        rounds, ptx, before = _Rounds(), "", list[tuple[str, int, str]]()
        outdated: RefusedError | None = None
        for _ in range(MOST_ROUNDS):
            run.use(part)
            try:
                ptx = run.ptx(expression)
                break
            except RefusedError as error:
                if expression and is_of_wrapper(error.output):
                    expression = ""  # the file has no such template, and is compiled for what it has
                    continue
                header = missing_header(error.output)
                if header is not None and header not in part.missing:
                    part = replace(part, missing=(*part.missing, header))
                    continue
                extent, errors = rounds.next(error), errors_of(error.output)
                outdated = outdated or (error if is_of_older_cuda(error.output) else None)
                shorter = run.without_refused_host_code(errors, part.texts, extent)
                if shorter == part.texts and extent is Extent.STATEMENTS:
                    shorter = run.without_refused_host_code(errors, part.texts, Extent.DECLARATIONS)
                staying = [one for one in errors if one in before]
                # what device code lacks of a header is the same without host code
                lacking = part.missing and staying and shorter != part.texts
                if lacking and run.without_refused_host_code(staying, part.texts, Extent.DECLARATIONS) == part.texts:
                    break
                if shorter == part.texts or rounds.idle > _IDLE_ROUNDS:
                    break
                before = errors
                part = replace(part, texts=shorter, shortened=True)
        if not ptx:
            raise outdated or run.unsolved(part.missing, rounds.fewest)
        named = {Path(request.file_name) if path == run.source else path: text for path, text in part.texts.items()}
        return replace(part, texts=part.texts if request.path else named, ptx=ptx, expression=expression)


@dataclass(slots=True)
class _Rounds:
    """How much goes where host code has errors: more where that leaves as many errors as there were."""

    extent: Extent = Extent.STATEMENTS
    number: int = 0
    errors: int = 0
    idle: int = 0
    fewest: RefusedError | None = None
    """The refusal with the fewest errors: what is left out may also make new ones."""

    def next(self, error: RefusedError) -> Extent:
        """The extent for the errors of one compilation."""
        before, self.errors = self.errors, len(errors_of(error.output))
        fewest = self.errors + 1 if self.fewest is None else len(errors_of(self.fewest.output))
        self.idle = 0 if self.errors < fewest else self.idle + 1
        if self.errors <= fewest:
            self.fewest = error
        self.number += 1
        if self.number > _CAREFUL_ROUNDS and (self.extent is Extent.STATEMENTS or self.errors >= before):
            self.extent = Extent(min(self.extent + 1, max(Extent)))
        # the compiler names an undeclared variable once: its next use shows when this one has gone
        return max(self.extent, Extent.DECLARATIONS) if self.idle > 1 else self.extent
