"""``perfmodel analyze``: what one launch of any CUDA kernel does and how long it takes, without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.choices import one_of
from ..errors import InputError
from .comparison import Variant, differing, print_comparison, texts_with_owners
from .options import (
    CalibrationOption,
    ClockOption,
    CsvOption,
    GpusOption,
    IncludeOption,
    JsonOption,
    L2Option,
    SeedOption,
    command_line,
    for_each,
    require_one_format,
    scenario_from,
)
from .output import (
    note,
    print_csv,
    print_instructions,
    print_json,
    print_prediction,
    progress_bar,
    require_writable,
    write_target,
)
from .pages import analysis_pages

if TYPE_CHECKING:
    from ..advice.advise import Advised
    from ..prediction.analyze import Analysis

CHECK_FAILED_STATUS = 1


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("analyze")(analyze)


def analyze(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…",
            help="CUDA C++ file, PTX, a cubin, a binary with kernels, or a Python file with kernels of Triton or Numba; "
            "several are compared.",
        ),
    ],
    gpu: GpusOption,
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "--kernel",
            metavar="NAME",
            help="The kernel: a name, or a template such as 'conv<5,2>'; several are compared. A file with one needs none.",
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="X,Y,Z",
            help="Blocks of the grid; Y and Z are 1 where left out. Repeat it to compare launches.",
        ),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option("--block", metavar="X,Y,Z", help="Threads of a block: once, or once for each --grid."),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="SPEC",
            help="Once for each parameter: f32[1048576] (random), f32[64]=0, i32[64]=arange, i32[1000]=0..999, "
            "f32[64]=@file.npy, i32=512, f32=0.5, 512 (of the parameter's type), null, struct=@file.npy, "
            "struct[100]=i32[1]=0..9,f32[3], tensormap=f16[512,64]:box=128,64:swizzle=128, "
            "texture=f32[512,512]:linear, surface=f32[512,512].",
        ),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option("--constant", metavar="NAME=SPEC", help="Contents of a __constant__ or __device__ array."),
    ] = None,
    shared: Annotated[
        int | None, typer.Option("--shared", min=0, metavar="BYTES", help="Dynamic shared memory of a block.")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="X,Y,Z", help="Blocks of a cluster; by default as the kernel declares."),
    ] = None,
    defines: Annotated[
        list[str] | None,
        typer.Option("--define", "-D", metavar="N=V", help="A macro; for Triton a constexpr, or num_warps."),
    ] = None,
    include: IncludeOption = None,
    compile_commands: Annotated[
        Path | None,
        typer.Option(
            "--compile-commands", metavar="FILE", help="compile_commands.json of your project; FILE's flags are used."
        ),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--compiler-option", metavar="OPTION", help="An option for the compiler.")
    ] = None,
    source: Annotated[
        bool,
        typer.Option("--source", help="List the memory instructions by source line, the largest excess first."),
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="PAGE.html",
            help="Write a page: source beside PTX and machine code, warps, roofline, changes.",
        ),
    ] = None,
    all_blocks: Annotated[
        bool, typer.Option("--all-blocks", help="Execute and check every block, whatever that takes.")
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="What --json printed earlier; exit status 1 if it got worse."),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on", metavar="LIMITS", help="Allowed growth against the baseline; by default time=5%,spill=0."
        ),
    ] = None,
    seed: SeedOption = 0,
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    max_seconds: Annotated[
        float, typer.Option(min=0.0, help="Maximum processor time of one simulation, in seconds.")
    ] = 300.0,
    max_memory_mib: Annotated[int, typer.Option(min=1, help="Maximum memory of a simulation, in MiB.")] = 2048,
    max_instructions: Annotated[int, typer.Option(min=1, help="Maximum warp instructions of a simulation.")] = 10**11,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Analyse one launch of a kernel of FILE: time, limiter, changes, counts, occupancy; faults are reported.

    The source is compiled for the GPU's architecture and executed on the CPU. Exit status 1 where the kernel does something
    wrong (a race, uninitialised shared memory …) or is worse than the baseline. Several FILEs, kernels, launches or GPUs are
    compared in one table; with --json they are a list.
    """
    from ..advice.advise import advise
    from ..checks.baseline import growth_since, read_result
    from ..checks.limits import DEFAULT_LIMITS, parse_limits
    from ..launch.launch import L2State
    from ..prediction.analyze import analyze as analyze_launch
    from ..profiles.executed_profile import Effort
    from ..simulator.faults import fault_texts
    from ..simulator.simulation import Budget

    require_one_format(as_json, as_csv)
    variants = _variants(files, kernel or [], grid or [], block or [], gpu)
    if baseline is not None and len(variants) > 1:
        raise InputError(
            f"--baseline compares with one result; {len(variants)} were asked for (several {_several(variants)})"
        )
    if html is not None and len(variants) > 1:
        raise InputError(
            f"--html {html}: a page shows one launch; {len(variants)} were asked for (several {_several(variants)})"
        )
    if fail_on is not None and baseline is None:
        raise InputError(
            f"--fail-on {fail_on}: limits what grew since an earlier result; give that by --baseline FILE.json"
        )
    pages = None if html is None else analysis_pages()
    if html is not None:
        require_writable("--html", html, [*files, baseline, calibration])
    limits = parse_limits(DEFAULT_LIMITS if fail_on is None else fail_on)
    earlier = None if baseline is None else read_result(baseline)
    shapes = [(_sizes("--grid", one.grid), _sizes("--block", one.block)) for one in variants]
    for name in gpu:  # all of them before the first launch is executed
        scenario_from(name, sm_clock_mhz, l2, calibration)
    budget = Budget(seconds=max_seconds, memory_bytes=max_memory_mib * 2**20, warp_instructions=max_instructions)
    analyze_one = partial(
        analyze_launch,
        args=arguments or [],
        shared_bytes=shared,
        cluster=None if cluster is None else _sizes("--cluster", cluster),
        defines=defines_from(defines or []),
        include=include or [],
        compile_commands=compile_commands,
        constants=dict(_pair("--constant", text) for text in constants or []),
        options=options or [],
        lines=source or html is not None,
        sm_clock_mhz=sm_clock_mhz,
        l2=one_of(L2State, "--l2", l2),
        calibration=None if calibration is None else str(calibration),
        effort=Effort(all_blocks=all_blocks, seed=seed, budget=budget),
    )
    found, advised = [], []
    with progress_bar("launches", len(variants)) as advance:
        for one, (grid_sizes, block_sizes) in zip(variants, shapes, strict=True):
            found.append(analyze_one(one.file, kernel=one.kernel, grid=grid_sizes, block=block_sizes, gpu=one.gpu))
            advised.append(advise(found[-1]))
            advance()
    results = [_json(*one) for one in zip(variants, found, advised, strict=True)]
    worse = () if earlier is None else growth_since(earlier, results[0], limits)
    if html is not None and pages is not None:
        write_target(
            "--html", html, pages.html(found[0], advised[0], command_line(context, ("html", "as_json", "as_csv")))
        )
    if as_json:
        print_json(results if len(results) > 1 else results[0])
    elif as_csv:
        print_csv([row for analysis in found for row in analysis.to_rows()])
    elif len(found) > 1:
        print_comparison(variants, found, advised)
    else:
        _print(found[0], advised[0], listed=source)
        if html is not None:
            typer.echo(f"page written to {html}")
    faults = texts_with_owners(variants, [fault_texts(analysis.faults) for analysis in found])
    for owners, text in (*faults, *(("", regression.text) for regression in worse)):
        note(f"{owners}: {text}" if owners else text)
    if faults or worse:
        raise typer.Exit(CHECK_FAILED_STATUS)


def _variants(
    files: Sequence[Path], kernels: Sequence[str], grids: Sequence[str], blocks: Sequence[str], gpus: Sequence[str]
) -> list[Variant]:
    """Every file, kernel, launch and GPU that was named, each with each.

    A grid goes with the block at its place; where there are as many kernels as files, so do these.
    """
    count = max(len(grids), len(blocks), 1)
    each_grid = for_each("--grid", grids, count, "--block") if grids else [None] * count
    each_block = for_each("--block", blocks, count, "--grid") if blocks else [None] * count
    shapes = list(zip(each_grid, each_block, strict=True))
    named: list[str | None] = [*kernels] or [None]
    pairs = list(zip(files, named, strict=True) if len(named) == len(files) else product(files, named))
    return [
        Variant(file=file, kernel=kernel, grid=grid, block=block, gpu=gpu)
        for (file, kernel), (grid, block), gpu in product(pairs, shapes, gpus)
    ]


def _several(variants: Sequence[Variant]) -> str:
    return ", ".join(name.upper() if name == "file" else f"--{name}" for name in differing(variants))


def _sizes(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r} must be one to three integers such as 64,64,1") from None
    if not 1 <= len(found) <= 3:
        raise InputError(f"{option} {text!r} must be one to three integers such as 64,64,1")
    return found


def _pair(option: str, text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not name.isidentifier() or not given:
        raise InputError(f"{option} {text!r} must have the form NAME=VALUE")
    return name, value


def defines_from(texts: list[str]) -> dict[str, str | int]:
    """Macros by name; one without a value is 1, as compilers have it."""
    found: dict[str, str | int] = {}
    for text in texts:
        name, value = _pair("--define", text if "=" in text else f"{text}=1")
        found[name] = int(value) if value.removeprefix("-").isdecimal() else value
    return found


def _json(variant: Variant, found: Analysis, advised: Advised) -> dict[str, Any]:
    rates = found.throughput.to_json()
    return {"file": str(variant.file)} | found.to_json() | {"throughput": rates, "advice": advised.to_json()}


def _print(found: Analysis, advised: Advised, *, listed: bool) -> None:
    prediction, shape, blocks = found.prediction, found.configuration, found.blocks
    typer.echo(
        f"{prediction.kernel} on {prediction.gpu}: grid {'x'.join(map(str, shape.grid))}, "
        f"block {'x'.join(map(str, shape.block))}, counts {'exact' if prediction.exact else 'estimated'} from "
        f"{blocks.executed:,} executed block{'s' if blocks.executed > 1 else ''}\n{blocks.checked_text}"
    )
    usage = f"; L1 hit rate {found.l1_hit_rate:.0%}"
    print_prediction(prediction, usage_note=usage, between=[advised.text, found.throughput.text])
    if listed:
        print_instructions(found.instructions, advised)
