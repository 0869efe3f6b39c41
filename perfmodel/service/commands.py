"""``perfmodel serve``: the tools for agents, over standard input or HTTP on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from ..cli.output import note
from ..errors import InputError, PerfmodelError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("serve")(serve)


def serve(
    root: Annotated[
        Path, typer.Option(metavar="DIR", help="The folder that requests may read; nothing outside it.")
    ] = Path(),
    http: Annotated[
        int | None,
        typer.Option(min=1, max=65535, metavar="PORT", help="Serve HTTP on 127.0.0.1 instead of standard input."),
    ] = None,
    max_seconds: Annotated[
        float, typer.Option(min=0.1, help="Maximum elapsed time of one request, in seconds.")
    ] = 120.0,
    max_memory_mib: Annotated[
        int, typer.Option(min=512, help="Maximum memory of each process of a request, in MiB.")
    ] = 8192,
    at_once: Annotated[int, typer.Option(min=1, help="Requests that are answered side by side.")] = 2,
) -> None:
    """Serve analyze, rank, predict and gpus to agents by the Model Context Protocol; needs the extra `serve`.

    Each request is answered by a process of its own. Without --http one client talks over standard input and output.
    """
    try:
        import anyio

        from .confinement import require_confinement
        from .server import HOST, ServiceLimits, serve_http, serve_stdio
    except ImportError as error:
        raise PerfmodelError(f"{error.name} is missing: pip install 'perfmodel[serve]'") from error
    if not root.is_dir():
        raise InputError(f"--root {root}: is no folder")
    require_confinement()
    limits = ServiceLimits(root=root.resolve(), seconds=max_seconds, memory_mib=max_memory_mib, at_once=at_once)
    if http is None:
        anyio.run(serve_stdio, limits)
    else:
        try:
            listener = socket.create_server((HOST, http))
        except OSError as error:
            raise InputError(f"--http {http}: {os.strerror(error.errno or 0)}") from error
        note(f"serving {limits.root} at http://{HOST}:{http}/mcp")
        anyio.run(serve_http, limits, listener)
