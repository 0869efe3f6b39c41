"""What people read: tables and numbers with units, on standard output; progress and notes on standard error."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..core.units import count_text, interval_text, time_text
from ..errors import InputError

if TYPE_CHECKING:
    from ..advice.advise import Advised
    from ..prediction.listing import InstructionListing
    from ..prediction.prediction import Prediction

_SHOWN_INSTRUCTIONS = 40


def print_json(value: Any) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], left: int = 1) -> None:
    """A table on standard output; the first ``left`` columns are text, the others numbers, aligned to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def note(text: str) -> None:
    """A remark on standard error."""
    typer.echo(f"perfmodel: {text}", err=True)


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows as comma-separated values on standard output, with a line of names; what a row lacks is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    typer.echo(text.getvalue(), nl=False)


def print_prediction(
    prediction: Prediction, time_note: str = "", usage_note: str = "", between: Sequence[str] = ()
) -> None:
    """Time, limiter, resources, occupancy, notes, terms and counts of a prediction; ``between`` stands after the time."""
    from ..prediction.limiter_names import limiter_text
    from ..time_model.combine import LIMITER_NAMES

    time, resources = prediction.time, prediction.resources
    within = "" if time.interval_s is None else f", 90 % within {interval_text(time.interval_s)}"
    predicted = f"predicted {time_text(time.predicted_s)}{within} ({time.calibration_status}{time_note})"
    typer.echo(f"{predicted}, limited by {limiter_text(time.limiter)}")
    for text in between:
        typer.echo(text)
    typer.echo(
        f"{resources.registers_per_thread} registers, {resources.static_shared_bytes + resources.dynamic_shared_bytes:,} bytes "
        f"of shared memory, {resources.stack_bytes_per_thread} bytes of stack, {resources.spill_store_bytes} spilled"
        f"{usage_note}"
    )
    typer.echo(prediction.occupancy.text)
    for text in prediction.notes:
        typer.echo(f"note: {text}")
    terms = [
        (name, time_text(seconds), f"{seconds / time.predicted_s:.0%}" if name in LIMITER_NAMES else "–")
        for name, seconds in ((name, float(value)) for name, value in time.terms.items())
        if seconds > 0
    ]
    print_table("time of each resource if it were alone", ("term", "time", "of total"), terms)
    counts = [(name, count_text(float(value))) for name, value in prediction.counts.items() if float(value)]
    title = "counts of the whole launch" if prediction.exact else "counts of the whole launch (estimated)"
    print_table(title, ("count", "value"), counts)


def print_instructions(rows: Sequence[InstructionListing], advised: Advised) -> None:
    """The listing of memory instructions, with what the excess of each line costs."""
    from ..prediction.listing import by_line

    cost = {(one.place, one.space): time_text(one.excess_s) for one in advised.excess}
    lines = by_line(rows)
    cells = [
        (
            f"{row.file}:{row.line}",
            row.instruction if row.places == 1 else f"{row.instruction} ×{row.places}",
            count_text(float(row.requests)),
            f"{row.sectors_per_request:.2f}" if row.sectors else "–",
            count_text(float(row.wavefronts)) if row.wavefronts else "–",
            f"{row.efficiency:.0%}",
            f"{count_text(float(row.excess_bytes))}B",
            cost.get((f"{row.file}:{row.line}", row.space), "–") if row.excess_bytes else "–",
        )
        for row in lines[:_SHOWN_INSTRUCTIONS]
    ]
    columns = ("line", "instruction", "requests", "sectors/request", "wavefronts", "efficiency", "excess", "costs")
    print_table("memory instructions by source line, the largest excess first", columns, cells, 2)
    if len(lines) > _SHOWN_INSTRUCTIONS:
        typer.echo(f"… and {len(lines) - _SHOWN_INSTRUCTIONS} more; --json lists all")


@contextmanager
def progress_bar(what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A Rich progress bar on standard error; gives the function that advances it by one."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def require_writable(option: str, path: Path, others: Iterable[Path | None] = ()) -> None:
    """That the file which an option names can be written later; its folder is made where it is missing.

    Args:
        option: its name, for messages.
        path: the file.
        others: what the same command reads or writes besides, which the file must not replace.

    Raises:
        InputError: The path is a folder, one of the others, a file that nobody may write, or no file can be made there.
    """
    from ..core.files import require_replaceable

    require_no_option(option, path)
    try:
        require_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except FileExistsError:
        raise InputError(f"{option} {path}: {path.parent} is no folder") from None
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
    if any(other is not None and path.resolve() == other.resolve() for other in others):
        raise InputError(f"{option} {path}: is another file of this command, which it would replace; give another name")


def require_folder(option: str, path: Path) -> None:
    """That files can be written into the folder that an option names; it is made where it is missing.

    Raises:
        InputError: A file stands there, or the folder cannot be made or written to.
    """
    require_no_option(option, path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except FileExistsError:
        raise InputError(f"{option} {path}: is a file; a folder's name is needed") from None
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error


def require_no_option(option: str, path: Path) -> None:
    """That what an option names is no option, or a number below 0, that was given by mistake.

    Raises:
        InputError: it begins like one.
    """
    if str(path).startswith("-"):
        raise InputError(f"{option} {path}: begins like an option; give another name")


def write_target(option: str, path: Path, text: str) -> None:
    """Write the file in one step, so that no reader sees half of it.

    Raises:
        InputError: The file cannot be written; a full disk, say.
    """
    from ..core.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
