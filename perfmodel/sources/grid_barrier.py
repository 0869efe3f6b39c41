"""The functions by which Numba synchronises a grid: the driver has them, so that PTX only declares them."""

from __future__ import annotations

import re

_DECLARED = re.compile(r"\.extern\s+\.func[^;{]*?\bcudaCG(?:GetIntrinsicHandle|Synchronize)\b[^;{]*;")
_HEADER = re.compile(r"\.address_size\s+64[^\n]*\n")
_FUNCTIONS = """
.func (.param .b64 handle) cudaCGGetIntrinsicHandle(.param .b32 scope)
{
    .reg .b32 %low, %high;
    .reg .b64 %place;
    mov.u32 %high, %envreg1;
    mov.u32 %low, %envreg2;
    mov.b64 %place, {%low, %high};
    st.param.b64 [handle], %place;
    ret;
}
.func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{
    .reg .pred %other, %first, %before;
    .reg .b32 %a, %b, %c, %arriving, %of_first, %old, %now;
    .reg .b64 %place;
    ld.param.u64 %place, [handle];
    bar.sync 0;
    mov.u32 %a, %tid.x;
    mov.u32 %b, %tid.y;
    mov.u32 %c, %tid.z;
    or.b32 %a, %a, %b;
    or.b32 %a, %a, %c;
    setp.ne.u32 %other, %a, 0;
    @%other bra together;
    mov.u32 %a, %nctaid.x;
    mov.u32 %b, %nctaid.y;
    mov.u32 %c, %nctaid.z;
    mul.lo.u32 %a, %a, %b;
    mul.lo.u32 %a, %a, %c;
    sub.u32 %of_first, 0x80000001, %a;
    mov.u32 %a, %ctaid.x;
    mov.u32 %b, %ctaid.y;
    mov.u32 %c, %ctaid.z;
    or.b32 %a, %a, %b;
    or.b32 %a, %a, %c;
    setp.eq.u32 %first, %a, 0;
    selp.b32 %arriving, %of_first, 1, %first;
    membar.gl;
    atom.add.u32 %old, [%place+4], %arriving;
again:
    ld.volatile.u32 %now, [%place+4];
    xor.b32 %now, %now, %old;
    setp.ge.s32 %before, %now, 0;
    @%before bra again;
    membar.gl;
together:
    bar.sync 0;
    st.param.b32 [result], 0;
    ret;
}
"""
"""The barrier's word counts blocks; the first block adds what flips its highest bit once all others have come."""


def with_grid_barrier(ptx: str) -> str:
    """PTX with bodies of the functions that synchronise a grid, where it declares them; else as it is.

    They do what ``grid.sync()`` does in CUDA C++: the driver hands over the address of a word by two special registers.

    >>> with_grid_barrier(".version 8.0")
    '.version 8.0'
    """
    if _DECLARED.search(ptx) is None:
        return ptx
    return _HEADER.sub(lambda header: header[0] + _FUNCTIONS, _DECLARED.sub("", ptx), count=1)
