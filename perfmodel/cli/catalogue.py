"""``perfmodel gpus``, ``families`` and ``schema``: what can be asked about, and how answers look."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from ..core.documents import nearest
from ..errors import InputError
from .options import CsvOption, JsonOption, require_one_format
from .output import print_csv, print_json, print_table, require_writable, write_target


class _Gpus(typer.core.TyperGroup):
    """The group ``gpus``, where ``gpus NAME`` is ``gpus show NAME``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, ``show`` where it names a GPU."""
        named = args if args[0] in self.commands else ["show", *args]
        return super().resolve_command(ctx, named)


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    group = typer.Typer(cls=_Gpus, invoke_without_command=True, callback=gpus, subcommand_metavar="[NAME|COMMAND]")
    group.command("show")(show)
    group.command("add")(add)
    app.add_typer(group, name="gpus")
    app.command("families")(families)
    app.command("schema")(schema)


def gpus(context: typer.Context, as_json: JsonOption = False, as_csv: CsvOption = False) -> None:
    """List the GPUs; `gpus NAME` shows every value of one, `gpus add` makes a sheet for your own card."""
    from ..gpus.catalogue import gpu_ids, load_gpu, values_of

    require_one_format(as_json, as_csv)
    if context.invoked_subcommand is not None:
        return
    found = [load_gpu(gpu_id) for gpu_id in gpu_ids()]
    if as_json:
        print_json({"gpus": [values_of(gpu) for gpu in found]})
        return
    if as_csv:
        print_csv([values_of(gpu) for gpu in found])
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


def show(
    context: typer.Context,
    name: str = typer.Argument(metavar="NAME|FILE.toml|auto", help="An id or another name of a GPU, or a file."),
    as_json: JsonOption = False,
) -> None:
    """Show every value of one GPU, with the sheet that it is inherited from and the source that it was taken from."""
    from ..gpus.catalogue import inherited_fields, load_gpu, source_of, values_of

    gpu = load_gpu(name)
    values, inherited = values_of(gpu), inherited_fields(name)
    sources = {field: source_of(name, field) for field in values if field not in ("id", "name")}
    if as_json or (context.parent is not None and context.parent.params.get("as_json")):
        print_json({"gpu": values, "sources": sources, "inherited": inherited})
        return
    rows = [(field, values[field], inherited.get(field, "–"), source) for field, source in sources.items()]
    print_table(f"{gpu.name} ({gpu.id})", ("field", "value", "inherited from", "source"), rows, 4)
    derived = sum(source.startswith("derived:") for source in sources.values())
    typer.echo(
        f"{len(rows) - len(inherited)} values of its own, {len(inherited)} inherited; {derived} derived, which nobody published"
    )


def add(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Output of `deviceQuery` or `nvidia-smi -q` on your card.")
    ],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The GPU that it is most like; by default found by name or compute capability."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The sheet to write; by default here, by the card's name.")
    ] = None,
) -> None:
    """Make a sheet for your own card from what NVIDIA's tools print of it, to be named as --gpu FILE.toml.

    Values that FILE does not say are those of the nearest shipped GPU; `gpus show FILE.toml` lists them.
    """
    from ..core.files import read_text
    from ..gpus.catalogue import inherited_fields, load_gpu
    from ..gpus.own_card import base_of, card_sheet, read_card
    from ..gpus.sheet import FIELD_TYPES

    card = read_card(read_text(file), str(file))
    chosen = load_gpu(base).id if base is not None else base_of(card)
    target = output or Path(re.sub(r"[^a-z0-9]+", "-", card.name.casefold()).strip("-") + ".toml")
    if target.suffix != ".toml":
        raise InputError(f"--output {target}: a sheet's name ends in .toml")
    require_writable("--output", target, [file])
    write_target("--output", target, card_sheet(card, chosen, file.name))
    made = load_gpu(str(target))
    own = len(FIELD_TYPES) - len(inherited_fields(str(target)))
    values = "1 value" if own == 1 else f"{own} values"
    typer.echo(
        f"{target}: {made.name}, {values} of its own, the others are those of {chosen}; use it as --gpu {target}"
    )


def families(as_json: JsonOption = False) -> None:
    """List the built-in kernels (families) with the options of their problems and the fields of a configuration."""
    from ..core.json_aliases import second_names
    from ..core.json_values import plain
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
    """Print the JSON Schema of what a command prints with --json, or of a file that it reads; without NAME list them."""
    from .json_schema import OBJECTS, json_schema

    if name is None:
        rows = [(known, " ".join((kind.__doc__ or "").split("\n\n")[0].split())) for known, kind in OBJECTS.items()]
        print_table("JSON Schemas", ("name", "what it describes"), rows, left=2)
        return
    if name not in OBJECTS:
        raise InputError(f"unknown schema {name!r}; {nearest(name, OBJECTS)}")
    print_json(json_schema(name))
