"""Tables of compiled members (``make members``): members of the families drawn at random, compiled and executed.

A member takes about 0.4 s of processor time. What was compiled before is in the disk cache, so that a filling goes on where
the last one ended.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.pool import run_many
from perfmodel.compiler.toolchain import compiler_version
from perfmodel.core.json_values import plain
from perfmodel.core.progress import Advance, no_progress
from perfmodel.errors import InputError, PerfmodelError
from perfmodel.families.base import Batch, Family
from perfmodel.families.compiled_members import CompiledNumbers, MemberTable, Traits, features, proportions
from perfmodel.families.profiling import Depth, Job, compile_together, configuration_profile, remembered_profile
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.feasibility import FITS, feasibility
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.records.columns import configuration_of_record, record_of_fields

from .drawn_problems import drawn_problem
from .learned_lengths import learned_lengths, left_out_errors

GPU_IDS = (
    *("h200",) * 5,
    "a100-sxm-80gb",
    "rtx-3090",
    "rtx-4090",
    "rtx-2080-ti",
    "b200",
    "rtx-5090",
)
"""From which the GPU of a member is drawn: at least one of each generation, most often the one with most measurements."""
LONGEST_WARP_INSTRUCTIONS = 60_000
"""Known instructions of a warp beyond which a member takes seconds to execute; longer ones are alike."""
LONGEST_CODE_INSTRUCTIONS = 1_500
"""Known instructions of code beyond which a member takes long to compile; one of ten is taken all the same."""
TIME_LIMIT_S = 600.0
COMPILED_AT_ONCE = 16
"""Members after which the time of a filling is looked at."""
MOST_DRAWS = 400
"""Draws for each member that is wanted, after which a design that they do not meet gets fewer."""
LEAST_KNOWN = 0.9
"""Part of the members of which a number must be known to stand in the table; members that lack it are left out."""
ASSUMED_REGISTERS = 64
"""Of a member that was not compiled yet, to see whether its block fits an SM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A configuration of a problem of a family on a GPU."""

    family: Family[Any, Any]
    problem: Any
    configuration: Any
    gpu_id: str

    def to_json(self) -> str:
        """The member in words, one line."""
        words = {"problem": plain(self.problem), "configuration": plain(self.configuration), "gpu": self.gpu_id}
        return json.dumps({"family": self.family.name, **words})

    @classmethod
    def from_json(cls, line: str) -> Member:
        """The member of a line."""
        words = json.loads(line)
        own = family(words["family"])
        return cls(
            family=own,
            problem=record_of_fields(own.problem_type, words["problem"]),
            configuration=configuration_of_record(own, words["configuration"]),
            gpu_id=words["gpu"],
        )

    @property
    def profile_arguments(self) -> Job:
        """Whose profile shows what the compiler made of it."""
        return self.family, self.problem, self.configuration, load_gpu(self.gpu_id), Depth.MIDDLE_BLOCK

    def traits(self) -> tuple[str, Traits]:
        """Design and traits; raises ``InputError`` where its family gives none."""
        found = self.family.design_traits(self.problem, Batch.of([self.configuration]), load_gpu(self.gpu_id))
        if found is None:
            raise InputError(f"{self.family.name} has no table for {self.configuration}")
        return found


def drawn_members(own: Family[Any, Any], wanted: Mapping[str, int], seed: int) -> list[Member]:
    """Members of random problems until each design has as many as wanted; a problem's products of a design are equally likely.

    More members with the same seed hold the fewer, and those of one design are the same whatever others are drawn.
    """
    found = list[Member]()
    for design, number in wanted.items():
        rng, members = np.random.default_rng([seed, *design.encode()]), list[Member]()
        for _ in range(MOST_DRAWS * number):
            if len(members) == number:
                break
            member = _drawn(own, design, rng)
            if member is None:
                continue
            _, traits = member.traits()
            long = rng.random() < 0.9 and np.max(traits.code_instructions) > LONGEST_CODE_INSTRUCTIONS
            if not long and np.max(traits.warp_instructions) <= LONGEST_WARP_INSTRUCTIONS:
                members.append(member)
        found += members
    return found


def _drawn(own: Family[Any, Any], design: str, rng: np.random.Generator) -> Member | None:
    """A member of a design that can run, None where the drawn problem has none or the drawn member cannot."""
    try:
        problem = drawn_problem(own.name, rng)
    except InputError:
        return None
    gpu = load_gpu(str(rng.choice(GPU_IDS)))
    products = own.whole_space(problem, gpu).products
    for index in rng.permutation(len(products)):
        product = products[int(index)]
        at = int(rng.integers(len(product)))
        batch = product.batch(at, at + 1)
        if own.design_of(problem, batch, gpu) != design:
            continue
        registers = np.full(1, ASSUMED_REGISTERS, np.int32)
        can_run = feasibility(own.launch(problem, batch, gpu), registers, gpu, own.checks(problem, batch, gpu))
        if can_run.reason_codes[0] != FITS or own.redundant(problem, batch, gpu)[0]:
            return None
        return Member(family=own, problem=problem, configuration=batch.configuration(0), gpu_id=gpu.id)
    return None


def compiled_members(
    members: Sequence[Member], workers: int, seconds: float = math.inf, advance: Advance = no_progress
) -> list[KernelProfile | PerfmodelError | None]:
    """What one block of each shows, or why it does not; None where the time was over before it was compiled."""
    until = time.monotonic() + seconds
    found: list[KernelProfile | PerfmodelError | None] = []
    for begin in range(0, len(members), COMPILED_AT_ONCE):
        part: list[KernelProfile | PerfmodelError | None]
        part = [remembered_profile(*member.profile_arguments) for member in members[begin : begin + COMPILED_AT_ONCE]]
        lacking = [i for i, profile in enumerate(part) if profile is None]
        if time.monotonic() < until:
            jobs = [members[begin + i].profile_arguments for i in lacking]
            compile_together(jobs, workers)
            fresh = run_many(
                configuration_profile,
                jobs,
                describe=lambda own, problem, configuration, gpu, depth: f"{own.name} {plain(configuration)}",
                workers=workers,
                time_limit_s=TIME_LIMIT_S,
            )
            for i, profile in zip(lacking, fresh, strict=True):
                part[i] = profile
        found += part
        for _ in part:
            advance()
    return found


def tables(
    members: Sequence[Member], profiles: Sequence[KernelProfile], kept: Mapping[str, MemberTable] | None = None
) -> list[MemberTable]:
    """A table for each design among the members, with lengths learned from it; those of tables that are kept come first."""
    rows = [member_values(member, profile) for member, profile in zip(members, profiles, strict=True)]
    found = []
    for design in sorted({row[0] for row in rows}):
        own = [i for i, row in enumerate(rows) if row[0] == design]
        lines = [members[i].to_json() for i in own]
        points = np.array([list(rows[i][1].values()) for i in own])
        values = np.array([list(rows[i][2].values()) for i in own])
        names, coordinates = tuple(rows[own[0]][2]), tuple(rows[own[0]][1])
        if kept and design in kept:
            lines, points, values = _after(kept[design], lines, points, values, names, coordinates)
        known_of = np.isfinite(values)
        complete = known_of.mean(axis=0) >= LEAST_KNOWN
        whole = known_of[:, complete].all(axis=1)
        points, values = points[whole], values[whole]
        lengths, noise = learned_lengths(points, values[:, complete & _varied(values)])
        numbers = tuple(itertools.compress(names, complete))
        missed = np.abs(left_out_errors(points, values[:, complete], lengths, noise))
        registers = missed[:, numbers.index("registers_per_thread")]
        found.append(
            MemberTable(
                design=design,
                compiler=compiler_version(),
                features=coordinates,
                numbers=numbers,
                members=tuple(itertools.compress(lines, whole)),
                points=points,
                values=values[:, complete],
                lengths=lengths,
                noise=noise,
                register_slack=round(1.5 * float(np.median(registers)), 3),
            )
        )
    return found


def _after(
    table: MemberTable,
    lines: list[str],
    points: NDArray[np.float64],
    values: NDArray[np.float64],
    names: tuple[str, ...],
    coordinates: tuple[str, ...],
) -> tuple[list[str], NDArray[np.float64], NDArray[np.float64]]:
    """Members of a table and, behind them, those that it lacks; what it does not know of its own is NaN."""
    if (table.compiler, table.features) != (compiler_version(), coordinates):
        raise InputError(f"table of {table.design} was made by {table.compiler} or of other traits: make it anew")
    fresh = [line not in set(table.members) for line in lines]
    known = np.full((len(table.members), len(names)), np.nan)
    known[:, [names.index(name) for name in table.numbers]] = table.values
    joined_lines = [*table.members, *itertools.compress(lines, fresh)]
    return joined_lines, np.concatenate([table.points, points[fresh]]), np.concatenate([known, values[fresh]])


def _varied(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Numbers that differ from their median in at least half of the members: few have a stack, for example."""
    different: NDArray[np.bool_] = ~np.isclose(values, np.median(values, axis=0))
    return np.asarray(different.mean(axis=0) >= 0.5)


def member_values(
    member: Member, profile: KernelProfile | None = None
) -> tuple[str, dict[str, float], dict[str, float]]:
    """Design, coordinates and, of a profile, the proportions of one member."""
    design, traits = member.traits()
    points = {name: float(value[0]) for name, value in features(traits, load_gpu(member.gpu_id)).items()}
    found = {} if profile is None else proportions(traits, CompiledNumbers.of(profile))
    return design, points, {name: float(np.ravel(value)[0]) for name, value in found.items()}
