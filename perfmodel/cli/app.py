"""The program ``perfmodel``: its commands, and how errors become one line and an exit status."""

from __future__ import annotations

import errno
import gc
import io
import itertools
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points, version
from typing import Any, NoReturn, TextIO

import typer
from typer.core import TyperCommand

from ..core.garbage import collect_rarely
from ..core.kept import anything_kept, forget_kept
from ..errors import INTERRUPTED, INTERRUPTED_AND_KEPT, INTERRUPTED_STATUS, PerfmodelError
from . import analyze, catalogue, check, fit, network, predict, rank, sweep, validate
from . import run as run_command
from .interruption import interrupts_noted
from .options import OnceCommand

COMMANDS_GROUP = "perfmodel.commands"
USAGE_STATUS = 2
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors that no option of a command is to blame for: a full disk, a used-up quota, a read-only file system."""
# Typer carries a Click of its own from 0.25 on; its base of usage errors is reached through a class that Typer exports.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"perfmodel {version('perfmodel')}")
        raise typer.Exit


def build_app() -> typer.Typer:
    """The Typer application with the commands of this package and those that others bring by entry points.

    An entry point of the group ``perfmodel.commands`` is a function that takes the application and adds to it.
    """
    app = typer.Typer(
        name="perfmodel",
        help="Predict how long a CUDA kernel takes on a GPU, what limits it and which configuration to run; no GPU needed.",
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def options(
        show_version: bool = typer.Option(
            False, "--version", callback=_version, is_eager=True, help="Print the version."
        ),
    ) -> None:
        pass

    for module in (catalogue, rank, predict, analyze, check, run_command, network, sweep, validate, fit):
        module.register(app)
    for point in sorted(entry_points(group=COMMANDS_GROUP), key=lambda point: point.name):
        try:
            register = point.load()
        except ImportError as error:
            typer.echo(f"perfmodel: command {point.name!r} cannot be loaded: {error}", err=True)
            continue
        register(app)
    for command in app.registered_commands:
        if not issubclass(command.cls or TyperCommand, OnceCommand):
            command.cls = OnceCommand
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the program; exit status 0 done, 1 a check failed, 2 bad usage or input, 130 interrupted."""
    collect_rarely()
    leave(run(arguments))


def leave(status: int) -> NoReturn:
    """End the process; Python does not look through all that there is once more, which takes a fifth of an analysis's time."""
    if "triton" not in sys.modules:  # whose bindings list all that Python has not cleared as leaks
        gc.freeze()
    sys.exit(status)


def run(arguments: list[str] | None = None) -> int:
    """Run the program and return its exit status."""
    forget_kept()
    with interrupts_noted() as noted, _lenient_output():
        try:
            status = build_app()(args=arguments, prog_name="perfmodel", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (KeyboardInterrupt, typer.Abort):
            status = INTERRUPTED_STATUS
        except Exception as error:
            status = INTERRUPTED_STATUS if noted else _failed(error, sys.argv[1:] if arguments is None else arguments)
    if status == INTERRUPTED_STATUS:
        typer.echo(INTERRUPTED_AND_KEPT if anything_kept() else INTERRUPTED, err=True)
    return status if isinstance(status, int) else 0


def _failed(error: Exception, arguments: Sequence[str]) -> int:
    if isinstance(error, _UsageError):
        return _fail(_usage_text(error, arguments))
    if isinstance(error, PerfmodelError):
        return _fail(str(error))
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        if error.filename is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere, too
        return _fail(f"{error.filename or 'standard output'}: {error.strerror}")
    if isinstance(error, FileNotFoundError) and not _folder_is_there():
        return _fail("the folder in which the program was started is gone")
    raise error


def _folder_is_there() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


class _WhileRead(io.FileIO):
    """A file whose reader may leave: what is written then is dropped, so that the command still finds its exit status."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


@contextmanager
def _lenient_output() -> Iterator[None]:
    """Standard output and error that may be closed by their readers, and that show another character where one is lacking."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_lenient, before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        sys.stdout, sys.stderr = before


def _lenient(stream: TextIO) -> TextIO:
    try:
        stream.flush()
        raw = _WhileRead(stream.fileno(), "wb", closefd=False)
    except (AttributeError, OSError, ValueError):  # none, closed, or in memory
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=stream.encoding, errors="replace", line_buffering=raw.isatty()
    )


def _usage_text(error: BaseException, arguments: Sequence[str]) -> str:
    """The parser's message in one line, with the text that was given where the parser does not repeat it."""
    message = " ".join(str(getattr(error, "format_message", error.__str__)()).split())
    options: Sequence[str] = getattr(getattr(error, "param", None), "opts", ())
    joined = (word.split("=", 1) for word in arguments if word.startswith("--") and "=" in word)
    for option, given in (*itertools.pairwise(arguments), *joined):
        if option in options and repr(given) not in message:
            return f"{message} (given: {given!r})"
    return message


def _fail(message: str) -> int:
    typer.echo(f"perfmodel: error: {message}", err=True)
    return USAGE_STATUS
