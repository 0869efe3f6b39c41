"""What a kernel family is: problem, configurations, launch, source, reference, profile in closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ..compiler.request import CompileRequest
from ..core.counts import Counts
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..launch.launch import KernelCall, Launch
from ..profiles.kernel_profile import KernelProfile
from .compiled_members import Traits

ProblemT = TypeVar("ProblemT")
ConfigurationT = TypeVar("ConfigurationT")

Column = NDArray[np.int32]
NONE_CODE = -1
"""How a field that has no effect (``None``) stands in a column."""


def enum_of(configuration_type: Any, field_name: str) -> type[Enum] | None:
    """The Enum class of a configuration's field, or None where the field is an integer."""
    return _enum_of(configuration_type, field_name)


@cache
def _enum_of(configuration_type: Any, field_name: str) -> type[Enum] | None:
    hint = get_type_hints(configuration_type)[field_name]
    for candidate in (hint, *get_args(hint)):
        if isinstance(candidate, type) and issubclass(candidate, Enum):
            return candidate
    return None


def take_choices(record: Any) -> None:
    """Let a frozen problem or configuration have its choices by their texts, too, and put the members in their place.

    Raises:
        InputError: a text that names none; the message lists them.

    >>> from perfmodel import Conv1dConfiguration
    >>> Conv1dConfiguration(variant="naive", channels_per_thread=None).variant
    <Variant.NAIVE: 'naive'>
    >>> Conv1dConfiguration(variant="fast")
    Traceback (most recent call last):
    perfmodel.errors.InputError: variant='fast' must be one of naive, optimized, blocked
    """
    for one in fields(record):
        kind, value = enum_of(type(record), one.name), getattr(record, one.name)
        if kind is not None and not (isinstance(value, kind) or (value is None and one.default is None)):
            try:
                object.__setattr__(record, one.name, kind(value))
            except ValueError:
                accepted = ", ".join(member.value for member in kind)
                raise InputError(f"{one.name}={value!r} must be one of {accepted}") from None


def encode(configuration_type: type, field_name: str, value: Any) -> int:
    """Column code of one field's value: integers as themselves, Enum members by position, None as ``NONE_CODE``."""
    if value is None:
        return NONE_CODE
    if isinstance(value, Enum):
        return list(type(value)).index(value)
    return int(value)


@dataclass(frozen=True, slots=True)
class Batch(Generic[ConfigurationT]):
    """Many configurations as columns, one int32 array of shape ``(n,)`` for each field of the configuration's type."""

    configuration_type: type[ConfigurationT]
    columns: Mapping[str, Column]

    @classmethod
    def of(cls, configurations: Sequence[ConfigurationT]) -> Batch[ConfigurationT]:
        """The batch that holds the given configurations, in order; at least one."""
        kind = type(configurations[0])
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        return cls(
            kind,
            {
                name: np.array([encode(kind, name, getattr(c, name)) for c in configurations], dtype=np.int32)
                for name in names
            },
        )

    @classmethod
    def joined(cls, batches: Sequence[Batch[ConfigurationT]]) -> Batch[ConfigurationT]:
        """The configurations of several batches of one type, in order; at least one batch."""
        first = batches[0]
        columns = {name: np.concatenate([batch.columns[name] for batch in batches]) for name in first.columns}
        return cls(first.configuration_type, columns)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, field_name: str) -> Column:
        return self.columns[field_name]

    def equals(self, field_name: str, member: Enum) -> NDArray[np.bool_]:
        """Where an Enum field has the given member."""
        mask: NDArray[np.bool_] = self.columns[field_name] == encode(self.configuration_type, field_name, member)
        return mask

    def take(self, index: Any) -> Batch[ConfigurationT]:
        """The configurations at the given indices or mask."""
        return Batch(self.configuration_type, {name: column[index] for name, column in self.columns.items()})

    def configuration(self, index: int) -> ConfigurationT:
        """One configuration as a record."""
        values: dict[str, Any] = {}
        for name, column in self.columns.items():
            code = int(column[index])
            kind = enum_of(self.configuration_type, name)
            values[name] = None if code == NONE_CODE else code if kind is None else list(kind)[code]
        return self.configuration_type(**values)


@dataclass(frozen=True, slots=True)
class Product(Generic[ConfigurationT]):
    """All combinations of the values of each field, the last one varying fastest; or those at some ``places`` among them."""

    configuration_type: type[ConfigurationT]
    values: Mapping[str, tuple[Any, ...]]
    places: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        if self.places is not None:
            return len(self.places)
        return int(np.prod([len(v) for v in self.values.values()], dtype=np.int64))

    def batch(self, start: int, stop: int) -> Batch[ConfigurationT]:
        """The combinations with indices ``start`` to ``stop`` (exclusive) as columns."""
        shape = tuple(len(v) for v in self.values.values())
        places = np.arange(start, stop) if self.places is None else self.places[start:stop]
        indices = np.unravel_index(places, shape)
        columns = {
            name: np.array([encode(self.configuration_type, name, v) for v in choices], dtype=np.int32)[index]
            for (name, choices), index in zip(self.values.items(), indices, strict=True)
        }
        return Batch(self.configuration_type, columns)


@dataclass(frozen=True, slots=True)
class Space(Generic[ConfigurationT]):
    """The candidates of a family for a problem: a union of disjoint products, so that no configuration stands twice.

    ``drawn_from`` is how many candidates there are where these are a sample of them; 0 where they are all.
    """

    products: tuple[Product[ConfigurationT], ...]
    drawn_from: int = 0

    def __len__(self) -> int:
        return sum(len(product) for product in self.products)

    def batch(self) -> Batch[ConfigurationT]:
        """All candidates at once."""
        return Batch.joined(list(self.chunks()))

    def numbered_chunks(self, size: int = 262_144) -> Iterator[tuple[NDArray[np.intp], Batch[ConfigurationT]]]:
        """The same chunks, small ones joined up to that size, with the number of its product for every candidate."""
        waiting: list[tuple[NDArray[np.intp], Batch[ConfigurationT]]] = []
        for number, product in enumerate(self.products):
            for chunk in Space((product,)).chunks(size):
                if sum(len(numbers) for numbers, _ in waiting) + len(chunk) > size:
                    yield _joined_chunks(waiting)
                    waiting = []
                waiting.append((np.full(len(chunk), number), chunk))
        if waiting:
            yield _joined_chunks(waiting)

    def chunks(self, size: int = 262_144) -> Iterator[Batch[ConfigurationT]]:
        """All candidates in batches of at most ``size``, so that memory stays bounded whatever the space."""
        for product in self.products:
            for start in range(0, len(product), size):
                yield product.batch(start, min(start + size, len(product)))


def _joined_chunks(
    chunks: Sequence[tuple[NDArray[np.intp], Batch[ConfigurationT]]],
) -> tuple[NDArray[np.intp], Batch[ConfigurationT]]:
    return np.concatenate([numbers for numbers, _ in chunks]), Batch.joined([batch for _, batch in chunks])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One limit tested on a whole batch: where it is broken, and what value broke which limit.

    ``reason`` is short and groups rejected candidates (``"shared memory per block"``); the message of one candidate is
    ``f"{reason}: {value} {relation} {limit}"``, so that it names value and limit.
    """

    reason: str
    rejected: NDArray[np.bool_]
    value: Any
    limit: Any
    relation: str = "exceeds"

    def message(self, index: int) -> str:
        """Why the candidate at ``index`` is rejected, in one line."""
        value = self.value if np.ndim(self.value) == 0 else self.value[index]
        limit = self.limit if np.ndim(self.limit) == 0 else self.limit[index]
        return f"{self.reason}: {value} {self.relation} {limit}"


def within_limits(*limits: tuple[str, Any, Any, Any]) -> tuple[Check, ...]:
    """Checks of (reason, where it is broken, value, limit) whose messages say that the value is not within the limit.

    >>> (check,) = within_limits(("tiles", np.array([False, True]), np.array([4, 9]), 8))
    >>> check.message(1)
    'tiles: 9 is not within 8'
    """
    return tuple(
        Check(reason=reason, rejected=np.asarray(broken), value=value, limit=limit, relation="is not within")
        for reason, broken, value, limit in limits
    )


class Family(ABC, Generic[ProblemT, ConfigurationT]):
    """A kernel with its problem type, its tuning space and its closed forms. Pure: no state, nothing is cached here.

    Arguments always stand in the order problem, configurations, GPU. Arrays have one element per candidate.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    problem_type: type[ProblemT]
    configuration_type: type[ConfigurationT]
    closed_forms: ClassVar[bool] = True
    """Whether ``profile`` counts without compiling; where not, a ranking compiles and executes every candidate."""
    closed_critical_path: ClassVar[bool] = False
    """Whether the critical path is that of ``profile`` at compiled fidelity too, because coefficients were fitted to it."""
    measurement_defaults: ClassVar[Mapping[str, Any]] = {}
    """Values of fields that files of measurements may leave out, because they were measured before the field existed."""
    idle_fields: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    """Optional fields, each with another field and its value at which the first has no effect and is None.

    Files of other programs give it a value all the same, as Kernel Tuner does."""
    designs: ClassVar[Mapping[str, int]] = {}
    """Designs whose machine code `profile` interpolates (`compiled_members`), with the members of the family in their tables."""
    kernel_tuner_problem_size: ClassVar[tuple[str, ...]] = ()
    """Fields of the problem that Kernel Tuner's ``problem_size`` gives, x first."""

    @abstractmethod
    def default_problem(self) -> ProblemT:
        """The problem that the command line takes where an option is not given."""

    @abstractmethod
    def space(self, problem: ProblemT, gpu: Gpu) -> Space[ConfigurationT]:
        """Every candidate worth looking at; infeasible ones may be among them."""

    def whole_space(self, problem: ProblemT, gpu: Gpu) -> Space[ConfigurationT]:
        """The space, and designs that ``predict`` knows though they are not worth looking at."""
        return self.space(problem, gpu)

    @abstractmethod
    def checks(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> tuple[Check, ...]:
        """Limits of this family alone; threads, registers and shared memory are checked for all families elsewhere."""

    @abstractmethod
    def launch(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> Launch:
        """Grid, block and shared memory; this is the one home of the launch geometry."""

    @abstractmethod
    def profile(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> KernelProfile:
        """The candidates without compiling them, registers as an array of shape ``(n,)``.

        Memory requests, sectors and wavefronts in closed form are exact; registers, instruction classes and what warps wait for
        are estimates (`compiled_members`) that ``compiled`` fidelity replaces by the compiler's.
        """

    def closed_counts(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> Counts:
        """What closed forms count of the candidates: memory requests exactly, whatever the compiler makes of the code."""
        return self.profile(problem, batch, gpu).counts

    @abstractmethod
    def compile_request(self, problem: ProblemT, configuration: ConfigurationT, gpu: Gpu) -> CompileRequest:
        """Source, kernel and macros of one configuration."""

    @abstractmethod
    def inputs(self, problem: ProblemT, rng: np.random.Generator) -> Mapping[str, NDArray[np.float32]]:
        """Fresh random inputs by name."""

    @abstractmethod
    def call(
        self, problem: ProblemT, configuration: ConfigurationT, gpu: Gpu, inputs: Mapping[str, NDArray[np.float32]]
    ) -> KernelCall:
        """Kernel parameters and constants for these inputs; output buffers are poisoned with NaN."""

    @abstractmethod
    def reference(
        self, problem: ProblemT, inputs: Mapping[str, NDArray[np.float32]]
    ) -> Mapping[str, NDArray[np.float64]]:
        """The exact result in float64, by the name of the output buffer and in its shape."""

    @abstractmethod
    def tolerance(self, problem: ProblemT) -> float:
        """Largest acceptable error of the fp32 kernel, relative to the largest magnitude of the reference."""

    def redundant(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> NDArray[np.bool_]:
        """Where a candidate of the space is the same program as another one of it, so that rankings leave it out."""
        return np.zeros(len(batch), np.bool_)

    def executed_identity(self, problem: ProblemT, configuration: ConfigurationT, gpu: Gpu) -> Hashable | None:
        """What decides the executed profile, the same for configurations of the same machine code; None where nobody knows."""
        return None

    def equivalents(self, configuration: ConfigurationT) -> tuple[ConfigurationT, ...]:
        """Configurations whose stored profiles may be taken for this one's, the closest first.

        They must make the same memory requests and, up to a few, the same instructions; what their shared accesses cost in
        wavefronts is taken in the proportion of the closed forms.
        """
        return ()

    def counts_accesses(self, configuration: ConfigurationT) -> bool:
        """Whether ``profile`` counts the memory accesses of this configuration exactly; else an executed block does."""
        return True

    def design_traits(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> tuple[str, Traits] | None:
        """Design and traits of configurations that all are of one of ``designs``; None where they are of none."""
        return None

    def design_of(self, problem: ProblemT, batch: Batch[ConfigurationT], gpu: Gpu) -> str | None:
        """The design alone, where a family knows it sooner than the traits."""
        found = self.design_traits(problem, batch, gpu)
        return found[0] if found else None

    def executed_profile(self, problem: ProblemT, configuration: ConfigurationT, gpu: Gpu) -> KernelProfile | None:
        """The profile of one configuration where this family has a way of its own to execute it; None for the general way."""
        return None

    def profile_identity(self, problem: ProblemT, configuration: ConfigurationT) -> tuple[Any, ...]:
        """What decides the executed counts of a launch beside code and GPU; profiles are kept under it."""
        return (problem, configuration)

    def notes(self, problem: ProblemT, configuration: ConfigurationT, gpu: Gpu) -> tuple[str, ...]:
        """What a reader should know of this configuration, computed from its counts."""
        return ()
