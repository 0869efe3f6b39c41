"""A report of a check as Markdown, JUnit XML and GitHub annotations; all show the same table and the same lines."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..core.units import MICROSECONDS, time_text
from .baseline import LaunchResult
from .checking import CheckReport, Outcome, Verdict
from .limits import SPILL, TIME

COLUMNS = (
    "launch",
    "GPU",
    "before",
    "now",
    "change",
    "registers/thread",
    "spilled bytes",
    "limiter",
    "changed",
    "verdict",
)
_MOST_INFORMATION = 6
"""Changes of counts that are shown for one launch; JSON has all."""
_FAILING = (Verdict.REGRESSED, Verdict.FAULTY, Verdict.FAILED)


def table(report: CheckReport) -> list[tuple[str, ...]]:
    """One row for each launch and GPU, with the columns of `COLUMNS`: before and after beside each other."""
    return [_row(outcome) for outcome in report.outcomes]


def _row(outcome: Outcome) -> tuple[str, ...]:
    before, now = outcome.before, outcome.now
    times = [None if one is None else one.time.predicted_us for one in (before, now)]
    old, new = times
    return (
        outcome.launch.name,
        outcome.launch.shown_gpu,
        *("–" if one is None else time_text(one / MICROSECONDS) for one in times),
        "–" if old is None or new is None else f"{new / old - 1:+.1%}",
        _both(before, now, lambda one: f"{one.resources['registers_per_thread']}"),
        _both(before, now, lambda one: f"{one.quantities[SPILL]:,.0f}"),
        _both(before, now, lambda one: one.time.limiter),
        ", ".join(outcome.altered) or "–",
        outcome.verdict.value,
    )


def _both(before: LaunchResult | None, now: LaunchResult | None, text: Callable[[LaunchResult], str]) -> str:
    found = list(dict.fromkeys(text(one) for one in (before, now) if one is not None))
    return " → ".join(found) or "–"


def details(outcome: Outcome) -> list[str]:
    """What else is to be said of a launch: why it fails, and as information what changed most."""
    lines = list(outcome.problems)
    if outcome.information:
        shown = [change.text for change in outcome.information if change.name != TIME][:_MOST_INFORMATION]
        more = len(outcome.information) - len(shown)
        if shown:
            lines.append(f"for information: {'; '.join(shown)}{f'; {more} more in --json' if more > 1 else ''}")
    return lines


def markdown(report: CheckReport) -> str:
    """A GitHub table with the launches, then the reasons and notes."""
    lines = [
        f"### perfmodel: {report.summary}",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'|'.join('---:' if 2 <= index <= 6 else '---' for index in range(len(COLUMNS)))}|",
    ]
    for row, outcome in zip(table(report), report.outcomes, strict=True):
        cells = [_escaped(cell) for cell in row]
        if outcome.verdict in _FAILING:
            cells[-1] = f"**{cells[-1]}**"
        lines.append(f"| {' | '.join(cells)} |")
    remarks = [f"- {_escaped(o.launch.title)}: {_escaped(text)}" for o in report.outcomes for text in details(o)]
    notes = [f"- {_escaped(text)}" for text in report.notes]
    if remarks or notes:
        lines += ["", *remarks, *notes]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    for character in "\\|<>*_`":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())


def junit(report: CheckReport) -> str:
    """JUnit XML: one test case for each launch and GPU."""
    failures = sum(o.verdict in (Verdict.REGRESSED, Verdict.FAULTY) for o in report.outcomes)
    errors = sum(o.verdict is Verdict.FAILED for o in report.outcomes)
    suite = ElementTree.Element(
        "testsuite",
        name="perfmodel",
        tests=str(len(report.outcomes)),
        failures=str(failures),
        errors=str(errors),
        skipped="0",
    )
    for outcome in report.outcomes:
        launch = outcome.launch
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=launch.name,
            name=launch.shown_gpu,
            file=launch.shown_file,
            line=str(outcome.line),
        )
        if outcome.problems:
            kind = "error" if outcome.verdict is Verdict.FAILED else "failure"
            made = ElementTree.SubElement(case, kind, message=_xml(outcome.problems[0]), type=outcome.verdict.value)
            made.text = _xml("\n".join(details(outcome)))
        row = "\n".join(f"{column}: {cell}" for column, cell in zip(COLUMNS, _row(outcome), strict=True))
        ElementTree.SubElement(case, "system-out").text = _xml(row)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    """A text without the control characters that XML cannot hold."""
    return "".join(character for character in text if character >= " " or character in "\t\n")


def github(report: CheckReport) -> str:
    """Workflow commands of GitHub Actions: an error at each kernel that fails, a notice at each that changed, a warning a note.

    Source: GitHub Docs, Workflow commands for GitHub Actions.
    """
    lines = []
    for outcome in report.outcomes:
        title = _property(f"perfmodel: {outcome.launch.title}")
        place = f"file={_property(outcome.launch.shown_file)},line={outcome.line},title={title}"
        if outcome.verdict in _FAILING:
            lines.append(f"::error {place}::{_data(chr(10).join(details(outcome)))}")
        elif outcome.verdict is Verdict.IMPROVED:
            row = _row(outcome)
            lines.append(f"::notice {place}::{_data(f'improved: {row[2]} → {row[3]} ({row[4]})')}")
    lines += [f"::warning title=perfmodel::{_data(text)}" for text in report.notes]
    return "".join(f"{line}\n" for line in [*lines, f"perfmodel: {report.summary}"])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: Mapping[str, Callable[[CheckReport], str]] = MappingProxyType(
    {"markdown": markdown, "junit": junit, "github": github}
)
"""Every format but the table that people read in a terminal."""
