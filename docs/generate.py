"""Pages of the reference that are made from the program: command line, Python, GPUs. Run by MkDocs (plugin gen-files)."""

from __future__ import annotations

import mkdocs_gen_files
import typer.main
from typer.cli import get_docs_for_click

import perfmodel as pm
from perfmodel.cli.app import build_app
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


PAGES = {"reference/cli.md": command_line, "reference/api.md": python_names, "reference/gpus.md": gpu_table}

for place, page in PAGES.items():
    with mkdocs_gen_files.open(place, "w") as file:
        file.write(page())
