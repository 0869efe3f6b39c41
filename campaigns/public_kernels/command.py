"""``public-kernels``: the score on launches of public kernels, and their preparation, execution and joining."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from perfmodel.cli.output import note, progress_bar
from perfmodel.core.choices import one_of
from perfmodel.core.documents import to_builtins
from perfmodel.core.files import write_text
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import L2State
from perfmodel.prediction.scenario import scenario_of

from .counted import compared_counts, compared_table, traffic_errors, traffic_table
from .fitting import FREE, fit_sm, fit_table, measured_launches
from .measuring import PLAN, append_record, count_step, time_step
from .mechanisms import mechanism_launches
from .preparing import Outcome, compile_all, execute_all, write_flush
from .record import PublicRecord, read_launches, read_public_records, write_public_records
from .scores import launch_table, program_groups, scored, summary_table, worst_table

app = typer.Typer(help="Kernels that others wrote: measured launches as development data of the time model.")

SourcesOption = Annotated[
    Path, typer.Option("--sources", metavar="DIR", help="Folders owner+name of the repositories, at the commits named.")
]
FolderOption = Annotated[Path, typer.Option("--folder", metavar="DIR", help="A prepared folder.")]
AppendedOption = Annotated[Path, typer.Option("--records", metavar="FILE.jsonl", help="A line is added a launch.")]
LimitOption = Annotated[float, typer.Option("--time-limit", min=1.0, help="Seconds after which the step stops.")]
STEP_LIMIT_S = 450.0
EXECUTED = "executed.jsonl"
"""What `execute` has done so far, in its folder."""
WorkersOption = Annotated[int, typer.Option("--workers", min=1, help="Processes.")]


@app.command()
def score(
    records: Annotated[list[Path], typer.Option("--records", metavar="FILE.jsonl.gz", help="May be repeated.")],
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU that was measured.")] = "h200",
    l2: Annotated[str, typer.Option("--l2", metavar="cold|warm")] = "cold",
    only: Annotated[str, typer.Option("--only", help="Programs, separated by commas.")] = "",
    programs: Annotated[bool, typer.Option("--programs", help="A line for each program, too.")] = False,
    each: Annotated[bool, typer.Option("--each", help="Every launch, too.")] = False,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Launches that are off most.")] = 15,
    calibration: Annotated[str | None, typer.Option("--calibration", metavar="FILE.toml")] = None,
) -> None:
    """Print, as Markdown, how predictions fare on measured launches; neither a GPU nor their sources are needed."""
    state = one_of(L2State, "--l2", l2)
    scenario = scenario_of(gpu, calibration=calibration)
    wanted = only.split(",") if only else None
    found = [
        record
        for path in records
        for record in read_public_records(path)
        if wanted is None or record.launch.program in wanted
    ]
    scores = scored(found, scenario, state)
    waiting = [record.launch.id for record in found if not record.profile]
    if waiting:
        note(f"left out, to be executed by `public-kernels execute`: {', '.join(waiting)}")
    if not scores:
        note("no launch has both a profile and a time in that state of L2")
        raise typer.Exit(1)
    groups = [("all", scores), *(program_groups(scores) if programs else [])]
    typer.echo(summary_table(groups), nl=False)
    if worst:
        typer.echo("\n" + worst_table(scores, worst), nl=False)
    if each:
        typer.echo("\n" + launch_table(scores), nl=False)


@app.command()
def counts(
    records: Annotated[list[Path], typer.Option("--records", metavar="FILE.jsonl.gz", help="May be repeated.")],
) -> None:
    """Print, as Markdown, in how many launches executed counts equal the counters; neither a GPU nor sources are needed."""
    typer.echo(
        compared_table(compared_counts([one for path in records for one in read_public_records(path)])), nl=False
    )


@app.command()
def traffic(
    records: Annotated[list[Path], typer.Option("--records", metavar="FILE.jsonl.gz", help="May be repeated.")],
) -> None:
    """Print, as Markdown, how near the simulated traffic of caches is to the counters, file by file; no GPU is needed."""
    sets = {
        path.name.partition(".")[0]: [
            traffic_errors(one.kernel_profile().counts, one.counters)
            for one in read_public_records(path)
            if one.profile and one.counters
        ]
        for path in records
    }
    typer.echo(traffic_table(sets), nl=False)


@app.command()
def fit(
    records: Annotated[list[Path], typer.Option("--records", metavar="FILE.jsonl.gz", help="May be repeated.")],
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU that was measured.")] = "h200",
    l2: Annotated[str, typer.Option("--l2", metavar="cold|warm")] = "cold",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of the search; each needs four simulations.")] = 3,
) -> None:
    """Fit the numbers of the model of one SM, and say how far programs are off that a fit left out."""
    state = one_of(L2State, "--l2", l2)
    scenario = scenario_of(gpu)
    launches = measured_launches([one for path in records for one in read_public_records(path)], scenario, state)
    if not launches:
        note("no launch has both traces and a time in that state of L2")
        raise typer.Exit(1)
    with progress_bar("simulated", (steps + 1) * (len(FREE) + 1)) as advance:
        found = fit_sm(launches, scenario.gpu, state, steps, advance)
    typer.echo(fit_table(found, launches), nl=False)


@app.command()
def prepare(
    launches: Annotated[Path, typer.Option("--launches", metavar="FILE.jsonl", help="A launch a line, or records.")],
    sources: SourcesOption,
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Gets the plan and the machine code.")],
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU that will be measured.")] = "h200",
    workers: WorkersOption = 2,
) -> None:
    """Compile launches into a folder that can be taken to a machine with the GPU."""
    wanted = read_launches(launches)
    write_flush(folder, gpu)
    outcomes = _gathered("compiled", len(wanted), compile_all(wanted, sources, folder, gpu, workers=workers))
    made = [outcomes[one.id] for one in wanted]
    write_public_records(folder / PLAN, [one for one in made if isinstance(one, PublicRecord)])
    _note_refusals(outcomes)


@app.command()
def execute(
    records: Annotated[Path, typer.Option("--records", metavar="FILE.jsonl.gz", help="Rewritten with new profiles.")],
    sources: SourcesOption,
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Keeps the arrays that launches name.")],
    only: Annotated[str, typer.Option("--only", help="Ids of launches, separated by commas.")] = "",
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU whose caches are simulated.")] = "h200",
    workers: WorkersOption = 2,
) -> None:
    """Execute measured launches anew, so that their stored profiles are those of today's simulator; run again to go on.

    What has been executed is kept in the folder, launch by launch, until all of it is written to the records.
    """
    before = {record.launch.id: record for record in read_public_records(records)}
    wanted = [before[one] for one in only.split(",")] if only else list(before.values())
    kept = folder / EXECUTED
    folder.mkdir(parents=True, exist_ok=True)
    done = {one.launch.id: one for one in read_public_records(kept)} if kept.exists() else {}
    left = [record for record in wanted if record.launch.id not in done]
    found = execute_all(left, sources, folder, gpu, workers=workers)
    outcomes = _gathered("executed", len(left), _kept(kept, found))
    done |= {name: one for name, one in outcomes.items() if isinstance(one, PublicRecord)}
    write_public_records(records, [done.get(name, one) for name, one in before.items()])
    kept.unlink(missing_ok=True)
    _note_refusals(outcomes)


@app.command("time")
def time_launches(folder: FolderOption, records: AppendedOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Time the launches of a prepared folder on this machine's GPU; run again to go on."""
    note(str(time_step(folder, records, time_limit)))


@app.command()
def count(folder: FolderOption, records: AppendedOption, time_limit: LimitOption = STEP_LIMIT_S) -> None:
    """Read hardware counters of the launches of a prepared folder with Nsight Compute; run again to go on."""
    note(str(count_step(folder, records, time_limit)))


@app.command()
def mechanisms(
    output: Annotated[Path, typer.Option("--output", metavar="FILE.jsonl", help="Gets a launch a line.")],
    gpu: Annotated[str, typer.Option("--gpu", help="Id of the GPU whose sizes they suit.")] = "h200",
) -> None:
    """List the launches of this package's own micro-benchmarks that show one mechanism each."""
    launches = mechanism_launches(load_gpu(gpu))
    write_text(output, "".join(json.dumps(to_builtins(launch)) + "\n" for launch in launches))
    note(f"{len(launches)} launches")


@app.command()
def join(
    plan: Annotated[Path, typer.Option("--plan", metavar="FILE.jsonl", help="Prepared or executed launches.")],
    times: Annotated[Path, typer.Option("--times", metavar="FILE.jsonl", help="What the step `time` wrote.")],
    counts: Annotated[Path, typer.Option("--counts", metavar="FILE.jsonl", help="What the step `count` wrote.")],
    output: Annotated[Path, typer.Option("--output", metavar="FILE.jsonl.gz")],
) -> None:
    """Join the times and counters of a campaign with its plan, one record a launch."""
    timed = {record.launch.id: record for record in read_public_records(times)}
    counted = {record.launch.id: record.counters for record in read_public_records(counts)}
    joined = []
    for record in read_public_records(plan):
        one = timed.get(record.launch.id)
        if one is not None:
            fields = ("gpu", "environment", "measured_at", "timings", "failure")
            measured = {name: getattr(one, name) for name in fields}
            joined.append(replace(record, **measured, counters=counted.get(record.launch.id, {})))
    write_public_records(output, joined)
    note(f"{len(joined)} launches, {sum(bool(one.counters) for one in joined)} with counters")


def _kept(path: Path, found: Iterable[tuple[str, Outcome]]) -> Iterator[tuple[str, Outcome]]:
    """The same outcomes, each record of which has been appended to a file, and said."""
    for launch_id, outcome in found:
        if isinstance(outcome, PublicRecord):
            append_record(path, outcome)
            note(f"{launch_id}: executed")
        yield launch_id, outcome


def _gathered(done: str, number: int, found: Iterable[tuple[str, Outcome]]) -> dict[str, Outcome]:
    """Outcomes by launch, shown as they come; ``done`` says what was done with each."""
    outcomes = dict[str, Outcome]()
    with progress_bar(done, number) as advance:
        for launch_id, outcome in found:
            outcomes[launch_id] = outcome
            advance()
    return outcomes


def _note_refusals(outcomes: dict[str, Outcome]) -> None:
    for launch_id, outcome in outcomes.items():
        if isinstance(outcome, str):
            note(f"{launch_id}: {outcome}")
