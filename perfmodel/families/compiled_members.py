"""What the compiler makes of a design, interpolated between members of its space that were compiled and executed.

A *design* is a kernel whose members differ in sizes and choices (``Traits``). A table under ``perfmodel/data/members`` holds some
hundred of them, of problems drawn at random, with what the compiler and the execution of a block gave: registers, code,
instructions, what a warp waits for. Each number is compared with one that follows from the algorithm (multiply-adds and memory
requests of a warp, for example); the logarithm of the proportion changes little from a member to its neighbours, and is
interpolated. ``make members`` compiles the tables anew.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.batched import mapped
from ..core.constants import INSTRUCTION_BYTES, LOCAL_REQUEST_SECTORS, WARP_SIZE, round_up
from ..core.counts import COUNT_NAMES, INSTRUCTION_CLASSES, Counts
from ..core.interpolation import Interpolation
from ..gpus.catalogue import code_generations
from ..gpus.gpu import Gpu
from ..gpus.occupancy import occupancy, registers_left
from ..launch.launch import Launch
from ..profiles.kernel_profile import KernelProfile, estimated_resources

Floats = NDArray[np.float64]

STACK_UNIT_BYTES = 8
LEAST_STACK_BYTES = 16
"""Interpolated stack from which on a member is taken to have one."""
ACCESS_ESTIMATES = (
    "global_load_requests",
    "global_load_sectors",
    "global_load_lines",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_requests",
    "shared_load_wavefronts",
    "shared_store_requests",
    "shared_store_wavefronts",
    "async_copy_requests",
    "async_copy_wavefronts",
    "async_copy_read_requests",
    "async_copy_read_wavefronts",
    "async_copy_read_sectors",
)
"""Counts that the tiles of a design say but for edges, bank conflicts and what the assembler joins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What decides the machine code of n members of a design, and what of it is known; arrays of shape ``(n,)`` or numbers.

    Attributes:
        sizes: Positive numbers, by name: what doubles them matters.
        choices: What is so or not.
        warp_instructions: Multiply-adds, shuffles and memory requests of a warp that works.
        launch_instructions: The same of all warps of the launch.
        index_instructions: About how many integer instructions the launch takes beside them.
        code_instructions: The same as they stand in the code, loops once.
        round_trips: Loads of a warp from global memory, or groups of them where code issues them together.
        estimates: Counts of the launch, by name, of which closed forms give no more than an estimate.
    """

    sizes: Mapping[str, Any]
    choices: Mapping[str, Any]
    warp_instructions: Any
    launch_instructions: Any
    index_instructions: Any
    code_instructions: Any
    round_trips: Any = 1.0
    estimates: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        known = (self.warp_instructions, self.launch_instructions, *self.sizes.values(), *self.choices.values())
        return max(np.broadcast_shapes(*(np.shape(value) for value in known)), default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledNumbers:
    """What the compiler and the execution of a block say of n members; arrays of shape ``(n,)``, NaN where nobody knows.

    ``counts`` are those of the whole launch.
    """

    registers_per_thread: Any
    stack_bytes_per_thread: Any
    code_bytes: Any
    loop_code_bytes: Any
    warp_cycles: Any
    longest_warp_instructions: Any
    global_round_trips: Any
    counts: Counts

    @classmethod
    def of(cls, profile: KernelProfile) -> CompiledNumbers:
        """Those of a compiled and executed profile."""
        homes = (profile.resources, profile)
        own = {name: next(getattr(home, name) for home in homes if hasattr(home, name)) for name in _OWN_NUMBERS}
        return cls(**own, counts=profile.counts)

    def number(self, name: str) -> Any:
        """One number or count, by name."""
        return getattr(self if name in _OWN_NUMBERS else self.counts, name)


def requests_of(known: Counts) -> Any:
    """Memory requests of the launch, of all kinds that closed forms count."""
    return known.memory_requests + known.constant_load_requests


def access_estimates(known: Counts) -> dict[str, Any]:
    """Counts of memory accesses that are interpolated like what the compiler decides, by name (`Traits.estimates`)."""
    return {name: getattr(known, name) for name in ACCESS_ESTIMATES}


_OWN_NUMBERS: tuple[str, ...] = tuple(one.name for one in fields(CompiledNumbers) if one.name != "counts")
_COMPILER_COUNTS = ("integer", "control", "conversion", "local_load_sectors", "local_store_sectors")
"""Counts that the compiler decides in every design."""
DIGITS = {"global_round_trips": 2}
"""Decimal digits of a number that is not whole. What is behind them depends on the order of sums."""
_LEAST = {
    "global_round_trips": 0.05,
    "stack_bytes_per_thread": 16.0,
    "loop_code_bytes": 0.1,
    "integer": 0.02,
    "control": 0.01,
    "conversion": 0.005,
    "local_load_sectors": 0.02,
    "local_store_sectors": 0.02,
}
"""What is added to a proportion before its logarithm is taken, where the number may be 0."""


def _known(traits: Traits, name: str) -> Any:
    """What a number is compared with."""
    if name in traits.estimates:
        return np.asarray(traits.estimates[name], np.float64)
    if name in ("registers_per_thread", "stack_bytes_per_thread"):
        return 1.0
    if name in ("code_bytes", "loop_code_bytes"):
        return INSTRUCTION_BYTES * np.asarray(traits.code_instructions, np.float64)
    if name in ("warp_cycles", "longest_warp_instructions"):
        return np.asarray(traits.warp_instructions, np.float64)
    if name in ("integer", "control"):
        return np.asarray(traits.index_instructions, np.float64)
    if name == "global_round_trips":
        return np.asarray(traits.round_trips, np.float64)
    return np.asarray(traits.launch_instructions, np.float64)


def features(traits: Traits, gpu: Gpu) -> dict[str, Floats]:
    """Traits and architecture as coordinates, arrays of shape ``(n,)`` by name."""
    named = {name: np.log2(np.asarray(value, np.float64)) for name, value in traits.sizes.items()}
    named |= {name: np.asarray(value, np.float64) for name, value in traits.choices.items()}
    own = gpu.architecture.code_generation
    named |= {f"from_{generation}": np.asarray(float(generation == own)) for generation in code_generations()}
    return {name: np.broadcast_to(value, len(traits)) for name, value in named.items()}


def proportions(traits: Traits, numbers: CompiledNumbers) -> dict[str, Floats]:
    """Logarithms of the proportions that are interpolated, by name; 0 where an estimate says 0 and is right."""
    found = {}
    for name in (*_OWN_NUMBERS, *_COMPILER_COUNTS, *traits.estimates):
        value, known = np.asarray(numbers.number(name), np.float64), _known(traits, name)
        with np.errstate(divide="ignore", invalid="ignore"):
            proportion = np.log(value / known + _LEAST.get(name, 0.0))
        found[name] = np.where((value == 0) & (known == 0), 0.0, proportion)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTable:
    """Compiled members of a design.

    Attributes:
        design: Its name.
        compiler: Version of the compiler.
        features: Names of the coordinates.
        numbers: Names of what is known of the members.
        members: Each member in words, JSON: problem, configuration, GPU.
        points: Coordinates, shape ``(m, features)``.
        values: Logarithms of proportions, shape ``(m, numbers)``.
        lengths: Distances along the coordinates over which values change.
        noise: Part of the variance that neighbours do not share.
        register_slack: Part of its registers that the assembler is taken to do without where that lets another block share an
            SM: one and a half times the median error of interpolated registers.
    """

    design: str
    compiler: str
    features: tuple[str, ...]
    numbers: tuple[str, ...]
    members: tuple[str, ...]
    points: Floats
    values: Floats
    lengths: Floats
    noise: float
    register_slack: float

    @property
    def range(self) -> tuple[Floats, Floats]:
        """Least and largest value of each number among the members, shape ``(numbers,)``."""
        return self.values.min(axis=0), self.values.max(axis=0)

    def interpolation(self) -> Interpolation:
        """Through all members."""
        return Interpolation.through(self.points, self.values, self.lengths, self.noise)

    def to_bytes(self) -> bytes:
        """The table as its file holds it."""
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            compiler=np.array(self.compiler),
            features=np.array(self.features),
            numbers=np.array(self.numbers),
            members=np.frombuffer("\n".join(self.members).encode(), np.uint8),
            points=self.points.astype(np.float32),
            values=self.values.astype(np.float32),
            lengths=self.lengths,
            noise=np.array(self.noise),
            register_slack=np.array(self.register_slack),
        )
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, design: str, data: bytes) -> MemberTable:
        """The table of a file."""
        with np.load(io.BytesIO(data)) as content:
            return cls(
                design=design,
                compiler=str(content["compiler"]),
                features=tuple(content["features"].tolist()),
                numbers=tuple(content["numbers"].tolist()),
                members=tuple(content["members"].tobytes().decode().split("\n")),
                points=content["points"].astype(np.float64),
                values=content["values"].astype(np.float64),
                lengths=content["lengths"],
                noise=float(content["noise"]),
                register_slack=float(content["register_slack"]),
            )


@functools.cache
def member_table(design: str) -> MemberTable:
    """The table that ships for a design.

    >>> table = member_table("direct_conv2d")
    >>> len(table.members) == len(table.values), "registers_per_thread" in table.numbers
    (True, True)
    """
    return MemberTable.from_bytes(design, (files("perfmodel.data") / "members" / f"{design}.npz").read_bytes())


@functools.cache
def _interpolation(design: str) -> Interpolation:
    return member_table(design).interpolation()


def _interpolated(design: str, points: Floats) -> Floats:
    """Values at points; many points are equal, because block sizes do not change the code.

    Points beyond all members along a coordinate are taken for the nearest that are not, and values stay within the members'.
    """
    table = member_table(design)
    points = np.clip(points, table.points.min(axis=0), table.points.max(axis=0))
    packed = np.ascontiguousarray(points).view(np.dtype((np.void, points.itemsize * points.shape[1]))).ravel()
    _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
    least, most = table.range
    return np.asarray(np.clip(_interpolation(design).at(points[first]), least, most)[inverse])


def _registers(interpolated: Any, slack: float, launch: Launch, gpu: Gpu) -> NDArray[np.int32]:
    """Registers that let the block run, fewer by the slack where that lets another one run beside it.

    The assembler aims at occupancy: it stops at the registers that cost a block as long as it can.
    """
    threads = np.broadcast_to(np.asarray(launch.threads_per_block, np.int64), interpolated.shape)
    unit = gpu.register_allocation_unit // WARP_SIZE
    of_block = np.maximum(registers_left(gpu, gpu.registers_per_block, round_up(threads, WARP_SIZE)), unit)
    plain = np.minimum(interpolated, of_block).astype(np.int32)
    tight = np.maximum(np.floor(plain / (1.0 + slack)), 1.0).astype(np.int32)

    def blocks(registers: NDArray[np.int32]) -> NDArray[np.int64]:
        resident: NDArray[np.int64] = occupancy(
            gpu,
            threads_per_block=threads,
            registers_per_thread=registers,
            shared_bytes_per_block=launch.static_shared_bytes + launch.dynamic_shared_bytes,
        ).blocks_per_sm
        return resident

    return np.asarray(np.where(blocks(tight) > blocks(plain), tight, plain), np.int32)


def compiled_numbers(
    design: str, traits: Traits, launch: Launch, gpu: Gpu, most_registers: Any = None
) -> CompiledNumbers:
    """What the compiler would make of n members, by interpolation.

    Args:
        design: Name of the table.
        traits: Of the members.
        launch: Of the members; no kernel gets more registers than let its block run.
        gpu: For whose architecture they would be compiled.
        most_registers: Registers per thread that the launch bound allows, shape ``(n,)``; all that a thread can have where
            None.

    Raises:
        ValueError: the traits are not those of the table, which has to be filled anew.
    """
    table, named = member_table(design), features(traits, gpu)
    if tuple(named) != table.features:
        raise ValueError(f"table of {design} has the features {', '.join(table.features)}, not {', '.join(named)}")
    logs = _interpolated(design, np.stack(list(named.values()), axis=1))
    found = dict.fromkeys((*_OWN_NUMBERS, *COUNT_NAMES), np.asarray(np.nan))
    for name, column in zip(table.numbers, logs.T, strict=True):
        value = np.maximum(np.exp(column) - _LEAST.get(name, 0.0), 0.0) * _known(traits, name)
        found[name] = np.round(value, DIGITS.get(name, 0))
    stack = np.nan_to_num(found["stack_bytes_per_thread"])
    stack = np.where(stack >= LEAST_STACK_BYTES, np.round(stack / STACK_UNIT_BYTES) * STACK_UNIT_BYTES, 0.0)
    found["stack_bytes_per_thread"] = stack
    most = gpu.max_registers_per_thread if most_registers is None else most_registers
    registers = np.minimum(found["registers_per_thread"], most)
    found["registers_per_thread"] = _registers(registers, table.register_slack, launch, gpu)
    for name in ("local_load_sectors", "local_store_sectors"):
        found[name] = np.where(stack > 0, found[name], 0.0)
    counts = Counts(**{name: found.pop(name) for name in COUNT_NAMES})
    return CompiledNumbers(**found, counts=counts)


def completed_profile(
    known: Counts,
    numbers: CompiledNumbers,
    launch: Launch,
    *,
    global_round_trips: Any = None,
    first_fill_sectors: Any = np.nan,
    read_only_share: Any,
) -> KernelProfile:
    """The profile of n members.

    Args:
        known: What closed forms count.
        numbers: What the compiler makes of the members; its counts replace those of closed forms.
        launch: Of the members.
        global_round_trips: In closed form, where the table does not have them.
        first_fill_sectors: Those that a block copies to shared memory before it computes.
        read_only_share: Part of the global loads by the read-only path.
    """
    counts = mapped(lambda own, form: form if np.isnan(own).all() else own, numbers.counts, known)
    local_requests = np.ceil((counts.local_load_sectors + counts.local_store_sectors) / LOCAL_REQUEST_SECTORS)
    requests = requests_of(counts) + local_requests
    counts = replace(counts, warp_instructions=requests + sum(getattr(counts, name) for name in INSTRUCTION_CLASSES))
    return KernelProfile(
        launch=launch,
        resources=estimated_resources(
            launch,
            numbers.registers_per_thread,
            stack_bytes=numbers.stack_bytes_per_thread,
            code_bytes=numbers.code_bytes,
        ),
        counts=counts,
        global_round_trips=numbers.global_round_trips if global_round_trips is None else global_round_trips,
        warp_cycles=numbers.warp_cycles,
        longest_warp_instructions=numbers.longest_warp_instructions,
        first_fill_sectors=first_fill_sectors,
        loop_code_bytes=numbers.loop_code_bytes,
        read_only_share=read_only_share,
    )
