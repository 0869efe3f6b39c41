"""NVRTC works in a process of its own: a source that crashes it is an error of one line, and the next one compiles."""

import pytest

from perfmodel.compiler.front_end import compile_apart
from perfmodel.compiler.request import CompileRequest
from perfmodel.compiler.workers import kept_pool
from perfmodel.errors import CompileError

pytestmark = pytest.mark.compiler


def request(source: str, kernel: str) -> CompileRequest:
    return CompileRequest(source=source, kernel=kernel, file_name="k.cu")


def test_a_crash_of_the_compiler_is_one_line_and_the_next_source_compiles() -> None:
    undeclared = "template <int R, typename T> __global__ void conv(U *o) { o[0] = R; }"
    with pytest.raises(CompileError) as caught:
        compile_apart(request(undeclared, "conv<3,float>"), "compute_80")
    assert str(caught.value).startswith(
        "k.cu: the compiler NVRTC crashed (SIGSEGV) at kernel 'conv<3,float>'; correct this first: k.cu:1: "
    )
    assert "\n" not in str(caught.value)
    declared = "template <int R, typename T> __global__ void conv(T *o) { o[0] = R; }"
    assert compile_apart(request(declared, "conv<3,float>"), "compute_80").kernel_name == "_Z4convILi3EfEvPT0_"


def test_what_takes_too_long_is_one_line() -> None:
    lines = "".join(f"x[{place}] = sinf(x[{place + 1}]) * cosf(x[{place + 2}]);\n" for place in range(20_000))
    with pytest.raises(CompileError, match=r"^k.cu: not compiled within 0.05 s$"):
        compile_apart(request("__global__ void k(float *x) {\n" + lines + "}", "k"), "compute_80", time_limit_s=0.05)


def test_the_process_is_kept() -> None:
    source = 'extern "C" __global__ void k() { }'
    compile_apart(request(source, "k"), "compute_80")
    first = kept_pool(1)
    compile_apart(request(source, "k"), "compute_80")
    assert kept_pool(1) is first
