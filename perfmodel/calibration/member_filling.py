"""Tables of compiled members (``make members``): members of a family drawn at random, compiled and executed.

A table takes about an hour of processor time; what was compiled before is in the disk cache.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler.pool import run_many
from ..compiler.toolchain import compiler_version
from ..core.interpolation import learned_lengths, left_out_errors
from ..core.json_values import plain
from ..core.progress import Advance, no_progress
from ..errors import InputError, PerfmodelError
from ..families.base import Batch, Family
from ..families.compiled_members import NUMBERS, CompiledNumbers, MemberTable, features, proportions
from ..families.profiling import Depth, configuration_profile
from ..gpus.catalogue import load_gpu
from ..prediction.feasibility import FITS, feasibility
from ..profiles.kernel_profile import KernelProfile
from ..records.columns import configuration_of_record, record_of_fields

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
LONGEST_WARP_INSTRUCTIONS = 15_000
"""Known instructions of a warp beyond which a member takes seconds to execute; longer ones are alike."""
LONGEST_CODE_INSTRUCTIONS = 1_500
"""Known instructions of code beyond which a member takes long to compile; one of ten is taken all the same."""
TIME_LIMIT_S = 120.0
LEAST_KNOWN = 0.9
"""Part of the members of which a number must be known to stand in the table; members that lack it are left out."""
ASSUMED_REGISTERS = 64
"""Of a member that was not compiled yet, to see whether its block fits an SM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A configuration of a problem on a GPU."""

    problem: Any
    configuration: Any
    gpu_id: str

    def to_json(self) -> str:
        """The member in words, one line."""
        words = {"problem": plain(self.problem), "configuration": plain(self.configuration), "gpu": self.gpu_id}
        return json.dumps(words)

    @classmethod
    def from_json(cls, family: Family[Any, Any], line: str) -> Member:
        """The member of a line."""
        words = json.loads(line)
        return cls(
            problem=record_of_fields(family.problem_type, words["problem"]),
            configuration=configuration_of_record(family, words["configuration"]),
            gpu_id=words["gpu"],
        )


def drawn_members(family: Family[Any, Any], rng: np.random.Generator) -> Iterator[Member]:
    """Members of the space of random problems, products of the space equally likely, without end."""
    while True:
        try:
            problem = family.drawn_problem(rng)
        except InputError:
            continue
        gpu = load_gpu(str(rng.choice(GPU_IDS)))
        products = family.space(problem, gpu).products
        product = products[int(rng.integers(len(products)))]
        at = int(rng.integers(len(product)))
        batch = product.batch(at, at + 1)
        registers = np.full(1, ASSUMED_REGISTERS, np.int32)
        can_run = feasibility(family.launch(problem, batch, gpu), registers, gpu, family.checks(problem, batch, gpu))
        if can_run.reason_codes[0] != FITS or family.redundant(problem, batch, gpu)[0]:
            continue
        found = family.design_traits(problem, batch, gpu)
        if found is None:
            continue
        _, traits = found
        long = np.max(traits.code_instructions) > LONGEST_CODE_INSTRUCTIONS and rng.random() < 0.9
        if long or np.max(traits.warp_instructions) > LONGEST_WARP_INSTRUCTIONS:
            continue
        yield Member(problem=problem, configuration=batch.configuration(0), gpu_id=gpu.id)


def compiled_members(
    family: Family[Any, Any], members: Sequence[Member], workers: int, advance: Advance = no_progress
) -> list[KernelProfile | PerfmodelError]:
    """What one block of each shows, or why it does not."""
    jobs = [(family, m.problem, m.configuration, load_gpu(m.gpu_id), Depth.MIDDLE_BLOCK) for m in members]
    return run_many(
        configuration_profile,
        jobs,
        describe=lambda family, problem, configuration, gpu, depth: f"{family.name} {plain(configuration)}",
        workers=workers,
        time_limit_s=TIME_LIMIT_S,
        advance=advance,
    )


def tables(
    family: Family[Any, Any], members: Sequence[Member], profiles: Sequence[KernelProfile | PerfmodelError]
) -> list[MemberTable]:
    """A table for each design among the members that have a profile, with lengths learned from it."""
    known = [(m, p) for m, p in zip(members, profiles, strict=True) if isinstance(p, KernelProfile)]
    rows = [member_values(family, member, profile) for member, profile in known]
    found = []
    for design in sorted({row[0] for row in rows}):
        own = [i for i, row in enumerate(rows) if row[0] == design]
        points = np.array([list(rows[i][1].values()) for i in own])
        values = np.array([list(rows[i][2].values()) for i in own])
        known_of = np.isfinite(values)
        complete = known_of.mean(axis=0) >= LEAST_KNOWN
        whole = known_of[:, complete].all(axis=1)
        own = list(itertools.compress(own, whole))
        points, values = points[whole], values[whole]
        lengths, noise = learned_lengths(points, values[:, complete & _varied(values)])
        numbers = tuple(itertools.compress(NUMBERS, complete))
        missed = np.abs(left_out_errors(points, values[:, complete], lengths, noise))
        registers = missed[:, numbers.index("registers_per_thread")]
        found.append(
            MemberTable(
                design=design,
                compiler=compiler_version(),
                features=tuple(rows[own[0]][1]),
                numbers=numbers,
                members=tuple(known[i][0].to_json() for i in own),
                points=points,
                values=values[:, complete],
                lengths=lengths,
                noise=noise,
                register_slack=round(1.5 * float(np.median(registers)), 3),
            )
        )
    return found


def _varied(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Numbers that differ from their median in at least half of the members: few have a stack, for example."""
    different: NDArray[np.bool_] = ~np.isclose(values, np.median(values, axis=0))
    return np.asarray(different.mean(axis=0) >= 0.5)


def member_values(
    family: Family[Any, Any], member: Member, profile: KernelProfile | None = None
) -> tuple[str, dict[str, float], dict[str, float]]:
    """Design, coordinates and, of a profile, the proportions of one member."""
    gpu = load_gpu(member.gpu_id)
    known = family.design_traits(member.problem, Batch.of([member.configuration]), gpu)
    if known is None:
        raise InputError(f"{family.name} has no table for {member.configuration}")
    design, traits = known
    points = {name: float(value[0]) for name, value in features(traits, gpu).items()}
    if profile is None:
        return design, points, {}
    found = proportions(traits, CompiledNumbers.of(profile))
    return design, points, {name: float(np.ravel(value)[0]) for name, value in found.items()}
