"""``perfmodel check``: the launches of a repository against a baseline, in continuous integration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..core.documents import nearest
from ..errors import InputError
from .options import CsvOption, JsonOption, require_one_format
from .output import note, print_csv, print_json, print_table, progress_bar, require_writable, write_target

if TYPE_CHECKING:
    from ..checks.checking import CheckReport

_TEXT = "text"
USAGE_STATUS = 2


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("check")(check)


def check(
    file: Annotated[
        Path,
        typer.Argument(metavar="[PERF.toml]", help="The launches; docs/check.md describes the file."),
    ] = Path("perf.toml"),
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on",
            metavar="LIMITS",
            help="How much each quantity may grow: time=5%,spill=0, resources and counts by name. Replaces the file's fail_on.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline", metavar="FILE.json", help="Compare with this baseline, not with the one that PERF.toml names."
        ),
    ] = None,
    update_baseline: Annotated[
        bool,
        typer.Option("--update-baseline", help="Write the results as the new baseline; no growth fails then."),
    ] = False,
    shown_as: Annotated[
        str, typer.Option("--format", metavar="text|markdown|junit|github", help="Format of standard output.")
    ] = _TEXT,
    write: Annotated[
        list[str] | None,
        typer.Option(
            "--write", metavar="FORMAT=FILE", help="Also write the report as markdown, junit or github; repeat."
        ),
    ] = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Check the launches of PERF.toml on its GPUs against a baseline: exit status 1 if one regressed, 0 if all are as good.

    More time or spills than --fail-on allows fail; other changes are only reported. Status 2 if a launch could not be analysed.
    """
    from ..checks.check_file import read_check_file
    from ..checks.checking import check as run_check
    from ..checks.formats import FORMATS

    require_one_format(as_json, as_csv)
    accepted = (_TEXT, *FORMATS)
    if shown_as not in accepted:
        raise InputError(f"--format {shown_as!r} must be one of {', '.join(accepted)}")
    targets = [_target(text, tuple(FORMATS)) for text in write or []]
    for _, path in targets:
        require_writable("--write", path, [file, baseline])
    found = read_check_file(file, fail_on)
    if update_baseline:
        require_writable("--baseline", baseline or found.baseline, [file])
    with progress_bar("launches", len(found.launches)) as advance:
        report = run_check(file, baseline=baseline, fail_on=fail_on, update_baseline=update_baseline, advance=advance)
    for name, path in targets:
        write_target("--write", path, FORMATS[name](report))
    if as_json:
        print_json(report.to_json())
    elif as_csv:
        print_csv(report.to_rows())
    elif shown_as == _TEXT:
        _print(report)
    else:
        typer.echo(FORMATS[shown_as](report), nl=False)
    if update_baseline and report.status == USAGE_STATUS:
        note("the baseline stays as it was: not every launch could be analysed")
    elif update_baseline:
        note(f"wrote {baseline or found.baseline}")
    if report.status:
        raise typer.Exit(report.status)


def _target(text: str, formats: tuple[str, ...]) -> tuple[str, Path]:
    name, given, path = text.partition("=")
    if not given or not path:
        raise InputError(f"--write {text!r} must have the form FORMAT=FILE, as junit=perf.xml")
    if name not in formats:
        raise InputError(f"--write {text!r}: unknown format {name!r}; {nearest(name, formats)}")
    return name, Path(path)


def _print(report: CheckReport) -> None:
    from ..checks.formats import COLUMNS, details, table

    print_table(f"{report.path}: {report.summary}", COLUMNS, table(report), 2)
    for outcome in report.outcomes:
        for text in details(outcome):
            typer.echo(f"{outcome.launch.title}: {text}")
    for text in report.notes:
        note(text)
