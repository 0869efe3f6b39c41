"""Counts and traffic of caches against an H200's counters, launch by launch: ``python -m benchmarks.traffic``.

The package's own counted launches, or with ``--public FILE --sources DIR`` those of public kernels (`public-kernels`). What was
executed is kept in ``--keep FOLDER``, so that a change of the cache model is scored in a second or two a launch. Half of the
launches can be left out: ``--half even`` to work with, ``--half odd`` to report.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import perfmodel.validation
from campaigns.metrics import counts_of_metrics
from campaigns.public_kernels.counted import TRAFFIC, traffic_errors, traffic_table
from campaigns.public_kernels.preparing import INPUTS, call_of, compiled_launch
from campaigns.public_kernels.record import PublicRecord, read_public_records
from perfmodel.cli.output import print_table
from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.core.counts import Counts
from perfmodel.errors import PerfmodelError
from perfmodel.families.base import Batch
from perfmodel.families.registry import family as family_of_name
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.machine_code.program import MachineCode
from perfmodel.machine_code.schedule import copies_ahead, issue_cycles, loads_in_flight
from perfmodel.memory.hierarchy import CacheObserver, executed_record, grid_shape, hierarchy_of, with_hierarchy
from perfmodel.profiles.blocks.block_runs import Guest
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.profiles.executed_profile import executable
from perfmodel.profiles.user_launch import launch_of
from perfmodel.records.columns import configuration_of_record, record_of_fields
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import RecordKind

GPU = load_gpu("h200")
RECORDS = Path(perfmodel.validation.__file__).parent / "data" / "h200-recounted.jsonl.gz"
LOADED = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
HIT = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One counted launch and how to make it again."""

    name: str
    make: Callable[[], tuple[CompiledKernel, Launch, KernelCall]]
    counters: Mapping[str, float]


def own_cases() -> Iterator[Case]:
    """Launches of the package's families."""
    for record in read_records(RECORDS):
        if record.kind is not RecordKind.KERNEL or not counts_of_metrics(record.counters):
            continue

        def make(record: Any = record) -> tuple[CompiledKernel, Launch, KernelCall]:
            family = family_of_name(record.name)
            problem = record_of_fields(family.problem_type, record.problem)
            configuration = configuration_of_record(family, record.configuration)
            compiled = compile_kernel(family.compile_request(problem, configuration, GPU), GPU.architecture.name)
            call = family.call(problem, configuration, GPU, family.inputs(problem, np.random.default_rng(0)))
            return compiled, family.launch(problem, Batch.of([configuration]), GPU).at(0), call

        words = json.dumps([record.name, record.problem, record.configuration], sort_keys=True, default=str)
        yield Case(name=f"{record.name} {_digest(words)}", make=make, counters=record.counters)


def public_cases(records: Path, sources: Path, inputs: Path) -> Iterator[Case]:
    """Launches of a file of `public-kernels` that have counters."""
    for record in read_public_records(records):
        if not record.counters:
            continue

        def make(record: PublicRecord = record) -> tuple[CompiledKernel, Launch, KernelCall]:
            compiled = compiled_launch(record.launch, sources, GPU.id)[0]
            call = call_of(record.launch, record.signature, inputs)
            return compiled, launch_of(record.launch.configuration, compiled), call

        yield Case(name=record.launch.id, make=make, counters=record.counters)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Counts of a launch, its L1 hit rate, and the processor seconds of executing it and of its caches."""

    counts: Counts
    l1_hit_rate: float
    executing_s: float
    caches_s: float


def simulated(case: Case, keep: Path) -> Simulated:
    """What a launch does, from what an earlier run kept, if there is any."""
    kept = keep / f"{case.name.replace(' ', '-')}.pickle"
    if not kept.is_file():
        compiled, launch, call = case.make()
        code, _ = executable(compiled)
        trips = loads_in_flight(code) if isinstance(code, MachineCode) else {}
        cycles = issue_cycles(code) if isinstance(code, MachineCode) else None
        ahead = copies_ahead(code) if isinstance(code, MachineCode) else 0
        make = partial(CacheObserver, launch, GPU, compiled.resources, trips=trips, cycles=cycles, ahead=ahead)
        start = time.process_time()
        counted = count_launch(code, launch, call, guests=[Guest(blocks=make().blocks, make=make)])
        record = counted.observers[0].record(counted.segments)
        if counted.shape != grid_shape(launch):
            record = executed_record(
                code,
                launch,
                call,
                GPU,
                compiled.resources,
                trips=trips,
                cycles=cycles,
                ahead=ahead,
                shape=counted.shape,
            )
        seconds = time.process_time() - start
        keep.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps((record, launch, counted.counts, compiled.resources, counted.shape, seconds)))
    record, launch, counts, resources, shape, executing_s = pickle.loads(kept.read_bytes())
    start = time.process_time()
    found = hierarchy_of(record, launch, GPU, counts, resources, shape=shape)
    return Simulated(
        counts=with_hierarchy(counts, found),
        l1_hit_rate=found.l1_hit_rate,
        executing_s=executing_s,
        caches_s=time.process_time() - start,
    )


def errors_of(found: Simulated, counters: Mapping[str, float]) -> dict[str, float]:
    """Relative error of each count, and the difference of L1 hit rates."""
    errors = traffic_errors(found.counts, counters)
    for measured in counts_of_metrics(counters):
        counted, predicted = float(measured.launches[0]), float(measured.predicted(found.counts)[0])
        if measured.name not in TRAFFIC and (counted or predicted):
            errors[measured.name] = predicted / counted - 1.0 if counted else np.inf
        elif measured.name not in TRAFFIC:
            errors[measured.name] = 0.0
    if counters.get(LOADED) and HIT in counters:
        errors["l1_hit_rate"] = found.l1_hit_rate - counters[HIT] / counters[LOADED]
    return errors


def print_counts(all_errors: Sequence[Mapping[str, float]]) -> None:
    """Print how many launches have each count equal to the counter, and within half a percent."""
    rows = []
    for name in dict.fromkeys(name for errors in all_errors for name in errors):
        errors = np.abs([one[name] for one in all_errors if name in one])
        if name not in (*TRAFFIC, "l1_hit_rate"):
            rows.append((name, str(len(errors)), str((errors == 0).sum()), str((errors <= 0.005).sum())))
    print_table("counts", ("count", "launches", "equal", "within 0.5 %"), rows, left=1)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def main() -> None:
    """Print each launch's errors, and their medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--public", type=Path, help="a file of records of public kernels")
    parser.add_argument("--sources", type=Path, help="folders owner+name of their repositories, at the commits named")
    parser.add_argument("--keep", type=Path, default=Path("out/traffic"), help="where executions are kept")
    parser.add_argument("--half", choices=("even", "odd"), help="every other launch")
    parser.add_argument("--only", default="", metavar="TEXT", help="launches whose name holds it")
    chosen = parser.parse_args()
    cases = (
        public_cases(chosen.public, chosen.sources or Path("."), chosen.keep / INPUTS) if chosen.public else own_cases()
    )
    cases = list(islice(cases, int(chosen.half == "odd"), None, 2 if chosen.half else 1))
    names = (*TRAFFIC, "l1_hit_rate", "warp_instructions")
    rows, all_errors = [], []
    for case in cases:
        if chosen.only not in case.name:
            continue
        try:
            found = simulated(case, chosen.keep)
        except PerfmodelError as error:
            print(f"{case.name}: {error}", file=sys.stderr)
            continue
        errors = errors_of(found, case.counters)
        all_errors.append(errors)
        seconds = (f"{found.executing_s:.1f} s", f"{found.caches_s:.1f} s")
        rows.append((case.name, *(f"{errors[n]:+.1%}" if n in errors else "" for n in names), *seconds))
    for name, summary in (("median", np.median), ("within 10 %", lambda e: np.mean(e <= 0.1))):
        columns = [np.abs([errors[n] for errors in all_errors if n in errors]) for n in names]
        rows.append((name, *(f"{float(summary(c)):.1%}" if len(c) else "" for c in columns), "", ""))
    print_table("simulated against counted", ("launch", *names, "executing", "caches"), rows, left=1)
    print(traffic_table({chosen.public.name.partition(".")[0] if chosen.public else "own": all_errors}))
    print_counts(all_errors)


if __name__ == "__main__":
    main()
