"""Run the launches of a perf.toml and hold each against its baseline."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ..compiler.pool import run_many
from ..core.files import read_text
from ..core.progress import Advance, no_progress
from ..core.results import Bar, ResultList
from ..core.units import MICROSECONDS
from ..errors import InputError, PerfmodelError
from ..prediction.analyze import analyze
from ..profiles.executed_profile import Effort
from ..profiles.profile_cache import content_digest
from ..simulator.faults import fault_texts
from ..simulator.simulation import Budget
from .baseline import BaselineFile, LaunchResult, Tools, present_tools, read_baseline, result_of, write_baseline
from .check_file import CheckedLaunch, CheckFile, read_check_file
from .limits import Change, changes, regressions

_COMPILE_SECONDS = 600.0
"""What a launch may take beyond its execution before its process is ended."""


class Verdict(Enum):
    """What became of one launch on one GPU; the first two fail the check, ``failed`` is wrong input."""

    REGRESSED = "regressed"
    FAULTY = "faulty"
    FAILED = "failed"
    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    TOOLS_CHANGED = "tools changed"
    """The same machine code and arguments gave something else: perfmodel or the GPU's sheet has changed, not the kernel."""
    NEW = "new"
    """It is not in the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What analysing a launch gave: its result, and the faults of the kernel."""

    result: LaunchResult
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outcome:
    """One launch on one GPU: before, now, what changed, and the verdict.

    ``regressions`` are changes that a limit forbids, ``information`` all others. ``altered`` says which of source, machine code
    and launch differ from the baseline's. ``error`` is why there is no result.
    """

    launch: CheckedLaunch
    verdict: Verdict
    before: LaunchResult | None = None
    now: LaunchResult | None = None
    regressions: tuple[Change, ...] = ()
    information: tuple[Change, ...] = ()
    altered: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    error: str = ""

    def __repr__(self) -> str:
        first = f": {self.problems[0]}" if self.problems else ""
        return f"<Outcome {self.launch.name} on {self.launch.shown_gpu}: {self.verdict.value}{first}>"

    @property
    def line(self) -> int:
        """The line of the file that defines the kernel; 1 where it is not found."""
        return kernel_line(self.launch.file, self.launch.kernel or "")

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it fails: one line for each reason; none where it passes."""
        if self.error:
            return (self.error,)
        forbidden = {limit.name: limit.text for limit in self.launch.limits}
        grown = (f"{change.text}; the limit is {forbidden[change.name]}" for change in self.regressions)
        return (*self.faults, *grown)

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "launch": self.launch.name,
            "gpu": self.launch.shown_gpu,
            "file": self.launch.shown_file,
            "kernel": self.launch.kernel,
            "verdict": self.verdict.value,
            "before_us": None if self.before is None else self.before.time.predicted_us,
            "now_us": None if self.now is None else self.now.time.predicted_us,
            "altered": list(self.altered),
            "regressions": [_json(change) for change in self.regressions],
            "information": [_json(change) for change in self.information],
            "faults": list(self.faults),
            "error": self.error or None,
        }


def _json(change: Change) -> dict[str, Any]:
    return {"name": change.name, "before": change.before, "now": change.now}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckReport(ResultList[Outcome]):
    """All launches of a perf.toml against its baseline; a list of its outcomes."""

    path: Path
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]

    @property
    def items(self) -> Sequence[Outcome]:
        """One for each launch and GPU."""
        return self.outcomes

    @property
    def headline(self) -> str:
        """File and verdicts."""
        return f"{self.path}: {self.summary}"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each launch and GPU: seconds before and now, verdict, what changed."""
        return [
            {
                "launch": outcome.launch.name,
                "gpu": outcome.launch.shown_gpu,
                "verdict": outcome.verdict.value,
                "before_s": None if outcome.before is None else outcome.before.time.predicted_us / MICROSECONDS,
                "now_s": None if outcome.now is None else outcome.now.time.predicted_us / MICROSECONDS,
                "altered": ", ".join(outcome.altered),
                "problems": "; ".join(outcome.problems),
            }
            for outcome in self.outcomes
        ]

    def bars(self) -> list[Bar]:
        """The time of each launch now."""
        timed = [(outcome.launch.title, outcome.now) for outcome in self.outcomes if outcome.now is not None]
        return [Bar(label=title, seconds=now.time.predicted_us / MICROSECONDS) for title, now in timed]

    @property
    def status(self) -> int:
        """Exit status: 2 where a launch could not be analysed, 1 where one regressed or does something wrong, else 0."""
        verdicts = {outcome.verdict for outcome in self.outcomes}
        if Verdict.FAILED in verdicts:
            return 2
        return int(bool(verdicts & {Verdict.REGRESSED, Verdict.FAULTY}))

    @property
    def summary(self) -> str:
        """How many launches have which verdict, in one phrase."""
        counts = {verdict: sum(o.verdict is verdict for o in self.outcomes) for verdict in Verdict}
        return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "status": self.status,
            "outcomes": [outcome.to_json() for outcome in self.outcomes],
            "notes": list(self.notes),
        }


def check(
    path: str | Path,
    *,
    baseline: str | Path | None = None,
    fail_on: str | None = None,
    update_baseline: bool = False,
    advance: Advance = no_progress,
) -> CheckReport:
    """Analyse every launch of a perf.toml on each of its GPUs and compare with the baseline.

    Args:
        path: the file, as the manual's page on checks says.
        baseline: the file of earlier results; the one that ``path`` names where None.
        fail_on: limits such as ``time=5%,spill=0`` in place of those of the file.
        update_baseline: write the results as the new baseline, if every launch could be analysed.
        advance: called as each launch ends.

    Raises:
        InputError: a file is not as it should be, or there is no baseline yet.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "perf.toml"
    ...     _ = file.with_name("k.cu").write_text("__global__ void k(float *x) { x[threadIdx.x] = 1.0f; }")
    ...     launch = 'file = "k.cu", kernel = "k", grid = [1], block = [64], arguments = ["f32[64]"]'
    ...     _ = file.write_text(chr(10).join(['gpus = ["h200"]', f"launch = [{{ {launch} }}]"]))
    ...     [outcome.verdict.value for earlier in (True, False) for outcome in check(file, update_baseline=earlier)]
    ['new', 'unchanged']
    """
    file = read_check_file(Path(path), fail_on)
    if baseline is not None:
        file = replace(file, baseline=Path(baseline))
    other = "" if baseline is None else f" --baseline {baseline}"
    earlier = earlier_results(file, required=not update_baseline, options=other)
    results = analysed(file.launches, advance)
    if update_baseline:  # the new figures are accepted, whatever they are
        file = replace(file, launches=tuple(replace(launch, limits=()) for launch in file.launches))
    report = judged_all(file, results, earlier)
    if update_baseline and report.status != 2:
        named = ((o.launch.name, o.launch.shown_gpu, o.now) for o in report.outcomes if o.now is not None)
        write_baseline(file.baseline, named, present_tools())
    return report


def earlier_results(file: CheckFile, *, required: bool, options: str = "") -> BaselineFile | None:
    """The baseline of a file; None where there is none yet and none is required.

    ``options`` are those by which the command line names another one.
    """
    if not file.baseline.exists():
        if required:
            raise InputError(
                f"{file.path}: there is no baseline {file.baseline}; "
                f"`perfmodel check {file.path}{options} --update-baseline` makes it"
            )
        return None
    return read_baseline(file.baseline)


def analysed(launches: Sequence[CheckedLaunch], advance: Advance = no_progress) -> list[Measured | PerfmodelError]:
    """What each launch gave, several at once in processes of their own; an error is a value."""
    return run_many(
        measured,
        [(launch,) for launch in launches],
        describe=lambda launch: launch.title,
        time_limit_s=_COMPILE_SECONDS + 2 * max(launch.max_seconds for launch in launches),
        advance=advance,
    )


def measured(launch: CheckedLaunch) -> Measured:
    """Analyse one launch; errors are those of `perfmodel.analyze`."""
    budget = Budget(
        seconds=launch.max_seconds,
        memory_bytes=launch.max_memory_mib * 2**20,
        warp_instructions=launch.max_instructions,
    )
    found = analyze(
        launch.file,
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        args=launch.arguments,
        gpu=launch.gpu,
        shared_bytes=launch.shared_bytes,
        cluster=launch.cluster,
        defines=dict(launch.defines),
        include=launch.include,
        compile_commands=launch.compile_commands,
        constants=dict(launch.contents),
        options=launch.options,
        sm_clock_mhz=launch.sm_clock_mhz,
        l2=launch.l2,
        calibration=None if launch.calibration is None else str(launch.calibration),
        effort=Effort(all_blocks=launch.all_blocks, seed=launch.seed, budget=budget),
    )
    coefficients = "" if launch.calibration is None else read_text(launch.calibration)
    digests = found.digests
    whole = content_digest(digests.launch, launch.l2.value, launch.sm_clock_mhz, coefficients)
    return Measured(
        result=result_of(found.to_json(), replace(digests, launch=whole)),
        faults=fault_texts(found.faults),
    )


def judged_all(
    file: CheckFile, results: Sequence[Measured | PerfmodelError], earlier: BaselineFile | None
) -> CheckReport:
    """Every launch held against the baseline, and what a reader should know besides."""
    known = {} if earlier is None else earlier.launches
    outcomes = tuple(
        judged(launch, result, known.get(launch.name, {}).get(launch.shown_gpu))
        for launch, result in zip(file.launches, results, strict=True)
    )
    return CheckReport(path=file.path, outcomes=outcomes, notes=tuple(_notes(file, outcomes, earlier)))


def judged(launch: CheckedLaunch, found: Measured | PerfmodelError, before: LaunchResult | None) -> Outcome:
    """The verdict on one launch.

    A change of the same machine code with the same arguments comes from perfmodel or the GPU's sheet, and fails nothing.
    """
    if isinstance(found, PerfmodelError):
        return Outcome(launch=launch, verdict=Verdict.FAILED, before=before, error=str(found))
    now = found.result
    if before is None:
        verdict = Verdict.FAULTY if found.faults else Verdict.NEW
        return Outcome(launch=launch, verdict=verdict, now=now, faults=found.faults)
    differing = changes(before.quantities, now.quantities)
    altered = tuple(
        words
        for words, old, new in (
            ("source", before.source, now.source),
            ("machine code", before.code, now.code),
            ("launch", before.launch, now.launch),
        )
        if old != new
    )
    of_kernel = "machine code" in altered or "launch" in altered
    grown = regressions(differing, launch.limits) if of_kernel else ()
    return Outcome(
        launch=launch,
        verdict=_verdict(launch, found.faults, differing, grown, of_kernel=of_kernel),
        before=before,
        now=now,
        regressions=grown,
        information=tuple(change for change in differing if change not in grown),
        altered=altered,
        faults=found.faults,
    )


def _verdict(
    launch: CheckedLaunch,
    faults: Sequence[str],
    differing: Sequence[Change],
    grown: Sequence[Change],
    *,
    of_kernel: bool,
) -> Verdict:
    if faults:
        return Verdict.FAULTY
    if grown:
        return Verdict.REGRESSED
    if differing and not of_kernel:
        return Verdict.TOOLS_CHANGED
    by_name: Mapping[str, Change] = {change.name: change for change in differing}
    for limit in launch.limits:
        change = by_name.get(limit.name)
        if change is not None and limit.is_beyond(change.before, change.now):
            return Verdict.IMPROVED
    return Verdict.UNCHANGED


def _notes(file: CheckFile, outcomes: Sequence[Outcome], earlier: BaselineFile | None) -> list[str]:
    """What is not in both the file and the baseline, and other versions."""
    if earlier is None:
        return []
    notes = []
    new = [outcome.launch.title for outcome in outcomes if outcome.verdict is Verdict.NEW]
    present = {(outcome.launch.name, outcome.launch.shown_gpu) for outcome in outcomes}
    gone = [f"{name} on {gpu}" for name, gpus in earlier.launches.items() for gpu in gpus if (name, gpu) not in present]
    if new:
        notes.append(f"not in the baseline: {', '.join(new)}; --update-baseline adds them")
    if gone:
        notes.append(f"only in the baseline: {', '.join(gone)}; --update-baseline drops them")
    before, now = Tools(perfmodel=earlier.perfmodel, compiler=earlier.compiler), present_tools()
    if before != now:
        notes.append(f"the baseline is of {before.text}; this is {now.text}")
    if any(outcome.verdict is Verdict.REGRESSED for outcome in outcomes):
        notes.append("regressed: if that is meant, --update-baseline takes the new figures")
    if any(outcome.verdict is Verdict.TOOLS_CHANGED for outcome in outcomes):
        notes.append(
            "tools changed: the same machine code gives other figures, so that perfmodel or a GPU's sheet has changed; "
            "--update-baseline takes the new ones"
        )
    return notes


def kernel_line(file: Path, kernel: str) -> int:
    """The line that defines a kernel, by its name behind ``__global__`` or ``def``; 1 where there is none.

    >>> kernel_line(Path("none.cu"), "k")
    1
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return 1
    name = re.split(r"[<(]", kernel)[0].rpartition("::")[2].strip()
    place = re.search(rf"(?:__global__[^;{{]*?|\bdef\s+|\.entry\s+)\b{re.escape(name)}\b", text) if name else None
    return 1 if place is None else text.count("\n", 0, place.end()) + 1
