"""``perfmodel gpus``, ``families`` and ``schema``: what can be asked about, and how answers look."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import typer

from ..core.documents import nearest
from ..errors import InputError
from .options import JsonOption
from .output import print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("gpus")(gpus)
    app.command("families")(families)
    app.command("schema")(schema)


def gpus(
    name: str = typer.Argument(
        None, metavar="[ID|FILE.toml|auto]", help="Show every value of one GPU with its source."
    ),
    as_json: JsonOption = False,
) -> None:
    """List the GPUs, or every value of one with the source that it was taken from."""
    from ..gpus.catalogue import gpu_ids, load_gpu, values_of

    if name is not None:
        _one_gpu(name, as_json)
        return
    found = [load_gpu(gpu_id) for gpu_id in gpu_ids()]
    if as_json:
        print_json({"gpus": [values_of(gpu) for gpu in found]})
        return
    columns = ("GPU", "arch", "SMs", "boost MHz", "FP32 TFLOP/s", "L2 MiB", "DRAM GB/s", "shared KiB/SM")
    rows = [
        (
            gpu.id,
            gpu.architecture.name,
            gpu.sm_count,
            f"{gpu.boost_clock_hz / 1e6:.0f}",
            f"{2 * gpu.fp32_lanes_per_sm * gpu.sm_count * gpu.boost_clock_hz / 1e12:.1f}",
            f"{gpu.l2_bytes / 2**20:.1f}",
            f"{gpu.dram_bytes_per_s / 1e9:.0f}",
            gpu.shared_bytes_per_sm // 1024,
        )
        for gpu in found
    ]
    print_table("GPUs", columns, rows, left=2)


def _one_gpu(name: str, as_json: bool) -> None:
    from ..gpus.catalogue import load_gpu, source_of, values_of

    gpu = load_gpu(name)
    values = values_of(gpu)
    sources = {field: source_of(name, field) for field in values if field not in ("id", "name")}
    if as_json:
        print_json({"gpu": values, "sources": sources})
        return
    print_table(
        f"{gpu.name} ({gpu.id})", ("field", "value", "source"), [(f, values[f], s) for f, s in sources.items()], 3
    )


def families(as_json: JsonOption = False) -> None:
    """List the kernel families with their problem options and configuration fields."""
    from ..core.json_values import plain
    from ..core.second_names import second_names
    from ..families.registry import family, family_names

    listed: list[dict[str, Any]] = []
    for name in family_names():
        one = family(name)
        listed.append(
            {
                "family": name,
                "summary": one.summary,
                "problem": plain(one.default_problem()),
                "configuration": [field.name for field in fields(one.configuration_type)],
            }
        )
    if as_json:
        print_json({"families": listed})
        return
    for entry in listed:
        options = " ".join(f"--{n.replace('_', '-')} {v}" for n, v in entry["problem"].items())
        rows = [("problem (default)", options), ("configuration", " ".join(entry["configuration"]))]
        former = second_names(family(entry["family"]).problem_type)
        rows += [("also accepted", f"--{old.replace('_', '-')} for --{new}") for old, new in former.items()]
        print_table(f"{entry['family']}: {entry['summary']}", ("", ""), rows, left=2)
        typer.echo()


def schema(name: str = typer.Argument(None, metavar="[NAME]", help="One of the names that the command lists.")) -> None:
    """Print the JSON Schema of what a command prints with --json, or of a file that the program reads; list them."""
    from .objects import OBJECTS, json_schema

    if name is None:
        rows = [(known, " ".join((kind.__doc__ or "").split("\n\n")[0].split())) for known, kind in OBJECTS.items()]
        print_table("JSON Schemas", ("name", "what it describes"), rows, left=2)
        return
    if name not in OBJECTS:
        raise InputError(f"unknown schema {name!r}; {nearest(name, OBJECTS)}")
    print_json(json_schema(name))
