"""Kernels that are disassembled in one run of the disassembler are those that it prints one by one."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import SimulationError
from perfmodel.machine_code import disassembly
from perfmodel.machine_code.disassembly import disassemble_together
from perfmodel.machine_code.joined_cubin import lone_function

LOOP = """
extern "C" __global__ void k(float *x, int n) {{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; i++) {{ if (x[i] > {number}) x[i] += s[i % 64] * {number}; }}
}}
"""
PRINTS = 'extern "C" __global__ void k(float *x) { printf("%f", x[0]); }'


def cubin(source: str, architecture: str) -> bytes:
    return compile_kernel(CompileRequest(source=source, kernel="k", file_name="k.cu"), architecture).cubin


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_70", "sm_120"])
def test_together_as_alone(architecture: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path))
    cubins = [cubin(LOOP.format(number=f"{number}.0f"), architecture) for number in (1, 2, 3)]
    cubins.append(cubin(PRINTS, architecture))
    runs: list[bytes] = []
    printed = disassembly._printed
    monkeypatch.setattr(disassembly, "_printed", lambda one: runs.append(one) or printed(one))
    disassemble_together(cubins)
    assert len(runs) == 1
    together = [disassembly.disassembly(one) for one in cubins[:3]]
    assert len(runs) == 1  # all three were kept
    assert lone_function(cubins[3]) is None  # it calls the run-time system: left to be printed alone
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "other"))
    assert [disassembly.disassembly(one) for one in cubins[:3]] == together
    assert len(runs) == 4
    assert together[0]["k"] != together[1]["k"]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="this system limits no other process's processor time")
def test_a_disassembler_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    endless = tmp_path / "nvdisasm"
    endless.write_text("#!/bin/sh\nwhile :; do :; done\n")
    endless.chmod(0o755)
    monkeypatch.setattr(disassembly, "nvdisasm_path", lambda: endless)
    monkeypatch.setattr(disassembly, "_TIME_LIMIT_S", 0.5)
    with pytest.raises(SimulationError, match=r"more than 1 s of processor time"):
        disassembly._printed(bytes(64))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="this system limits no other process's processor time")
def test_a_lower_limit_of_the_users_own_counts() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        resource.prlimit(child.pid, resource.RLIMIT_CPU, (5, 5))
        disassembly._limit_processor_time(child.pid, 60)
        limits = resource.prlimit(child.pid, resource.RLIMIT_CPU)
        child.kill()
    assert limits == (5, 5)
