"""Global memory: contents are put in place where they are touched."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import SimulationError
from perfmodel.launch.argument_spec import BufferSpec
from perfmodel.launch.argument_text import parse_argument
from perfmodel.launch.argument_values import buffer_contents
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.faults import FaultError
from perfmodel.simulator.global_memory import PAGE_BYTES, GlobalMemory
from perfmodel.simulator.simulation import Budget, simulate

GIB = 2**30
COPY = """.version 8.0
.target sm_75
.address_size 64
.entry copy(.param .u64 to, .param .u64 from, .param .u64 distance) { .reg .b32 %r<5>; .reg .b64 %a<9>;
  ld.param.u64 %a1, [to]; ld.param.u64 %a2, [from]; ld.param.u64 %a3, [distance]; mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x; mul.wide.u32 %a4, %r1, 4; cvt.u64.u32 %a5, %r2; mad.lo.u64 %a4, %a5, %a3, %a4;
  add.u64 %a6, %a2, %a4; ld.global.u32 %r3, [%a6]; add.u64 %a7, %a1, %a4; st.global.u32 [%a7], %r3; ret; }"""


def contents(text: str) -> object:
    spec = parse_argument(text)
    assert isinstance(spec, BufferSpec)
    return buffer_contents(spec, np.random.default_rng(0), {})


def copy(distance: int, blocks: int, **options: object) -> None:
    """Let 32 threads of each block copy a word each, from 2 GiB of random numbers to 2 GiB of zeros."""
    to = Buffer(name="to", array=contents(f"u32[{2 * GIB // 4}]=0"))  # type: ignore[arg-type]
    source = Buffer(name="from", array=contents(f"u32[{2 * GIB // 4}]"))  # type: ignore[arg-type]
    call = KernelCall(parameters=(to, source, np.uint64(distance)))
    simulate(parse_module(COPY).kernel("copy"), Launch(grid_x=blocks, block_x=32), call, **options)  # type: ignore[arg-type]


def test_two_buffers_of_two_gibibytes_take_the_pages_that_are_touched() -> None:
    memory = GlobalMemory()
    memory.allocate("zeros", 2 * GIB, contents(f"u32[{2 * GIB // 4}]=0"))  # type: ignore[arg-type]
    random = memory.allocate("random", 2 * GIB, contents(f"u32[{2 * GIB // 4}]"))  # type: ignore[arg-type]
    memory.touch(random + GIB, random + GIB + 4)
    assert memory.held_bytes == PAGE_BYTES
    copy(distance=GIB // 64, blocks=128)  # 128 blocks, a page of both buffers each: 16 MiB


def test_a_number_that_fills_a_buffer_is_held_where_it_is_touched() -> None:
    memory = GlobalMemory()
    start = memory.allocate("output", 2 * GIB, np.broadcast_to(np.float32(1.5), (2, GIB // 4)))
    memory.touch(start + GIB, start + GIB + 4)
    assert memory.held_bytes == PAGE_BYTES
    assert memory.view(np.float32)[(start + GIB - memory.base) // 4] == 1.5


def test_what_is_written_is_held_to_half_the_budget() -> None:
    copy(distance=PAGE_BYTES, blocks=15, budget=Budget(memory_bytes=2 * 30 * PAGE_BYTES))  # 15 pages read, 15 written
    copy(distance=PAGE_BYTES, blocks=15, budget=Budget(memory_bytes=2 * 16 * PAGE_BYTES))  # those read are given up
    with pytest.raises(SimulationError, match=r"more than 1 MiB of its buffers.*raise --max-memory-mib"):
        copy(distance=PAGE_BYTES, blocks=17, budget=Budget(memory_bytes=2 * 16 * PAGE_BYTES))


def test_what_is_given_up_is_made_again() -> None:
    whole = np.asarray(contents("u32[200000]"))  # 12.2 pages
    memory = GlobalMemory()
    memory.limit_bytes = 4 * PAGE_BYTES
    start = memory.allocate("x", whole.nbytes, contents("u32[200000]"))  # type: ignore[arg-type]
    words = memory.view(np.uint32)
    memory.touch(start, start + 4, written=True)
    words[0] = 7
    for _ in range(2):
        for place in range(0, 200000, 16384):
            memory.touch(start + 4 * place, start + 4 * place + 4)
            assert words[place] == (whole[place] if place else 7)
            assert memory.held_bytes <= memory.limit_bytes


@pytest.mark.parametrize("text", ["f32[300000]", "i8[300001]=arange", "bf16[100000]=1.5", "f64[70000]=0..1"])
def test_contents_do_not_depend_on_what_is_touched_first(text: str) -> None:
    whole = np.asarray(contents(text))
    memory = GlobalMemory()
    memory.allocate("before", 1000, None)
    start = memory.allocate("x", whole.nbytes, contents(text))  # type: ignore[arg-type]
    for place in (whole.nbytes - 1, 5, whole.nbytes // 2):
        memory.touch(start + place, start + place + 1)
        assert memory.view(np.uint8)[start + place - memory.base] == whole.view(np.uint8)[place]
    memory.touch(start, start + whole.nbytes)
    begin = start - memory.base
    assert (memory.view(np.uint8)[begin : begin + whole.nbytes] == whole.view(np.uint8)).all()
    assert (memory.contents("x") == whole.view(np.uint8)).all()


BELOW = """.version 8.0
.target sm_75
.address_size 64
.entry below(.param .u64 at, .param .u64 distance) {{ .reg .b32 %r<3>; .reg .b64 %a<5>; ld.param.u64 %a1, [at];
  ld.param.u64 %a2, [distance]; mov.u32 %r1, %tid.x; mul.wide.u32 %a3, %r1, 4; add.u64 %a3, %a3, %a1; sub.u64 %a3, %a3, %a2;
  {access} ret; }}"""


@pytest.mark.parametrize(
    "access",
    ["ld.global.u32 %r2, [%a3+256]; st.global.u32 [%a3+256], %r2;", "red.global.add.u32 [%a3+256], 0;"],
)
def test_a_base_register_may_lie_below_the_first_buffer_but_no_access_may(access: str) -> None:
    kernel = parse_module(BELOW.format(access=access)).kernel("below")
    for distance, fault in (
        (256, None),
        (260, "4 bytes before the start of 'at'"),
        (2**46, "out-of-bounds"),
    ):
        buffer = Buffer(name="at", array=np.arange(64, dtype=np.uint32), output=True)
        call = KernelCall(parameters=(buffer, np.uint64(distance)))
        if fault is None:
            assert simulate(kernel, Launch(grid_x=1, block_x=32), call).outputs["at"].tolist() == list(range(64))
        else:
            with pytest.raises(FaultError, match=fault):
                simulate(kernel, Launch(grid_x=1, block_x=32), call)
