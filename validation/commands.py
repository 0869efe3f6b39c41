"""``perfmodel measure``: configurations of families run, checked and timed on the GPU of this machine, libraries beside them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perfmodel.cli.options import EXTRA_OPTIONS, FamilyCommand, JsonOption, SeedOption, family_completion, problem_from
from perfmodel.cli.output import note, print_json, print_table, progress_bar, require_folder, require_writable
from perfmodel.core.units import time_text
from perfmodel.errors import InputError

from . import tune_command

if TYPE_CHECKING:
    from perfmodel.families.problem_list import ListedProblem

    from .measuring import Selection
    from .session import Session

DEFAULT_TOP = 10
MOST_REASONS = 3
"""Different reasons for which records have no time that are said, the most frequent first."""


def register(app: typer.Typer) -> None:
    """Add the commands that need a GPU to the program."""
    app.command("measure", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(measure)
    tune_command.register(app)


def measure(
    context: typer.Context,
    family_name: Annotated[
        str | None,
        typer.Argument(metavar="FAMILY", autocompletion=family_completion, help="A name of `perfmodel families`."),
    ] = None,
    problems: Annotated[
        Path | None,
        typer.Option(metavar="FILE.toml", help="Instead of FAMILY: a list of problems of any families."),
    ] = None,
    prepared: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Instead of FAMILY: what --prepare compiled.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="FILE.jsonl", help="Records are appended here; what is there stays.")
    ] = None,
    prepare: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Choose and compile only, for --gpu NAME; needs no GPU and no --records."),
    ] = None,
    gpu: Annotated[
        str,
        typer.Option("--gpu", metavar="auto|NAME|FILE.toml", help="GPU to predict for; auto: this machine's."),
    ] = "auto",
    top: Annotated[
        int | None,
        typer.Option(min=1, help="Measure this many of the predicted fastest; 10 if nothing else is asked for."),
    ] = None,
    random: Annotated[
        int, typer.Option(min=0, help="Measure this many others, too, drawn at random from all that fit the GPU.")
    ] = 0,
    every: Annotated[bool, typer.Option("--all", help="Measure every configuration that fits the GPU.")] = False,
    libraries: Annotated[
        bool, typer.Option("--libraries", help="Time cuDNN, cuBLAS, PyTorch and others on the same problems.")
    ] = False,
    time_limit: Annotated[float, typer.Option(min=1.0, help="Seconds after which to stop; run again to resume.")] = 600,
    kernel_tuner_cache: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="With FAMILY: also write the records as a Kernel Tuner cache."),
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Run configurations on this machine's GPU: check each result, time it in CUDA graphs, write a record.

    `measure FAMILY --help` lists the problem's options (--height 2160 --filter-width 5 …). What FILE.jsonl already holds is not
    run again. Without a GPU the command says so in one line and ends with status 2.
    """
    from .measuring import Selection, measure_prepared

    if family_name is not None and family_name.startswith("-"):
        raise InputError(f"unexpected argument {family_name!r}: options of problems need FAMILY")
    given = {"FAMILY": family_name, "--problems": problems, "--prepared": prepared}
    if sum(value is not None for value in given.values()) != 1:
        raise InputError(f"give one of {', '.join(given)}")
    if kernel_tuner_cache is not None and family_name is None:
        raise InputError("--kernel-tuner-cache holds one problem: it needs FAMILY")
    default_top = 0 if random or every else DEFAULT_TOP
    selection = Selection(top=default_top if top is None else top, random=random, every=every, seed=seed)
    wanted = _problems(family_name, problems, context.args)
    if prepare is not None:
        _prepare(wanted, gpu, selection, prepare)
        return
    if records is None:
        raise InputError("measuring needs --records FILE.jsonl, to which records are appended")
    require_writable("--records", records)
    if kernel_tuner_cache is not None:
        require_writable("--kernel-tuner-cache", kernel_tuner_cache, [records])
    with tempfile.TemporaryDirectory(prefix="perfmodel-measure-") as folder:
        session = _session(prepared, wanted, gpu, selection, Path(folder))
        with progress_bar("measured", None) as advance:
            summary = measure_prepared(session, records, libraries=libraries, time_limit_s=time_limit, advance=advance)
    note(str(summary))
    if family_name is None:
        _show_list(records, as_json)
        return
    _show(wanted[0], records, as_json)
    if kernel_tuner_cache is not None:
        _export(family_name, records, kernel_tuner_cache)


def _problems(family_name: str | None, listed: Path | None, arguments: Sequence[str]) -> tuple[ListedProblem, ...]:
    """The problems that the command line names; none of what is prepared already."""
    from perfmodel.families.problem_list import ListedProblem, read_problems
    from perfmodel.families.registry import family

    if listed is not None:
        return read_problems(listed)
    if family_name is None:
        return ()
    chosen = family(family_name)
    problem = problem_from(chosen.problem_type, chosen.default_problem(), arguments)
    return (ListedProblem(name="", family=chosen.name, problem=problem),)


def _prepare(problems: Sequence[ListedProblem], gpu: str, selection: Selection, folder: Path) -> None:
    """Choose and compile the configurations of all problems into a folder."""
    from perfmodel.prediction.scenario import scenario_of

    from .measuring import prepare_problems
    from .prepared import PreparedFolder

    if not problems:
        raise InputError("--prepare and --prepared exclude each other")
    require_folder("--prepare", folder)
    scenario = scenario_of(gpu)
    with progress_bar("problems prepared", len(problems)) as advance:
        kernels = prepare_problems(problems, scenario, selection, PreparedFolder(folder), prepared=advance)
    broken = sum(kernel.failure is not None for kernel in kernels)
    note(f"{len(kernels)} kernels of {len(problems)} problems in {folder}, {broken} of them cannot run")


def _session(
    prepared: Path | None, problems: Sequence[ListedProblem], gpu: str, selection: Selection, folder: Path
) -> Session:
    """What is prepared on the GPU of this machine; prepared now where it is not."""
    from perfmodel.prediction.scenario import scenario_of

    from .device import require_device
    from .session import Session

    if prepared is not None:
        return Session.open(prepared)
    device = require_device()
    scenario = scenario_of(device.gpu_id if gpu == "auto" else gpu)
    if scenario.gpu.architecture.name != device.architecture:
        raise InputError(
            f"--gpu {gpu}: is {scenario.gpu.architecture.name}, the GPU of this machine is {device.architecture}"
        )
    _prepare(problems, scenario.gpu.id if gpu == "auto" else gpu, selection, folder)
    return Session.open(folder)


def _show(one: ListedProblem, path: Path, as_json: bool) -> None:
    """The records of the problem, fastest first, and why others have no time."""
    from perfmodel.core.documents import to_builtins
    from perfmodel.core.json_values import plain
    from perfmodel.launch.launch import L2State
    from perfmodel.records.own_records import read_records
    from perfmodel.records.schema import RecordKind

    wanted = plain(one.problem)
    found = [r for r in read_records(path) if _family_name(r) == one.family and dict(r.problem) == wanted]
    reasons = Counter(record.failure.message for record in found if record.failure is not None)
    for message, times in reasons.most_common(MOST_REASONS):
        note(f"{times} of {len(found)} records have no time: {message}")
    if as_json:
        print_json({"family": one.family, "problem": wanted, "records": [to_builtins(record) for record in found]})
        return
    timed = [(timing.median_s, record) for record in found if (timing := record.timing(L2State.COLD)) is not None]
    timed.sort(key=lambda pair: pair[0])
    kernels = [(seconds, record) for seconds, record in timed if record.kind is RecordKind.KERNEL]
    names = list(kernels[0][1].configuration) if kernels else []
    rows = [(n, *record.configuration.values(), time_text(s)) for n, (s, record) in enumerate(kernels, 1)]
    print_table(f"{one.family}: measured, cold L2", ("#", *names, "median"), rows)
    libraries = [(record.name, time_text(s)) for s, record in timed if record.kind is RecordKind.BASELINE]
    if libraries:
        print_table("libraries, cold L2", ("library", "median"), libraries)


def _family_name(record: Any) -> str:
    """The family of a kernel, or of the problem that a library computed."""
    return str(record.configuration.get("family", record.name))


def _show_list(path: Path, as_json: bool) -> None:
    """Each problem's best kernel, predicted first and fastest library."""
    from perfmodel.records.own_records import read_records

    from .comparison import comparison_rows, comparisons, summary_rows

    found = comparisons(read_records(path))
    if as_json:
        print_json({"comparisons": [one.to_json() for one in found]})
        return
    columns, rows = comparison_rows(found)
    print_table("kernels and libraries", columns, rows, 3)
    columns, rows = summary_rows(found)
    print_table("means by family", columns, rows, 2)


def _export(family_name: str, path: Path, target: Path) -> None:
    from perfmodel.families.registry import family
    from perfmodel.records.measurements import read_measurements
    from perfmodel.records.tuning_cache import write_kernel_tuner_cache

    chosen = family(family_name)
    write_kernel_tuner_cache(target, read_measurements(path, chosen), chosen)
