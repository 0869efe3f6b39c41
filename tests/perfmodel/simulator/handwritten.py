"""PTX written by hand, for what the compiler does not emit on demand."""

from __future__ import annotations

import numpy as np

from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Budget, Mode

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
DECLARED = """
    .reg .pred %p<9>;
    .reg .b16 %h<9>;
    .reg .b32 %r<20>;
    .reg .f32 %f<9>;
    .reg .b64 %rd<20>;
    .reg .f64 %fd<9>;
    ld.param.u64 %rd1, [k_param_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
"""


def kernel(body: str, before: str = "") -> str:
    """A module whose kernel ``k`` gets one buffer; %rd3 is the address of the thread's word, %r1 its index."""
    return f"{HEADER}{before}\n.visible .entry k(.param .u64 k_param_0)\n{{{DECLARED}{body}\n    ret;\n}}\n"


def run(
    body: str,
    *,
    threads: int = 32,
    words: int = 64,
    before: str = "",
    mode: Mode = Mode.EXECUTE,
    check: bool = False,
    budget: Budget | None = None,
) -> CountedRun:
    """Simulate one block of the kernel on a buffer of zeros."""
    buffer = Buffer(name="out", array=np.zeros(words, np.uint32), output=True)
    return counted_run(
        parse_module(kernel(body, before)).kernel("k"),
        Launch(grid_x=1, block_x=threads),
        KernelCall(parameters=(buffer,)),
        mode=mode,
        check=check,
        budget=budget,
    )


def words(body: str, threads: int = 32, before: str = "") -> list[int]:
    """What the threads leave in the buffer."""
    result: list[int] = run(body, threads=threads, before=before).outputs["out"][:threads].tolist()
    return result
