"""Pages of the reference that are made from the program: command line, Python, JSON, GPUs. Run by MkDocs (plugin gen-files)."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Any

import mkdocs_gen_files
import typer.main
from typer.cli import get_docs_for_click

import perfmodel as pm
from perfmodel.accuracy.counter_metrics import METRIC_SUMS
from perfmodel.cli.app import build_app
from perfmodel.cli.json_schema import OBJECTS, json_schema
from perfmodel.core.counts import COUNT_NAMES, Counts
from perfmodel.core.json_aliases import FORMER_NAMES
from perfmodel.gpus.catalogue import gpu_ids, load_gpu


def command_line() -> str:
    """The help of every command."""
    command = typer.main.get_command(build_app())
    return get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="perfmodel"), name="perfmodel")


def python_names() -> str:
    """One entry for each public name."""
    entries = "\n".join(f"::: perfmodel.{name}\n" for name in pm.__all__)
    return f"# Python\n\n`import perfmodel as pm`. Every name below is an attribute of `pm`.\n\n{entries}"


def gpu_table() -> str:
    """All GPUs with the values that matter most."""
    lines = [
        "# All GPUs\n\nEvery value with its source: `perfmodel gpus show NAME`.\n",
        "| id | name | compute capability | SMs | boost MHz | L2 MiB | DRAM GB/s |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name in gpu_ids():
        gpu = load_gpu(name)
        capability = ".".join(str(part) for part in gpu.architecture.compute_capability)
        lines.append(
            f"| `{name}` | {gpu.name} | {capability} | {gpu.sm_count} | {gpu.boost_clock_hz / 1e6:.0f} "
            f"| {gpu.l2_bytes / 2**20:.0f} | {gpu.dram_bytes_per_s / 1e9:.0f} |"
        )
    return "\n".join(lines) + "\n"


COUNTS_PAGE = """# Counts

What the whole launch does. These are the names of `counts` in JSON, of columns of `--csv` and `pm.frame`, and of limits of
`perfmodel check`. How they are counted: [rules of counting](../simulator.md#rules-of-counting).

| count | meaning | metric of Nsight Compute |
|---|---|---|
"""


def count_table() -> str:
    """Every count with its meaning and the hardware counters that say the same."""
    meanings = count_meanings()
    assert set(meanings) == set(COUNT_NAMES), "a count has no docstring"
    metrics: dict[str, list[str]] = {}
    for one in METRIC_SUMS:
        words = " + ".join(f"`{metric.removesuffix('.sum')}`" for metric in one.metrics)
        words += "".join(f"; it has `{name}`, too" for name in one.also)
        words += "".join(f"; it lacks `{name}`" for name in one.without)
        metrics.setdefault(one.count, []).append(words + (f" × {one.factor:g}" if one.factor != 1 else ""))
    rows = (
        f"| `{name}` | {meaning} | {' or '.join(metrics.get(name, ['–']))} |\n" for name, meaning in meanings.items()
    )
    return COUNTS_PAGE + "".join(rows)


def count_meanings() -> dict[str, str]:
    """The docstring below each field of `Counts`."""
    (record,) = ast.parse(inspect.getsource(Counts)).body
    assert isinstance(record, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value).replace("``", "`")
        for field, text in pairwise(record.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


JSON_PAGE = """# JSON and schemas

Every command prints one JSON object on standard output with `--json`; progress and notes go to standard error. Units
are in the names: `_us` microseconds, `_bytes` bytes; parts are fractions from 0 to 1. `perfmodel schema NAME` prints the
JSON Schema of one of these:

| `perfmodel schema` | what it describes | type |
|---|---|---|
"""
FACT = "Fact"
"""Beginning of the names of types of a GPU sheet's values, each with its source."""
GPU_TYPES = ("GpuFile", "GpuValues")
FORMER_PAGE = """
## Former names

For one release a value stands under its former name, too. The value of `limiter` has only the present name.

| name | former name |
|---|---|
"""


def json_objects() -> str:
    """The objects that commands print and the files that they read, and the types that these are made of."""
    schemas = {name: json_schema(name) for name in OBJECTS}
    types = {name: one for schema in schemas.values() for name, one in schema["$defs"].items()}
    tops = {name: schema["$ref"].rsplit("/", 1)[1] for name, schema in schemas.items()}
    lines = [f"| `{name}` | {_words(types[top])} | [{top}](#{top.lower()}) |\n" for name, top in tops.items()]
    shown = sorted(name for name, one in types.items() if "properties" in one and not name.startswith(FACT))
    tables = "".join(_type_table(name, types) for name in shown)
    former = "".join(f"| `{name}` | `{before}` |\n" for name, before in FORMER_NAMES.items())
    return JSON_PAGE + "".join(lines) + "\n## Types\n" + tables + FORMER_PAGE + former


def _words(described: dict[str, Any]) -> str:
    return " ".join(described.get("description", "").replace("``", "`").split()).replace("|", "\\|")


def _type_table(name: str, types: dict[str, Any]) -> str:
    described = types[name]
    heading = f"\n### {name}\n\n{_words(described)}\n\n"
    if name in GPU_TYPES:
        return f"{heading}Its keys are the [fields of GPU sheets](../gpus.md#fields).\n"
    rows = [
        f"| `{key}` | {_kind(value, types)}{'' if key in described.get('required', ()) else ', may be absent'} |\n"
        for key, value in described["properties"].items()
        if key not in FORMER_NAMES.values()
    ]
    return f"{heading}| key | type |\n|---|---|\n{''.join(rows)}"


def _kind(value: dict[str, Any], types: dict[str, Any]) -> str:
    """A type of a JSON Schema as people read it."""
    if "$ref" in value:
        name = value["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})" if "properties" in types[name] else _kind(types[name], types)
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_kind(one, types) for one in value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"])
    if value.get("type") == "array":
        if value.get("prefixItems"):
            return f"list of {len(value['prefixItems'])}: {_kind(value['prefixItems'][0], types)}"
        return f"list of {_kind(value['items'], types)}" if value.get("items") else "list"
    if value.get("type") == "object":
        entries = value.get("additionalProperties")
        return f"table of {_kind(entries, types)}" if isinstance(entries, dict) and entries else "table"
    return str(value.get("type", "anything"))


PAGES = {
    "reference/cli.md": command_line,
    "reference/api.md": python_names,
    "reference/json.md": json_objects,
    "reference/counts.md": count_table,
    "reference/gpus.md": gpu_table,
}

for place, page in PAGES.items():
    with mkdocs_gen_files.open(place, "w") as file:
        file.write(page())
