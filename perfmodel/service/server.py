"""The server: tools of the Model Context Protocol, each request answered by a process of its own with limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server

from ..compiler.disk_cache import cache_directory
from ..errors import INTERRUPTED, INTERRUPTED_STATUS
from .requests import TOOLS, description, input_schema, output_schema

HOST = "127.0.0.1"
_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",  # neither the process nor its workers import modules that lie in the folder
    "OPENBLAS_NUM_THREADS": "1",  # each of its threads reserves memory
}
_INSTRUCTIONS = (
    "Predicts how long CUDA kernels take on NVIDIA GPUs, without a GPU: analyze compiles and executes one launch on the CPU and "
    "says what limits it; rank finds the best configuration of a kernel family; predict explains one configuration; gpus lists "
    "the GPUs. Times are in microseconds; interval_us holds 90 % of the runs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLimits:
    """The folder that requests may read, and what one request may take; ``at_once`` requests are answered side by side."""

    root: Path
    seconds: float = 120.0
    memory_mib: int = 8192
    at_once: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request gave: the object, or one line that says why there is none."""

    value: dict[str, Any] | None
    error: str = ""


async def answer(tool: str, arguments: Mapping[str, Any], limits: ServiceLimits) -> Answer:
    """Answer one request in a process of its own, which is ended with all that it started when its time is over."""
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as private:
        return await _answer(tool, arguments, limits, private)


async def _answer(tool: str, arguments: Mapping[str, Any], limits: ServiceLimits, private: str) -> Answer:
    command = [sys.executable, "-m", "perfmodel.service.child", str(limits.root), private, str(limits.memory_mib)]
    places = {"TMPDIR": private, "PERFMODEL_CACHE": str(cache_directory().absolute())}
    environment = os.environ | _ENVIRONMENT | places
    process = await anyio.open_process(command, cwd=limits.root, env=environment, start_new_session=True)
    stdout, stderr = bytearray(), bytearray()
    assert process.stdin is not None
    try:
        with anyio.move_on_after(limits.seconds) as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_collect, process.stdout, stdout)
                tasks.start_soon(_collect, process.stderr, stderr)
                with suppress(anyio.BrokenResourceError):  # it has ended already, and says why
                    await process.stdin.send(json.dumps([tool, dict(arguments)]).encode())
                await process.stdin.aclose()
            await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.aclose()
    if scope.cancelled_caught:
        return Answer(
            value=None,
            error=f"not finished within {limits.seconds:g} s; `perfmodel serve --max-seconds` allows more",
        )
    return _read(bytes(stdout), stderr.decode(errors="replace"), process.returncode)


async def _collect(stream: Any, into: bytearray) -> None:
    async for part in stream:
        into += part


def _read(stdout: bytes, stderr: str, status: int | None) -> Answer:
    """The object of a child that ended, or the last line of what it said."""
    try:
        value = json.loads(stdout) if status in (0, 1) else None
    except ValueError:
        value = None
    if isinstance(value, dict):
        return Answer(value=value)
    lines = [line for line in stderr.splitlines() if line.strip()]
    error = lines[-1].removeprefix("perfmodel: ").removeprefix("error: ") if lines else f"ended with status {status}"
    return Answer(value=None, error=error)


def tools() -> list[types.Tool]:
    """The tools with the schemas of what they take and give."""
    return [
        types.Tool(
            name=name,
            description=description(name),
            input_schema=input_schema(name),
            output_schema=output_schema(name),
            annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        )
        for name in TOOLS
    ]


def build_server(limits: ServiceLimits) -> Server[Any]:
    """The server for a folder; give it to a transport."""
    turns = anyio.Semaphore(limits.at_once)

    async def list_tools(context: Any, parameters: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools())

    async def call_tool(context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        if parameters.name not in TOOLS:
            return _result(Answer(value=None, error=f"unknown tool {parameters.name!r}; accepted: {', '.join(TOOLS)}"))
        async with turns:
            return _result(await answer(parameters.name, parameters.arguments or {}, limits))

    return Server(
        "perfmodel",
        version=version("perfmodel"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _result(found: Answer) -> types.CallToolResult:
    text = found.error if found.value is None else json.dumps(found.value)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=found.value, is_error=found.value is None
    )


async def serve_stdio(limits: ServiceLimits) -> None:
    """Serve one client over standard input and output until it closes them, also while a request is answered."""
    from mcp.server.stdio import stdio_server

    server = build_server(limits)
    signal.signal(signal.SIGINT, _end)  # cancelled, a read of standard input goes on until there is something to read
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    except* BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere


def _end(*_: object) -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_STATUS)


async def serve_http(limits: ServiceLimits, listener: socket.socket) -> None:
    """Serve HTTP at a socket of this machine, under ``/mcp``; requests for other host names are refused."""
    import uvicorn

    app = build_server(limits).streamable_http_app(stateless_http=True, json_response=True, host=HOST)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener])
