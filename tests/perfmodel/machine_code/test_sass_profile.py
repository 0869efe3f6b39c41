"""Instruction mix, basic blocks and loops of small kernels whose machine code can be told beforehand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.core.constants import INSTRUCTION_BYTES
from perfmodel.errors import InputError
from perfmodel.machine_code.code_profile import profile_code, profile_of
from perfmodel.machine_code.control_flow import ControlFlow
from perfmodel.machine_code.estimate import classify, estimate_loops, estimate_mix
from perfmodel.machine_code.loops import natural_loops
from perfmodel.machine_code.opcodes import SASS_CLASSES

ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")

NESTED = """
extern "C" __global__ void nested(const float *a, float *out, int n, int m)
{
    float sum = 0.0f;
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        out[i] = sum;
        int j = 0;
#pragma unroll 1
        do
            sum = sum * a[j] + a[j];
        while (++j < m);
    }
    out[threadIdx.x] = sum;
}
"""
CHAIN = """
extern "C" __global__ void chain(const float4 *a, float4 *out)
{
    __shared__ float4 patch[32];
    float4 v = a[threadIdx.x];
    float x = v.x;
#pragma unroll
    for (int i = 0; i < 40; i++)
        x = x * v.y + v.z;
    patch[threadIdx.x] = make_float4(x, x, x, x);
    __syncthreads();
    out[threadIdx.x] = patch[31 - threadIdx.x];
}
"""


def request(source: str, name: str) -> CompileRequest:
    return CompileRequest(source=source, kernel=name, file_name=f"{name}.cu")


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_mix_of_a_chain(architecture: str) -> None:
    profile = profile_of(compile_kernel(request(CHAIN, "chain"), architecture))
    assert not profile.estimated
    assert profile.count("fp32_fma") == 40
    assert profile.count("global_load") == profile.count("global_load", 16) == 1
    assert (
        profile.count("shared_store", 16) == profile.count("shared_load", 16) == profile.count("global_store", 16) == 1
    )
    assert profile.count("barriers") == 1
    assert profile.loops == ()
    assert profile.largest_loop_bytes == 0
    assert profile.instructions == sum(entry.instructions for entry in profile.mix)
    assert profile.instructions * INSTRUCTION_BYTES <= profile.straight_line_bytes < profile.code_bytes


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_nested_loops(architecture: str) -> None:
    profile = profile_of(compile_kernel(request(NESTED, "nested"), architecture))
    outer = [loop for loop in profile.loops if loop.depth == 1]
    inner = [loop for loop in profile.loops if loop.depth == 2]
    assert len(outer) == len(inner) == 1
    assert profile.loops[inner[0].parent or 0] == outer[0]
    assert set(inner[0].blocks) < set(outer[0].blocks)
    assert 0 < inner[0].code_bytes < outer[0].code_bytes < profile.code_bytes
    assert profile.largest_loop_bytes == outer[0].code_bytes
    assert outer[0].code_bytes + profile.straight_line_bytes <= profile.code_bytes


@pytest.mark.compiler
def test_before_volta_the_mix_is_estimated_from_ptx() -> None:
    profile = profile_of(compile_kernel(request(NESTED, "nested"), "sm_61"))
    assert profile.estimated
    assert profile.decoded is None
    assert profile.count("fp32_fma") == 1
    assert profile.count("global_load", 4) == 1
    assert profile.count("global_store", 4) == 2
    assert [loop.depth for loop in profile.loops] == [1, 2]
    assert 0 < profile.loops[1].code_bytes < profile.loops[0].code_bytes < profile.code_bytes


def test_padding_after_the_last_exit_is_code_but_not_mix() -> None:
    exit_instruction = "4d790000000000000000800300ea0f00"
    no_operation = "1879000000000000000000000 0c00f00".replace(" ", "")
    profile = profile_code(bytes.fromhex(exit_instruction + 7 * no_operation), "sm_75")
    assert profile.code_bytes == 8 * 16
    assert profile.instructions == profile.count("control") == 1


@pytest.mark.parametrize(("code", "architecture"), [(b"\0" * 15, "sm_80"), (b"\0" * 16, "hopper")])
def test_code_that_cannot_be_decoded_is_named(code: bytes, architecture: str) -> None:
    with pytest.raises(InputError, match=r"15 bytes|hopper"):
        profile_code(code, architecture)


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("ld.global.nc.v4.f32", ("global_load", 16)),
        ("ld.f64", ("global_load", 8)),
        ("st.shared.v2.b16", ("shared_store", 4)),
        ("ld.const.f32", ("constant_load", 4)),
        ("ld.param.u64", ("integer", 0)),
        ("atom.shared.add.u32", ("atomics", 0)),
        ("red.global.add.f64", ("global_reduction", 8)),
        ("fma.rn.f32", ("fp32_fma", 0)),
        ("fma.rn.f16x2", ("fp16", 0)),
        ("fma.rn.f64", ("fp64", 0)),
        ("mad.lo.s32", ("integer", 0)),
        ("ex2.approx.ftz.f32", ("special_function", 0)),
        ("cvt.rn.f32.s32", ("conversion", 0)),
        ("bar.sync", ("barriers", 0)),
        ("shfl.sync.bfly.b32", ("shuffles", 0)),
        ("cp.async.cg.shared.global", ("async_copy", 0)),
        ("cp.async.wait_group", ("control", 0)),
        ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", ("tensor", 0)),
        ("bra.uni", ("control", 0)),
    ],
)
def test_ptx_classes(opcode: str, expected: tuple[str, int]) -> None:
    assert classify(opcode) == expected
    assert expected[0] in SASS_CLASSES


def test_estimate_of_loops_by_their_share_of_the_text() -> None:
    ptx = "mov.u32 %r1, 0;\n$L1:\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra $L1;\nadd.s32 %r1, %r1, 1;\nret;\n"
    assert estimate_mix(ptx) == (("control", 0, 2), ("integer", 0, 3))
    (loop,) = estimate_loops(ptx, 600)
    assert loop.code_bytes == 600 * 3 // 6  # add, setp and bra of six instructions


@st.composite
def graphs(draw: st.DrawFn) -> ControlFlow:
    """Random control flow in which every block but the last falls through or branches anywhere."""
    blocks = draw(st.integers(2, 9))
    edges = [(block, block + 1) for block in range(blocks - 1)]
    edges += draw(st.lists(st.tuples(st.integers(0, blocks - 1), st.integers(0, blocks - 1)), max_size=6))
    first = np.arange(blocks)
    return ControlFlow(
        first=first,
        stop=first + 1,
        edges=tuple(dict.fromkeys(edges)),
        calls=(),
        entries=(0,),
        indirect=(),
        reachable=np.ones(blocks, np.bool_),
    )


@given(graphs())
def test_a_loop_is_the_blocks_that_reach_its_header_without_leaving_what_the_header_dominates(
    flow: ControlFlow,
) -> None:
    graph = nx.DiGraph(flow.edges)

    def dominates(header: int, block: int) -> bool:
        return header in (0, block) or not nx.has_path(graph.subgraph(set(graph) - {header}), 0, block)

    expected: dict[int, set[int]] = {}
    for tail, header in flow.edges:
        if dominates(header, tail):
            inside = nx.ancestors(graph.subgraph(set(graph) - {header}), tail) | {tail} if tail != header else set()
            expected[header] = expected.get(header, {header}) | {b for b in inside if dominates(header, b)}
    assert {loop.header: set(loop.blocks) for loop in natural_loops(flow)} == expected
