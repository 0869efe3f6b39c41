"""Single instructions and small programs in handwritten PTX."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.errors import SimulationError
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Mode

from .handwritten import HEADER, kernel, run, words


def test_jump_tables() -> None:
    body = """
    and.b32 %r2, %r1, 3;
targets: .branchtargets zero, one, two, zero;
    brx.idx %r2, targets;
zero: mov.u32 %r3, 100; bra done;
one: mov.u32 %r3, 200; bra done;
two: mov.u32 %r3, 300;
done: st.global.u32 [%rd3], %r3;
    """
    assert words(body) == [(100, 200, 300, 100)[t % 4] for t in range(32)]


def test_an_index_beyond_a_jump_table_is_refused() -> None:
    with pytest.raises(SimulationError, match="jump table"):
        run("targets: .branchtargets a; brx.idx %r1, targets; a: st.global.u32 [%rd3], %r1;")


def test_carry_chains() -> None:
    body = """
    mov.u32 %r2, 0xffffffff;
    add.cc.u32 %r3, %r2, %r1;
    addc.u32 %r4, 0, 5;
    sub.cc.u32 %r5, 3, %r1;
    subc.u32 %r6, 7, 0;
    mad.lo.u32 %r7, %r4, 100, %r6;
    st.global.u32 [%rd3], %r7;
    """
    assert words(body) == [(5 + (t > 0)) * 100 + 7 - (t > 3) for t in range(32)]


def test_scopes_hide_names() -> None:
    body = """
    { .reg .b32 a; mov.u32 a, 7; { .reg .f32 a; mov.f32 a, 0f40000000; cvt.rzi.u32.f32 %r2, a; } add.u32 %r3, a, %r2; }
    { .reg .b32 a; mov.u32 a, 100; add.u32 %r3, %r3, a; }
    st.global.u32 [%rd3], %r3;
    """
    assert words(body)[0] == 7 + 2 + 100


def test_guards_leave_the_old_value() -> None:
    body = """
    mov.u32 %r2, 5;
    setp.lt.u32 %p1, %r1, 10;
    @%p1 mov.u32 %r2, 6;
    @!%p1 add.u32 %r2, %r2, 1000;
    @%p1 st.global.u32 [%rd3], %r2;
    @!%p1 st.global.u32 [%rd3], %r2;
    """
    assert words(body) == [6] * 10 + [1005] * 22


def test_a_guarded_call_and_a_guarded_return() -> None:
    function = """
.func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r<9>;
    .reg .pred %p<2>;
    ld.param.u32 %r1, [value];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    setp.gt.u32 %p1, %r1, 20;
    @%p1 ret;
    add.u32 %r2, %r2, 1;
    st.param.b32 [result], %r2;
    ret;
}
"""
    body = """
    mov.u32 %r5, 9;
    setp.gt.u32 %p3, %r1, 3;
    { .param .b32 given; .param .b32 back;
    st.param.b32 [given], %r1;
    st.param.b32 [back], %r5;
    @%p3 call (back), twice, (given);
    ld.param.b32 %r6, [back]; }
    st.global.u32 [%rd3], %r6;
    """
    assert words(body, before=function) == [9 if t <= 3 else 2 * t + (t <= 20) for t in range(32)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("fns.b32 %r2, 0x2C, 0, 2;", 3),
        ("fns.b32 %r2, 0x2C, 5, -2;", 3),
        ("fns.b32 %r2, 0x2C, 4, 0;", 2**32 - 1),
        ("mov.b32 %r2, {%h1, %h2};", 0),
        ("mov.b64 %rd5, 0x1122334455667788; mov.b64 {%r3, %r2}, %rd5;", 0x11223344),
        ("testp.subnormal.f32 %p1, 0f00000001; selp.u32 %r2, 1, 0, %p1;", 1),
        ("copysign.f32 %f1, 0fBF800000, 0f40000000; mov.b32 %r2, %f1;", 0xC0000000),
        ("setp.eq.u32 %p1|%p2, 1, 2; selp.u32 %r2, 7, 8, %p2;", 7),
        ("mov.u32 %r2, WARP_SZ;", 32),
        ("mov.u32 %r2, %nsmid;", 1),
    ],
)
def test_one_instruction(code: str, expected: int) -> None:
    assert words(f"{code} st.global.u32 [%rd3], %r2;")[0] == expected


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f2};", "counted, not executed"),
        ("wgmma.fence.sync.aligned;", "counted, not executed"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r2, %r3, %r4, %r5}, [%r1];", "counted, not executed"),
        ("cp.async.bulk.commit_group;", "not executed"),
        ("mbarrier.init.shared.b64 [%rd1], 1;", "counted, not executed"),
        ("frobnicate.u32 %r1, %r2;", "instruction is not supported"),
        ("add.u32 %r1, %r2;", "needs more than 2 operands"),
        ("add.q32 %r1, %r2, %r3;", "type is missing or not supported"),
        ("add.u32 %r1, %r2, %nothing;", "operand '%nothing' is not supported"),
        ("add.f32 %f1, !%f2, %f3;", "operand '!%f2' is not supported"),
        ("add.u32 %rd1, %r2;", "needs more than"),
        ("mov.u32 %p1, %r1;", "do not fit"),
        ("bra nowhere;", "label nowhere is missing"),
        ("call missing;", "function missing is not in the module"),
        ("call %rd1, (%r1), prototype;", "indirect calls are not supported"),
        ("bar.sync %r1;", "must be a literal"),
        ("ld.global.v4.f32 {%f1, %f2}, [%rd1];", "needs 4 destinations"),
        ("st.const.u32 [%rd1], %r1;", "cannot be written"),
    ],
)
def test_what_is_refused_names_instruction_and_line(code: str, reason: str) -> None:
    text = kernel(f"\n{code}")
    line = text[: text.index(code)].count("\n") + 1
    with pytest.raises(SimulationError, match=f"^PTX line {line}: .*{reason}") as caught:
        run(f"\n{code}")
    assert code.split()[0].rstrip(";") in str(caught.value)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.rn.f32x2 %rd6, %rd4, %rd5;", (1.5 + 0.25, -2.0 + 8.0)),
        ("sub.rn.f32x2 %rd6, %rd4, %rd5;", (1.5 - 0.25, -2.0 - 8.0)),
        ("mul.rn.ftz.f32x2 %rd6, %rd4, %rd5;", (1.5 * 0.25, -2.0 * 8.0)),
        ("fma.rn.f32x2 %rd6, %rd4, %rd5, %rd4;", (1.5 * 0.25 + 1.5, -2.0 * 8.0 - 2.0)),
    ],
)
def test_two_singles_in_a_register(operation: str, expected: tuple[float, float]) -> None:
    """PTX ISA 9.7.3: ``.f32x2`` works on both halves of a 64-bit register."""
    body = f"""
    mov.b32 %f1, 0f3FC00000; mov.b32 %f2, 0fC0000000; mov.b32 %f3, 0f3E800000; mov.b32 %f4, 0f41000000;
    mov.b64 %rd4, {{%f1, %f2}}; mov.b64 %rd5, {{%f3, %f4}};
    {operation}
    mov.b64 {{%f5, %f6}}, %rd6; st.global.f32 [%rd1], %f5; st.global.f32 [%rd1+4], %f6;"""
    simulation = run(body, threads=1)
    assert simulation.outputs["out"][:2].view(np.float32).tolist() == list(expected)
    counts = simulation.counts
    assert counts.fp32_fma + counts.fp32_other == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("frobnicate.u32 %r2, %r1;", "instruction is not supported"),
        ("sured.b.add.1d.u32.trap [%rd1, {%r1}], %r2;", "use atomics on a buffer instead"),
    ],
)
def test_tracing_passes_over_nothing_that_it_does_not_know(code: str, reason: str) -> None:
    with pytest.raises(SimulationError, match=reason):
        run(code, mode=Mode.TRACE)


def test_another_kernel_may_hold_what_is_not_supported() -> None:
    other = ".entry other() { mma.sync.aligned.m16n8k16 a, b, c; ret; }"
    assert words("st.global.u32 [%rd3], %r1;", before=other)[5] == 5


def test_recursion_is_refused() -> None:
    function = ".func again() { call again; ret; }"
    with pytest.raises(SimulationError, match="recursion is not supported"):
        run("call again;", before=function)


def test_trace_mode_follows_addresses_through_memory() -> None:
    body = """
    .shared .b32 table[32];
    mov.u64 %rd5, table;
    add.s64 %rd6, %rd5, %rd2;
    xor.b32 %r2, %r1, 5;
    st.shared.u32 [%rd6], %r2;
    bar.sync 0;
    ld.shared.u32 %r3, [%rd6];
    shl.b32 %r4, %r3, 3;
    cvt.u64.u32 %rd7, %r4;
    add.s64 %rd8, %rd1, %rd7;
    ld.global.u32 %r5, [%rd8];
    add.u32 %r6, %r5, 1;
    st.global.u32 [%rd3], %r6;
    """
    executed, traced = run(body), run(body, mode=Mode.TRACE)
    assert traced.instructions == executed.instructions
    assert traced.outputs == {}
    load = next(count for count in traced.instructions if count.opcode == "ld.global.u32")
    assert load.sectors == 8  # 32 words, two apart


def test_line_information_follows_inlined_calls() -> None:
    text = (
        HEADER
        + '.file 1 "main.cu"\n.file 2 "header.h"\n.entry k()\n{\n.reg .b32 %r<3>;\n.loc 1 10 3\nmov.u32 %r1, 1;\n'
        + ".loc 2 99 1, function_name $x, inlined_at 1 12 5\nmov.u32 %r2, 2;\nret;\n}\n"
    )
    (block,) = parse_module(text).kernel("k").blocks
    assert [(i.source.file, i.source.line) for i in block.instructions if i.source] == [
        ("main.cu", 10),
        ("main.cu", 12),
        ("main.cu", 12),
    ]


def test_tensor_instructions_are_counted_when_traced() -> None:
    body = """
    .shared .align 16 .b8 tile[2048];
    mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 32, %r2;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r3];
    ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r8, %r9}, [%r3+512];
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r4,%r5,%r6,%r7}, {%r8,%r9}, {%f1,%f2,%f3,%f4};
    st.global.f32 [%rd3], %f1;
    """
    counts = run(body, mode=Mode.TRACE).counts
    assert counts.tensor == 1
    assert counts.shared_load_requests == 2
    assert counts.shared_load_wavefronts == 2 * (4 + 2)  # rows 32 bytes apart: eight rows need two wavefronts
    assert counts.shared_bank_conflicts == 4 + 2
    with pytest.raises(SimulationError, match="counted, not executed"):
        run(body)
    with pytest.raises(SimulationError, match="counted, not executed"):
        run("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r2, %r3}, [%rd1], 16;", mode=Mode.TRACE)
