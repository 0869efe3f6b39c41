"""The service as a client sees it: tools over standard input and HTTP, limits on time and memory."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")

from perfmodel.cli.json_schema import OBJECTS  # noqa: E402
from perfmodel.core.documents import converted  # noqa: E402
from perfmodel.errors import INTERRUPTED  # noqa: E402
from perfmodel.service.server import Answer, ServiceLimits, answer  # noqa: E402

from .landlock import needs_landlock  # noqa: E402

pytestmark = needs_landlock

SERVE = "import typer; from perfmodel.service.commands import register; app = typer.Typer(); register(app); app()"
SCALE = {
    "gpu": "H200",
    "kernel": "scale",
    "source": "__global__ void scale(float *x) { x[blockIdx.x * 64 + threadIdx.x] *= 2; }",
    "grid": [16],
    "block": [64],
    "arguments": ["f32[1024]"],
}


def asked(tool: str, arguments: dict[str, Any], limits: ServiceLimits) -> Answer:
    found: Answer = anyio.run(answer, tool, arguments, limits)
    return found


@pytest.mark.compiler
def test_an_answer_is_the_object_of_the_command(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('a module of the folder was run')\n")
    unnamed = {name: value for name, value in SCALE.items() if name != "kernel"}  # a source with one kernel needs none
    found = asked("analyze", unnamed, ServiceLimits(root=tmp_path))
    assert found.error == ""
    assert found.value is not None
    converted(OBJECTS["analyze"], found.value, "analyze")
    assert found.value["counts"]["global_load_sectors"] == 1024 * 4 / 32


@pytest.mark.parametrize(
    ("arguments", "limits", "message"),
    [
        (SCALE | {"grids": [1]}, {}, "analyze: unknown key 'grids'; nearest: grid"),
        (SCALE | {"gpu": "h2000"}, {}, "unknown GPU 'h2000'; nearest: h200"),
        (SCALE, {"seconds": 0.2}, "not finished within 0.2 s; `perfmodel serve --max-seconds` allows more"),
        (SCALE, {"memory_mib": 200}, "the request needs more than 200 MiB of memory"),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, arguments: dict[str, Any], limits: dict[str, Any], message: str) -> None:
    found = asked("analyze", arguments, ServiceLimits(root=tmp_path, **limits))
    assert found.value is None
    assert found.error.startswith(message)
    assert "\n" not in found.error


def test_a_client_lists_and_calls_tools_over_standard_input(tmp_path: Path) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def talk() -> tuple[list[str], Any, Any]:
        server = StdioServerParameters(command=sys.executable, args=["-c", SERVE, "--root", str(tmp_path)])
        async with stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            gpu = await session.call_tool("gpus", {"name": "RTX 5090"})
            return tools, gpu, await session.call_tool("predict", {"gpu": "h200", "family": "conv2d"})

    tools, gpu, wrong = anyio.run(talk)
    assert tools == ["gpus", "analyze", "rank", "predict"]
    assert gpu.structured_content["gpu"]["sm_count"] == 170
    assert wrong.is_error
    assert "unknown family 'conv2d'" in wrong.content[0].text


@pytest.mark.parametrize("end", ["interrupt", "no reader"])
def test_a_server_on_standard_input_ends_in_one_line(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-m", "perfmodel", "serve", "--root", str(tmp_path)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}) + "\n")
        server.stdin.flush()
        assert "perfmodel" in server.stdout.readline()
        if end == "interrupt":
            server.send_signal(signal.SIGINT)
        else:
            server.stdout.close()
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}) + "\n")
            server.stdin.close()
        assert server.wait(60) == (130 if end == "interrupt" else 0)
        assert server.stderr.read() == (f"{INTERRUPTED}\n" if end == "interrupt" else "")


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-m", "perfmodel", "serve", "--root", str(tmp_path), "--http", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, f"perfmodel: error: --http {port}: Address already in use\n")


def test_http_answers_this_machine_only(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVE, "--root", str(tmp_path), "--http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            assert f"at http://127.0.0.1:{port}/mcp" in server.stderr.readline()
            listed = _post(port, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
            assert [tool["name"] for tool in listed["result"]["tools"]] == ["gpus", "analyze", "rank", "predict"]
            with pytest.raises(urllib.error.HTTPError, match="421"):  # a page that rebinds its name to this machine
                _post(port, {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, host="evil.example")
        finally:
            server.terminate()


def _post(port: int, message: dict[str, Any], host: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": "2025-06-18"} | ({"Host": host} if host else {})
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", json.dumps(message).encode(), headers)
    for attempt in range(100):
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                found: dict[str, Any] = json.load(reply)
                return found
        except urllib.error.HTTPError:
            raise
        except urllib.error.URLError:
            if attempt == 99:
                raise
            anyio.run(anyio.sleep, 0.1)
    raise AssertionError
