"""Instructions, basic blocks and loops of small kernels whose machine code can be told beforehand."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.control_flow import natural_loops
from perfmodel.machine_code.opcodes import MNEMONICS, SASS_CLASSES, SYNONYMS
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.executed_profile import executable
from perfmodel.simulator.execution import largest_loop_bytes

from .mix import count, loops

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


def compiled(source: str, name: str, architecture: str) -> CompiledKernel:
    return compile_kernel(CompileRequest(source=source, kernel=name, file_name=f"{name}.cu"), architecture)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_mix_of_a_chain(architecture: str) -> None:
    kernel = compiled(CHAIN, "chain", architecture)
    assert count(kernel, "fp32_fma") == 40
    for name in ("global_load", "global_store", "shared_load", "shared_store"):
        assert count(kernel, name) == count(kernel, name, 16) == 1
    assert count(kernel, "barriers") == 1
    assert loops(kernel) == {}


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_nested_loops(architecture: str) -> None:
    kernel = compiled(NESTED, "nested", architecture)
    outer, inner = sorted(loops(kernel).values(), key=len, reverse=True)
    assert inner < outer
    blocks = read_machine_code(kernel).blocks
    size = sum(16 * len(blocks[index].instructions) for index in outer)
    assert largest_loop_bytes(executable(kernel)[0], 0) == size < kernel.resources.code_bytes


@pytest.mark.compiler
def test_before_volta_loops_have_their_part_of_the_instructions() -> None:
    kernel = compiled(NESTED, "nested", "sm_61")
    code = executable(kernel)[0]
    assert 0 < largest_loop_bytes(code, 6400) < largest_loop_bytes(code, 12800) < 12800


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_names_by_the_table_are_those_of_the_disassembler(architecture: str) -> None:
    source = Path(__file__).with_name("sass_corpus.cu").read_text(encoding="utf-8")
    seen = set()
    for kernel in ("widths", "special_functions", "halves", "atomics", "warp_functions"):
        for instruction in read_machine_code(compiled(source, kernel, architecture)).instructions:
            assert MNEMONICS[instruction.word & 0x1FF] in (instruction.name, SYNONYMS.get(instruction.name))
            seen.add(instruction.class_name)
    assert len(seen) > 12
    assert seen <= set(SASS_CLASSES)


Edges = list[tuple[int, ...]]


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    """Successors of random blocks, of which every one but the last falls through or branches anywhere."""
    blocks = draw(st.integers(2, 9))
    jumps = draw(st.lists(st.tuples(st.integers(0, blocks - 1), st.integers(0, blocks - 1)), max_size=6))
    after: list[list[int]] = [[block + 1] for block in range(blocks)]
    for tail, head in jumps:
        after[tail].append(head)
    return [tuple(dict.fromkeys(one)) for one in after]


@given(graphs())
def test_a_loop_is_the_blocks_that_reach_its_header_without_leaving_what_the_header_dominates(after: Edges) -> None:
    edges = [(tail, head) for tail, heads in enumerate(after) for head in heads if head < len(after)]
    graph = nx.DiGraph(edges)

    def dominates(header: int, block: int) -> bool:
        return header in (0, block) or not nx.has_path(graph.subgraph(set(graph) - {header}), 0, block)

    expected: dict[int, set[int]] = {}
    for tail, header in edges:
        if dominates(header, tail):
            inside = nx.ancestors(graph.subgraph(set(graph) - {header}), tail) | {tail} if tail != header else set()
            expected[header] = expected.get(header, {header}) | {b for b in inside if dominates(header, b)}
    assert {header: set(blocks) for header, blocks in natural_loops(after).items()} == expected
