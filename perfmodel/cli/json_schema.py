"""The objects that the program prints as JSON and the files that it reads, as types for `perfmodel schema`.

Names that stand in `FORMER_NAMES` appear beside the present ones for one release.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Literal, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ..accuracy.counter_metrics import CountAgreement
from ..accuracy.metrics import Accuracy, WithinProblems
from ..checks.baseline import BaselineFile
from ..checks.check_file import CheckTables
from ..checks.checking import Verdict
from ..compiler.resources import Resources
from ..core.counts import COUNT_NAMES
from ..core.json_aliases import FORMER_NAMES
from ..families.user.space_file import SpaceTables
from ..gpus.sheet import FIELD_TYPES, GpuFile
from ..networks.estimate import Coverage
from ..networks.library import NetworkTables
from ..prediction.listing import InstructionListing
from ..prediction.prediction import ResidentBlocks
from ..records.schema import Record, Scalar
from ..sweeps.plan import SweepTables
from ..time_model.calibration import CalibrationFile
from ..time_model.combine import TERM_NAMES

Values = dict[str, Scalar]
"""Fields of a problem or of a configuration; each family has its own."""
Interval = tuple[float, float] | None


def _object(name: str, document: str, parts: Iterable[tuple[Any, ...]]) -> Any:
    """A type of these fields (name, type, default) and, where they have one, of their former names."""
    present = list(parts)
    former = [(FORMER_NAMES[part[0]], part[1] | UnsetType, UNSET) for part in present if part[0] in FORMER_NAMES]
    made: Any = msgspec.defstruct(
        name, [*present, *former], kw_only=True, forbid_unknown_fields=True, namespace={"__doc__": document}
    )
    return made


def _of(record: type, *but: str, kind: Any = None) -> list[tuple[str, Any]]:
    """Fields of one of the program's own records; a number that is not finite stands as null."""
    hints = get_type_hints(record)
    return [
        (field.name, kind or (float | None if hints[field.name] is float else hints[field.name]))
        for field in fields(record)
        if field.name not in but
    ]


def _list_of(kind: Any) -> Any:
    return list[kind]


def _table_of(kind: Any) -> Any:
    return dict[str, kind]


ResourcesObject = _object("Resources", "What the compiler gave the kernel.", _of(Resources, kind=int))
Occupancy = _object(
    "Occupancy",
    "Blocks and warps for which an SM has room (fraction: theoretical occupancy), what keeps further blocks away, waves per SM "
    "(below 1 the grid limits occupancy), warps on an SM on average while it has any, and these as achieved occupancy.",
    _of(ResidentBlocks),
)
CountsObject = _object("Counts", "Counts of the whole launch.", [(name, int | float) for name in COUNT_NAMES])
TermsObject = _object(
    "Terms", "Time of every resource if it were alone, in microseconds.", [(name, float) for name in TERM_NAMES]
)
Time = _object(
    "Time",
    "Device time of one launch in microseconds, its 90 % interval, what limits it, what backs the prediction.",
    [
        ("predicted_us", float),
        ("interval_us", Interval),
        ("limiter", str),
        ("calibration_status", str),
        ("terms_us", TermsObject),
    ],
)
PeakSharesObject = _object(
    "PeakShares",
    "Rates over the GPU's peaks, as fractions.",
    [(name, float) for name in ("fp32", "tensor", "l1", "l2", "dram")],
)
ThroughputObject = _object(
    "Throughput",
    "Operations and bytes per second, their parts of the peaks, and operations for each byte of DRAM (arithmetic intensity).",
    [
        *(
            (name, float)
            for name in ("fp32_flop_per_s", "tensor_flop_per_s", "l1_bytes_per_s", "l2_bytes_per_s", "dram_bytes_per_s")
        ),
        ("flop_per_dram_byte", float | None),
        ("peak_shares", PeakSharesObject),
    ],
)
AdviceChange = _object(
    "AdviceChange",
    "A change with the predicted time after it; gain is the part of the time that it saves. lines are source lines.",
    [
        ("kind", str),
        ("lines", list[str]),
        ("finding", str),
        ("change", str),
        ("predicted_us", float),
        ("gain", float),
    ],
)
LineExcessObject = _object(
    "LineExcess",
    "What excess sectors (global) or wavefronts (shared) of a source line cost.",
    [("line", str), ("space", str), ("excess_us", float)],
)
AdviceObject = _object(
    "Advice",
    "The changes worth most, the best first; none gains less than least_gain.",
    [("least_gain", float), ("changes", _list_of(AdviceChange)), ("excess", _list_of(LineExcessObject))],
)
_PREDICTION: list[tuple[Any, ...]] = [
    ("kernel", str),
    ("gpu", str),
    ("fidelity", str),
    ("exact", bool),
    ("resources", ResourcesObject),
    ("occupancy", Occupancy),
    ("counts", CountsObject),
    ("time", Time),
    ("notes", list[str]),
]
Prediction = _object(
    "Prediction", "One configuration on one GPU.", [("problem", Values), ("config", Values), *_PREDICTION]
)
Change = _object(
    "Change",
    "What another value of one field of the configuration does: the ratio of the times, or why it cannot run.",
    [("field", str), ("value", Scalar), ("time_ratio", float | None), ("rejected", str | None)],
)
Predict = _object(
    "Predict",
    "`perfmodel predict --json`.",
    [
        ("problem", Values),
        ("config", Values),
        *_PREDICTION,
        ("throughput", ThroughputObject),
        ("sensitivity", _list_of(Change)),
    ],
)
Instruction = _object("Instruction", "What the accesses of one instruction cost.", [*_of(InstructionListing, "places")])


class Launch(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a user's kernel was launched and compiled; shared is dynamic shared memory in bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    defines: dict[str, str | int]
    cluster: tuple[int, int, int] | Literal["none"]


class Blocks(Struct, kw_only=True, forbid_unknown_fields=True):
    """Blocks of the launch, those that counts come from, those checked; whether each other one does what a checked one does."""

    launched: int
    executed: int
    checked: int
    unchecked_alike: bool


Analyze = _object(
    "Analyze",
    "`perfmodel analyze --json`, of several files, kernels, launches or GPUs a list of these; faults are races and accesses "
    "out of bounds.",
    [
        ("file", str),
        ("config", Launch),
        *_PREDICTION,
        ("throughput", ThroughputObject),
        ("advice", AdviceObject),
        ("blocks", Blocks),
        ("standard_errors", CountsObject | UnsetType, UNSET),
        ("faults", list[str] | UnsetType, UNSET),
        ("instructions", _list_of(Instruction) | UnsetType, UNSET),
    ],
)
ProgramLaunchObject = _object(
    "ProgramLaunch",
    "Launches of one kernel with one shape; predicted_us of one on average, share of the time of all launches.",
    [
        ("kernel", str),
        ("grid", tuple[int, int, int]),
        ("block", tuple[int, int, int]),
        ("shared", int),
        ("calls", int),
        ("predicted_us", float),
        ("total_us", float),
        ("share", float),
        ("limiter", str),
        ("exact", bool),
        ("notes", list[str]),
    ],
)
Run = _object(
    "Run",
    "`perfmodel run --json`; failures are launches that could not be executed, missing what the stand-in runtime lacks.",
    [
        ("program", str),
        ("gpu", str),
        ("executed", str),
        ("exit_status", int),
        ("device_us", float),
        ("launches", _list_of(ProgramLaunchObject)),
        ("failures", list[str]),
        ("missing", list[str]),
        ("overruns", list[str]),
    ],
)
Rank = _object(
    "Rank",
    "`perfmodel rank --json`; rejected counts the configurations that cannot run, by reason.",
    [
        ("kernel", str),
        ("gpu", str),
        ("problem", Values),
        ("fidelity", str),
        ("candidates", int),
        ("rejected", dict[str, int]),
        ("top", _list_of(Prediction)),
        ("notes", list[str]),
        ("order", str | UnsetType, UNSET),
    ],
)
CheckChange = _object(
    "CheckChange", "One quantity in the baseline and now.", [("name", str), ("before", float), ("now", float)]
)
CheckOutcome = _object(
    "CheckOutcome",
    "One launch on one GPU; altered says what differs from the baseline's: source, machine code, launch.",
    [
        ("launch", str),
        ("gpu", str),
        ("file", str),
        ("kernel", str | None),
        ("verdict", Verdict),
        ("before_us", float | None),
        ("now_us", float | None),
        ("altered", list[str]),
        ("regressions", _list_of(CheckChange)),
        ("information", _list_of(CheckChange)),
        ("faults", list[str]),
        ("error", str | None),
    ],
)
Check = _object(
    "Check",
    "`perfmodel check --json`; status is the exit status.",
    [("status", int), ("outcomes", _list_of(CheckOutcome)), ("notes", list[str])],
)
WithinObject = _object(
    "WithinProblems",
    "Agreement inside problems: tau of those of 5 runs or more, regret of those of 10 or more, its mean geometric.",
    _of(WithinProblems),
)
_ACCURACY = [*_of(Accuracy, "within_problems"), ("within_problems", WithinObject | None)]
Agreement = _object(
    "Agreement", "How many counts equal the counter, and how far the others are off.", _of(CountAgreement, "count")
)
Validate = _object(
    "Validate",
    "`perfmodel validate --json`; counts where the file has counters.",
    [
        ("kernel", str),
        ("gpu", str),
        ("fidelity", str),
        ("rejected", int),
        *_ACCURACY,
        ("counts", _table_of(Agreement) | UnsetType, UNSET),
        ("notes", list[str]),
    ],
)
GpuValues = _object("GpuValues", "Every value of a GPU.", [("id", str), ("name", str), *FIELD_TYPES.items()])
Gpus = _object("Gpus", "`perfmodel gpus --json`.", [("gpus", _list_of(GpuValues))])
OneGpu = _object(
    "OneGpu",
    "`perfmodel gpus show ID --json`: values, their sources, and the sheet that each inherited value comes from.",
    [("gpu", GpuValues), ("sources", dict[str, str]), ("inherited", dict[str, str])],
)


class FamilyObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """A kernel family: its problem with default values, the fields of its configurations."""

    family: str
    summary: str
    problem: Values
    configuration: list[str]


class Families(Struct, kw_only=True, forbid_unknown_fields=True):
    """`perfmodel families --json`."""

    families: list[FamilyObject]


Layer = _object(
    "Layer",
    "One layer with its best configuration, or why it has none; time_us by its basis: predicted, bandwidth floor, no time.",
    [
        ("name", str),
        ("operation", str),
        ("kind", str),
        ("on_critical_path", bool),
        ("basis", str),
        ("time_us", float),
        ("flops", int | None),
        ("uncovered", str | None),
        ("dram_floor_us", float | None),
        ("fp32_floor_us", float | None),
        ("prediction", Prediction | None),
    ],
)
CoverageObject = _object(
    "Coverage",
    "Parts of all operations by the basis of their time; layers without a time and of unknown size are in none.",
    _of(Coverage),
)
NetworkObject = _object(
    "Network",
    "`perfmodel network --json`: times in microseconds, launch overhead not included.",
    [
        ("network", str),
        ("title", str),
        ("gpu", str),
        ("batch", int),
        ("fidelity", str),
        ("kernels", str),
        ("layers", _list_of(Layer)),
        ("covered", int),
        ("uncovered", dict[str, int]),
        ("coverage", CoverageObject),
        ("critical_path", list[str]),
        ("critical_path_us", float),
        ("critical_path_interval_us", Interval),
        ("total_us", float),
        ("total_interval_us", Interval),
    ],
)
FastestObject = _object(
    "Fastest",
    "The configuration of the least predicted time of one problem on one GPU.",
    [
        ("kernel", str),
        ("gpu", str),
        ("problem", Values),
        ("config", Values),
        ("predicted_us", float),
        ("limiter", str),
    ],
)
Sweep = _object(
    "Sweep",
    "`perfmodel sweep --json`; failed are tasks without rows, each with the reason, kept_before those of an earlier run.",
    [
        ("path", str),
        ("rows", int),
        ("tasks", int),
        ("kept_before", int),
        ("finished", int),
        ("failed", list[str]),
        ("seconds", float),
        ("fastest", _list_of(FastestObject)),
    ],
)
Fit = _object(
    "Fit",
    "`perfmodel fit --json`: the calibration that was written.",
    [
        *(
            (field.name, field.type, UNSET if not field.required else msgspec.NODEFAULT)
            for field in msgspec.structs.fields(CalibrationFile)
        ),
        ("held_out_log_error_90", float),
        ("notes", list[str]),
    ],
)


class Measure(Struct, kw_only=True, forbid_unknown_fields=True):
    """`perfmodel measure --json`: the records of one problem."""

    family: str
    problem: Values
    records: list[Record]


class TimedKernelObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """A measured configuration; place is its rank by predicted time, from 1, null where it was drawn."""

    config: Values
    time_us: float
    place: int | None


class LibraryTime(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fastest library function for a problem."""

    name: str
    time_us: float


class ComparisonObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fastest configuration of a problem, the predicted fastest, and libraries; ratios of times."""

    gpu: str
    family: str
    problem_name: str
    problem: Values
    l2: str
    best: TimedKernelObject
    predicted_first: TimedKernelObject | None
    library: LibraryTime
    tf32_library: LibraryTime | None
    libraries: int
    library_over_best: float
    library_over_predicted_first: float | None
    predicted_first_over_best: float | None


class MeasureProblems(Struct, kw_only=True, forbid_unknown_fields=True):
    """`perfmodel measure --problems FILE.toml --json`: kernels beside libraries."""

    comparisons: list[ComparisonObject]


class TunedRunObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """One configuration that was measured; failure says why it has no time."""

    config: Values
    measured_us: float | None
    predicted_us: float | None
    failure: str | None


class Tune(Struct, kw_only=True, forbid_unknown_fields=True):
    """`perfmodel tune --json`: every run, and the fastest configuration; end is why tuning ended."""

    kernel: str
    gpu: str
    candidates: int
    measured: int
    measured_before: int
    end: str
    best: Values | None
    runs: list[TunedRunObject]


OBJECTS: dict[str, Any] = {
    "predict": Predict,
    "analyze": Analyze,
    "check": Check,
    "run": Run,
    "rank": Rank,
    "validate": Validate,
    "gpus": Gpus,
    "gpu": OneGpu,
    "families": Families,
    "network": NetworkObject,
    "sweep": Sweep,
    "fit": Fit,
    "measure": Measure,
    "measure-problems": MeasureProblems,
    "tune": Tune,
    "record": Record,
    "check-file": CheckTables,
    "sweep-file": SweepTables,
    "space-file": SpaceTables,
    "network-file": NetworkTables,
    "baseline": BaselineFile,
    "gpu-file": GpuFile,
    "calibration": CalibrationFile,
}
"""What `perfmodel schema` describes: the JSON of a command by its name, then one line of a file of records, and TOML files."""


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one of `OBJECTS`.

    >>> json_schema("families")["$defs"]["Families"]["required"]
    ['families']
    """
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(OBJECTS[name])}
