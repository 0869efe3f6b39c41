"""From the records of micro-benchmarks to facts of the GPU, in the names and units of its file, and to a file of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from perfmodel.core.constants import INSTRUCTION_BYTES, SECTOR_BYTES, WARP_SIZE
from perfmodel.core.json_values import fields_text
from perfmodel.gpus.gpu import Gpu
from perfmodel.memory.async_copy import SECTOR_WORDS
from perfmodel.records.schema import Record, RecordKind, Scalar, Timing, TimingMethod

CACHE_STEP = 1.05
"""By how much cycles per instruction must rise from one code size to the next to count as the end of a cache."""
GPU_FIELDS = frozenset(field.name for field in fields(Gpu))
WHOLE_NUMBER_FIELDS = frozenset({"fp32_lanes_per_sm", "int32_lanes_per_sm"})
"""Fields that a data sheet gives exactly: measured to be compared, never to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFact:
    """One property as measured: a field of a GPU file where there is one, else a name of its own; spread is relative."""

    name: str
    value: float
    spread: float
    source: str
    """The micro-benchmark and its setting."""


@dataclass(frozen=True, slots=True)
class MicroRecords:
    """Successful records of micro-benchmarks, found by kernel and setting; of several runs the last counts."""

    by_kernel: Mapping[str, Sequence[Record]]

    @classmethod
    def of(cls, records: Sequence[Record]) -> MicroRecords:
        """The micro-benchmarks among any records."""
        found: dict[str, list[Record]] = {}
        for record in records:
            if record.kind is RecordKind.MICRO_BENCHMARK and record.failure is None and record.timings:
                found.setdefault(record.name, []).append(record)
        return cls(found)

    def matching(self, kernel: str, **setting: Scalar) -> list[Record]:
        """Records of a kernel whose setting holds the given values, the last run of each setting."""
        last: dict[object, Record] = {}
        for record in self.by_kernel.get(kernel, ()):
            if all(record.configuration.get(name) == value for name, value in setting.items()):
                last[record.key] = record
        return list(last.values())


def measured_facts(records: Sequence[Record]) -> tuple[MeasuredFact, ...]:
    """Everything that the records suffice for, in a fixed order; a fact whose micro-benchmark did not run is left out."""
    micro = MicroRecords.of(records)
    return (
        *_bandwidths(micro),
        *_sector_writes(micro),
        *_data_pipe(micro),
        *_latencies(micro),
        *_arithmetic_rates(micro),
        *_synchronisation(micro),
        *_instruction_caches(micro),
        *_launch_costs(micro),
        *_early_exits(micro),
    )


def _setting(record: Record) -> str:
    return f"{record.name} {fields_text(record.configuration.items())}".rstrip()


def _rate(record: Record) -> tuple[float, float]:
    """Amount per second by the median of the samples, and half the relative width of its interval."""
    timing = record.timings[0]
    low, high = timing.interval_s or (min(timing.samples_s), max(timing.samples_s))
    return record.counters["amount"] / timing.median_s, 0.5 * (high - low) / timing.median_s


def _cycles_each(record: Record) -> tuple[float, float]:
    """Cycles for one unit of the amount, and half the relative range over blocks and launches."""
    cycles = record.counters["cycles"]
    spread = 0.5 * (record.counters["cycles_high"] - record.counters["cycles_low"]) / cycles
    return cycles / record.counters["amount"], spread


def _fact(name: str, record: Record, value: float, spread: float) -> MeasuredFact:
    return MeasuredFact(name=name, value=value, spread=spread, source=_setting(record))


def _bandwidths(micro: MicroRecords) -> list[MeasuredFact]:
    facts = []
    for name, found in (
        ("dram_read_bytes_per_s", micro.matching("global_read", passes=1)),
        ("dram_write_bytes_per_s", micro.matching("global_write")),
        ("dram_copy_bytes_per_s", micro.matching("global_copy")),
        ("l2_read_bytes_per_s", [r for r in micro.matching("global_read") if r.configuration["passes"] != 1]),
    ):
        facts += [_fact(name, record, *_rate(record)) for record in found[-1:]]
    for record in micro.matching("l1_read")[-1:]:
        cycles, spread = _cycles_each(record)
        facts.append(_fact("l1_bytes_per_cycle_per_sm", record, 1.0 / cycles, spread))
    return facts


def _sector_writes(micro: MicroRecords) -> list[MeasuredFact]:
    """Sectors a second that L2 takes, by the words that each store writes of one; the first again in reads of L2."""
    stores = [r for r in micro.matching("sector_parts", store=True) if r.configuration["passes"] != 1]
    facts = [_fact(f"l2_writes_of_{r.configuration['words']}_words_per_s", r, *_rate(r)) for r in stores]
    reads = [r for r in micro.matching("global_read") if r.configuration["passes"] != 1]
    partial = [_rate(r)[0] for r in stores if int(str(r.configuration["words"])) < SECTOR_WORDS]
    if reads and partial:
        rate = float(np.median(partial))
        spread = 0.5 * (max(partial) - min(partial)) / rate
        value = _rate(reads[-1])[0] / SECTOR_BYTES / rate
        source = f"{_setting(reads[-1])} over sector_parts, stores of less than a sector"
        facts.append(MeasuredFact(name="l2_partial_write_reads", value=value, spread=spread, source=source))
    return facts


def _data_pipe(micro: MicroRecords) -> list[MeasuredFact]:
    """Cycles of a shared load with conflict degree c are max(per instruction, c · per wavefront)."""
    found = micro.matching("shared_read", width=1)
    by_degree = {int(str(r.configuration["stride"])): _cycles_each(r)[0] for r in found}
    if len(by_degree) < 2 or 1 not in by_degree:
        return []
    degrees = np.array(sorted(by_degree), np.float64)
    cycles = np.array([by_degree[int(degree)] for degree in degrees])
    per_instruction, per_wavefront = shared_cycles(degrees, cycles)
    error = float(np.max(np.abs(np.maximum(per_instruction, degrees * per_wavefront) / cycles - 1.0)))
    source = f"shared_read, stride {int(degrees[0])} to {int(degrees[-1])}"
    return [
        MeasuredFact(name="shared_cycles_per_instruction", value=per_instruction, spread=error, source=source),
        MeasuredFact(name="shared_cycles_per_wavefront", value=per_wavefront, spread=error, source=source),
    ]


def shared_cycles(degrees: NDArray[np.float64], cycles: NDArray[np.float64]) -> tuple[float, float]:
    """Cycles per instruction and per wavefront from the cycles of loads with different conflict degrees.

    The slope between the two largest degrees is the cost of a wavefront; the smallest degree shows that of an instruction.

    >>> shared_cycles(np.array([1.0, 2, 4, 8]), np.array([2.0, 2, 4, 8]))
    (2.0, 1.0)
    """
    per_wavefront = float((cycles[-1] - cycles[-2]) / (degrees[-1] - degrees[-2]))
    return float(cycles[0]), per_wavefront


def _latencies(micro: MicroRecords) -> list[MeasuredFact]:
    chases = sorted(micro.matching("chase_global"), key=lambda r: int(str(r.configuration["bytes"])))
    past_l1 = [record for record in chases if record.configuration["past_l1"]]
    candidates = [
        ("shared_latency_cycles", micro.matching("chase_shared")),
        ("l1_latency_cycles", [record for record in chases if not record.configuration["past_l1"]]),
        ("l2_latency_cycles", past_l1[:1] if len(past_l1) > 1 else []),
        ("dram_latency_cycles", past_l1[-1:] if len(past_l1) > 1 else []),
        ("fp32_latency_cycles", micro.matching("arithmetic", float_chains=1, integer_chains=0, warps=1)),
    ]
    return [_fact(name, record, *_cycles_each(record)) for name, found in candidates for record in found[-1:]]


def _arithmetic_rates(micro: MicroRecords) -> list[MeasuredFact]:
    """Lanes: warp instructions a cycle of a whole SM, times the lanes of a warp."""
    facts = []
    for name, found in (
        ("fp32_lanes_per_sm", micro.matching("arithmetic", integer_chains=0, warps=32)),
        ("int32_lanes_per_sm", micro.matching("arithmetic", float_chains=0, warps=32)),
        ("mixed_1_to_1_lanes_per_sm", micro.matching("arithmetic", float_chains=4, integer_chains=2, warps=32)),
        ("mixed_2_to_1_lanes_per_sm", micro.matching("arithmetic", float_chains=8, integer_chains=2, warps=32)),
        ("shuffle_lanes_per_sm", micro.matching("shuffle")),
    ):
        for record in found[-1:]:
            cycles, spread = _cycles_each(record)
            facts.append(_fact(name, record, WARP_SIZE / cycles, spread))
    for record in micro.matching("arithmetic", integer_chains=0, warps=1):
        chains = record.configuration["float_chains"]
        if chains != 1:
            facts.append(_fact(f"lone_warp_fma_issue_cycles_{chains}_chains", record, *_cycles_each(record)))
    return facts


def _synchronisation(micro: MicroRecords) -> list[MeasuredFact]:
    return [
        _fact(f"barrier_cycles_{record.configuration['warps']}_warps", record, *_cycles_each(record))
        for record in micro.matching("barrier")
    ]


def _instruction_caches(micro: MicroRecords) -> list[MeasuredFact]:
    alone = [record for record in micro.matching("code_walk") if "warps" not in record.configuration]
    found = sorted(alone, key=lambda r: int(str(r.configuration["body"])))
    sizes = [INSTRUCTION_BYTES * int(str(r.configuration["body"])) for r in found]
    cycles = [_cycles_each(r)[0] for r in found]
    facts = [
        _fact(f"code_walk_cycles_per_instruction_{size // 1024}_kib", record, *_cycles_each(record))
        for size, record in zip(sizes, found, strict=True)
    ]
    for level, (size, low) in enumerate(cache_ends(sizes, cycles), start=1):
        spread = 0.5 * (size - low) / size
        source = f"code_walk, largest code before a rise of the cycles ({low} to {size} bytes)"
        facts.append(MeasuredFact(name=f"instruction_cache_end_{level}_bytes", value=low, spread=spread, source=source))
    return facts


def cache_ends(sizes: Sequence[int], cycles: Sequence[float]) -> list[tuple[int, int]]:
    """Pairs (first size that no longer fits, last that does) where the cycles per instruction rise and had been flat.

    >>> cache_ends([16, 32, 64, 96, 128], [1.0, 1.0, 1.5, 1.51, 3.0])
    [(64, 32), (128, 96)]
    """
    ends = []
    rising = False
    for n in range(1, len(sizes)):
        rises = cycles[n] > CACHE_STEP * cycles[n - 1]
        if rises and not rising:
            ends.append((sizes[n], sizes[n - 1]))
        rising = rises
    return ends


def _launch_costs(micro: MicroRecords) -> list[MeasuredFact]:
    names = {
        TimingMethod.EVENTS: "empty_launch_between_events_s",
        TimingMethod.BATCH: "launch_overhead_s",
        TimingMethod.GRAPH: "empty_graph_node_s",
    }
    facts = []
    for record in micro.matching("empty"):
        if not record.configuration:
            facts += [
                _fact(names[timing.method], record, timing.median_s, _spread(timing)) for timing in record.timings
            ]
            continue
        timing = record.timings[0]
        cycles = timing.median_s * timing.sm_clock_hz / record.counters["amount"]
        facts.append(
            _fact(f"block_dispatch_cycles_{record.configuration['warps']}_warps", record, cycles, _spread(timing))
        )
    return facts


def _early_exits(micro: MicroRecords) -> list[MeasuredFact]:
    """How many waits one after the other four times as many blocks take as could be resident if all their warps stayed."""
    facts = []
    for record in micro.matching("early_exit"):
        timing = record.timings[0]
        waits = timing.median_s * timing.sm_clock_hz / record.counters["amount"]
        facts.append(_fact(f"waits_of_{record.configuration['waiting']}_in_16_warps", record, waits, _spread(timing)))
    return facts


def _spread(timing: Timing) -> float:
    """Half the width of the interval of the median, relative."""
    low, high = timing.interval_s or (timing.median_s, timing.median_s)
    return 0.5 * (high - low) / timing.median_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FactComparison:
    """A measured fact beside the value that the GPU's file has; ``file_value`` is None where it has none."""

    fact: MeasuredFact
    file_value: float | None

    @property
    def ratio(self) -> float | None:
        """Measured over the file's value."""
        return self.fact.value / self.file_value if self.file_value else None


def compare_facts(facts: Sequence[MeasuredFact], gpu: Gpu) -> tuple[FactComparison, ...]:
    """Each fact with the value of the GPU's file."""
    return tuple(
        FactComparison(fact=fact, file_value=float(getattr(gpu, fact.name)) if fact.name in GPU_FIELDS else None)
        for fact in facts
    )


def gpu_file(gpu: Gpu, facts: Sequence[MeasuredFact]) -> str:
    """The text of a GPU file that takes everything from this GPU and replaces what was measured, with its source."""
    lines = [f'base = "{gpu.id}"', f'name = "{gpu.name}"', ""]
    for fact in facts:
        if fact.name in GPU_FIELDS and fact.name not in WHOLE_NUMBER_FIELDS:
            lines.append(f'{fact.name} = {{ value = {fact.value:.6g}, source = "micro-benchmark: {fact.source}" }}')
    return "\n".join(lines) + "\n"
