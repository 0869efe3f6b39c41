"""The changes that are worth most: every candidate predicted again, those sorted out that gain no more than the model's noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.results import Bar, ResultList
from ..core.units import microseconds, saving_text, time_text
from ..errors import PerfmodelError
from ..prediction.analyze import Analysis, evaluate_launches
from ..prediction.differences import noise
from ..profiles.kernel_profile import KernelProfile
from .arithmetic import double_precision, integer_work
from .atomics import atomics
from .bank_conflicts import bank_conflicts
from .block_work import work_per_block
from .coalescing import uncoalesced
from .divergence import divergence
from .grid import small_grid, tail
from .reductions import reductions
from .redundant_loads import redundant_loads
from .residency import residency, small_blocks
from .spills import spills
from .subject import AdviceKind, Candidate, Subject

CHANGES = 3
"""So many changes are named at most."""
_KINDS: tuple[Callable[[Subject], Iterator[Candidate]], ...] = (
    bank_conflicts,
    uncoalesced,
    redundant_loads,
    atomics,
    spills,
    residency,
    small_blocks,
    small_grid,
    tail,
    work_per_block,
    divergence,
    reductions,
    integer_work,
    double_precision,
)
_SPACES = {AdviceKind.BANK_CONFLICTS: "shared", AdviceKind.UNCOALESCED: "global"}
"""Kinds that say what the excess of a source line costs, and of which memory."""
_SHOWN_PLACES = 3
_ALIKE = 0.01
"""Changes of one kind whose times differ by less, as a part: the milder one is named."""
WithRegisters = Callable[[int, bool], KernelProfile | None]
"""A launch compiled for so many registers a thread and executed, with its traffic or with that of the launch itself."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advice:
    """One change: what is wrong at which source lines, what to do, and the predicted times without it and with it."""

    kind: AdviceKind
    places: tuple[str, ...]
    finding: str
    change: str
    now_s: float
    then_s: float

    def __repr__(self) -> str:
        return f"<Advice {self.text}>"

    @property
    def gain(self) -> float:
        """Part of the time that it saves."""
        return 1.0 - self.then_s / self.now_s

    @property
    def text(self) -> str:
        """One line.

        >>> Advice(
        ...     kind=AdviceKind.BANK_CONFLICTS, places=("k.cu:11",), finding="32-way bank conflict",
        ...     change="4 bytes of padding after every 128 bytes of the shared array", now_s=80e-6, then_s=44e-6,
        ... ).text
        'k.cu:11: 32-way bank conflict; 4 bytes of padding after every 128 bytes of the shared array: 80 µs → 44 µs (-45%)'
        """
        where = f"{_places_text(self.places)}: " if self.places else ""
        times = f"{time_text(self.now_s)} → {time_text(self.then_s)} ({saving_text(self.gain)})"
        return f"{where}{self.finding}; {self.change}: {times}"

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "kind": self.kind.value,
            "lines": list(self.places),
            "finding": self.finding,
            "change": self.change,
            "predicted_us": microseconds(self.then_s),
            "gain": self.gain,
        }


def _places_text(places: Sequence[str]) -> str:
    """Source lines, each file named once.

    >>> _places_text(["k.cu:3", "k.cu:9", "k.cu:4", "k.cu:5"])
    'k.cu:3, 9, 4 and 1 more line'
    """
    shown, last = [], ""
    for place in places[:_SHOWN_PLACES]:
        file, _, line = place.rpartition(":")
        shown.append(line if file and file == last else place)
        last = file
    more = len(places) - len(shown)
    return ", ".join(shown) + (f" and {more} more line{'s' if more > 1 else ''}" if more else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineExcess:
    """What the excess sectors or wavefronts of one source line cost: the time that the launch would save without them."""

    place: str
    space: str
    excess_s: float

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {"line": self.place, "space": self.space, "excess_us": microseconds(self.excess_s)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Advised(ResultList[Advice]):
    """The changes worth most, the best first, none that gains less than ``least_gain``; and the excess of each source line."""

    least_gain: float
    changes: tuple[Advice, ...]
    excess: tuple[LineExcess, ...]

    @property
    def items(self) -> Sequence[Advice]:
        """The changes."""
        return self.changes

    @property
    def headline(self) -> str:
        """The first change, or that there is none."""
        return self.text.splitlines()[0]

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each change: seconds without it and with it, and the part that it saves."""
        return [
            {
                "kind": change.kind.value,
                "lines": ", ".join(change.places),
                "finding": change.finding,
                "change": change.change,
                "now_s": change.now_s,
                "then_s": change.then_s,
                "gain": change.gain,
            }
            for change in self.changes
        ]

    def bars(self) -> list[Bar]:
        """The time now, then that with each change."""
        now = [Bar(label="now", seconds=change.now_s) for change in self.changes[:1]]
        return [*now, *(Bar(label=change.change, seconds=change.then_s) for change in self.changes)]

    @property
    def text(self) -> str:
        """What a user reads: one line for each change, or that there is none."""
        if not self.changes:
            return f"changes: nothing found that would gain more than {self.least_gain:.0%}"
        return "\n".join(f"change {number}: {change.text}" for number, change in enumerate(self.changes, 1))

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "least_gain": self.least_gain,
            "changes": [change.to_json() for change in self.changes],
            "excess": [line.to_json() for line in self.excess],
        }


def advise(analysis: Analysis) -> Advised:
    """What to change in an analysed kernel, at most three changes, each predicted again.

    A change is a launch with other counts, other warp traces or another occupancy; what it costs elsewhere is not known. Fewer
    registers are asked of the compiler, and what it then makes is executed.

    >>> import perfmodel as pm
    >>> place = "const int i = blockIdx.x * blockDim.x + threadIdx.x;"
    >>> source = f"__global__ void k(const float *x, float *y) {{ {place} y[i] = x[i * 32]; }}"
    >>> found = pm.analyze(source, kernel="k", grid=64, block=256, args=["f32[524288]", "f32[16384]"], gpu="h200")
    >>> pm.advise(found).changes[0].kind.value
    'uncoalesced'
    """
    subject = Subject(
        profile=analysis.execution.profile,
        instructions=analysis.execution.instructions,
        prediction=analysis.prediction,
        scenario=analysis.scenario,
        code=analysis.machine_code,
        executions=analysis.execution.executions,
    )
    return advise_on(subject, analysis.with_registers)


def advise_on(subject: Subject, with_registers: WithRegisters) -> Advised:
    """What to change in an executed launch; ``with_registers`` compiles for fewer registers and executes what that gives."""
    now = subject.prediction.time.predicted_s
    found = [one for kind in _KINDS for one in kind(subject) if _meets_as(subject, one)]
    seconds = _predicted(subject, found)
    least = noise().least_difference
    most = now * (1.0 - least)
    worth = [(one, then) for one, then in zip(found, seconds, strict=True) if then <= most]
    advice = [
        Advice(
            kind=candidate.kind,
            places=candidate.places,
            finding=candidate.finding,
            change=candidate.change,
            now_s=now,
            then_s=then,
        )
        for candidate, then in _with_compiled_registers(subject, worth, with_registers, most)
    ]
    excess = tuple(
        LineExcess(place=one.places[0], space=_SPACES[one.kind], excess_s=max(now - then, 0.0))
        for one, then in zip(found, seconds, strict=True)
        if one.kind in _SPACES and len(one.places) == 1
    )
    return Advised(least_gain=least, changes=_worth_most(advice, least), excess=excess)


def _meets_as(subject: Subject, candidate: Candidate) -> bool:
    """Whether warps of the changed launch meet at ``mbarrier`` objects as those of the launch itself, if these do."""
    own, changed = subject.profile.traces, candidate.profile.traces
    return own is None or changed is None or bool(len(own.phases)) == bool(len(changed.phases))


def _predicted(subject: Subject, candidates: Sequence[Candidate]) -> list[float]:
    """The time of each changed launch."""
    if not candidates:
        return []
    found = evaluate_launches([candidate.profile for candidate in candidates], subject.scenario)
    fixed = subject.gpu.empty_kernel_s
    return [
        fixed + (own - fixed) * candidate.work
        for candidate, own in zip(candidates, found.seconds.tolist(), strict=True)
    ]


def _with_compiled_registers(
    subject: Subject, worth: Sequence[tuple[Candidate, float]], with_registers: WithRegisters, most_s: float
) -> list[tuple[Candidate, float]]:
    """Candidates and their times, those of fewer registers as the compiler makes them; gone where it does not.

    Code for fewer registers is no faster than the same code with more warps beside it. So the fastest are compiled and executed
    first, and those that could not be the fastest any more are not. Times of at most ``most_s`` are worth it.
    """
    compiled: dict[int, tuple[Candidate, float]] = {}
    for place in sorted(range(len(worth)), key=lambda place: worth[place][1]):
        candidate, then = worth[place]
        if candidate.verify_registers is None:
            compiled[place] = candidate, then
        elif then <= most_s and (found := _as_compiled(subject, candidate, with_registers, most_s)) is not None:
            compiled[place] = found
            most_s = min(most_s, found[1] * (1.0 + _ALIKE))
    return [compiled[place] for place in sorted(compiled)]


def _as_compiled(
    subject: Subject, candidate: Candidate, with_registers: WithRegisters, most_s: float
) -> tuple[Candidate, float] | None:
    """The candidate as the compiler makes it, and its time; None where it does not, or where that is more than ``most_s``.

    Its caches are simulated where it is worth it with the traffic of the launch itself: spilled registers can only add to that.
    """
    found = None
    for caches in (False, True):
        verified = _verified(subject, candidate, with_registers, caches)
        if verified is None:
            return None
        found = verified, _predicted(subject, [verified])[0]
        if found[1] > most_s:
            return None
    return found


def _verified(subject: Subject, candidate: Candidate, with_registers: WithRegisters, caches: bool) -> Candidate | None:
    """The candidate with the code that the compiler makes for so many registers; None where it does not."""
    assert candidate.verify_registers is not None
    try:
        profile = with_registers(candidate.verify_registers, caches)
    except PerfmodelError:
        return None
    if profile is None:
        return None
    spilled = int(profile.resources.spill_store_bytes) - int(subject.profile.resources.spill_store_bytes)
    text = f"spilling {spilled} bytes" if spilled > 0 else "without spills"
    return replace(candidate, profile=profile, change=f"{candidate.change} ({text}, as compiled)")


def _worth_most(advice: Sequence[Advice], least: float) -> tuple[Advice, ...]:
    """At most `CHANGES`, the best first, none that another one contains."""
    kept: list[Advice] = []
    for kind in AdviceKind:
        own = [one for one in advice if one.kind is kind]
        lines = [one for one in own if len(one.places) == 1]
        together = [one for one in own if len(one.places) > 1]
        launch = [one for one in own if not one.places]
        kept += _best_of_each_place(lines)
        for one in together:
            parts = [single for single in kept if single.kind is kind and single.places[0] in one.places]
            if one.gain > max((single.gain for single in parts), default=0.0) + least:
                kept = [single for single in kept if single not in parts] + [one]
            elif not parts:
                kept.append(one)
        if launch:
            best = min(one.then_s for one in launch)
            kept.append(next(one for one in launch if one.then_s <= best * (1.0 + _ALIKE)))
    return tuple(sorted(kept, key=lambda one: -one.gain)[:CHANGES])


def _best_of_each_place(advice: Sequence[Advice]) -> list[Advice]:
    best: dict[tuple[str, ...], Advice] = {}
    for one in advice:
        if one.places not in best or one.then_s < best[one.places].then_s * (1.0 - _ALIKE):
            best[one.places] = one
    return list(best.values())
