"""Host code is left out line by line, whatever the text, and in several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perfmodel.compiler.host_code import Extent, without_conditions, without_host_code

_MANY_LINES = """
import gc
from concurrent.futures import ThreadPoolExecutor
from perfmodel.compiler.host_code import Extent, without_host_code

gc.set_threshold(1)
source = "__global__ void k() { }\\n" + "".join(f"int f{n}() {{\\n  return g{n};\\n}}\\n" for n in range(400))
with ThreadPoolExecutor(4) as pool:
    texts = list(pool.map(lambda extent: without_host_code(source, range(2, 1202), extent=extent), [*Extent] * 3))
print(sorted({text.count("g") for text in texts}), {text.count("\\n") for text in texts})
"""


def test_long_sources_are_shortened_in_threads_with_memory_checked() -> None:
    """A library that frees an object of Python too early ends a process whose allocator checks."""
    run = subprocess.run(
        [sys.executable, "-c", _MANY_LINES],
        env={**os.environ, "PYTHONMALLOC": "debug", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "[1] {1201}\n"), run.stderr  # the g of __global__; 1 + 400 * 3 lines


@pytest.mark.parametrize(
    "source",
    [
        "int f( {\n__global__ void k() { }\n",
        'int main() { const char *s = R"(\n',
        "#if 1\nint f() {\n#else\nint f() {\n#endif\n}}}\n",
        "/* é */ void f() { g<<<1\n",
        "",
    ],
)
@pytest.mark.parametrize("extent", Extent)
def test_text_that_is_no_cpp_keeps_its_lines(source: str, extent: Extent) -> None:
    shortened = without_host_code(source, range(1, 10), extent=extent)
    assert shortened.count("\n") == source.count("\n")
    assert shortened.count("__global__") == source.count("__global__")
    assert shortened.count("#") == source.count("#")


@pytest.mark.parametrize(
    ("source", "line", "left"),
    [
        ("template <typename T>\nclass A : public Base<T> {\n  int x;\n};\nint f();", 2, "; int f();"),
        ("class A : public Base {\n  void f();\n  void g();\n};", 2, "class A : public Base { ; void g(); };"),
        ("class A : Base {\n  __device__ void f();\n  none g();\n};", 3, "class A : Base { __device__ void f(); ; };"),
        ("#ifndef GUARD\nint f();\n#endif", 1, "#ifndef GUARD int f(); #endif"),
        ("#if defined(A) && B\nint f();\n#endif", 1, "#if defined(A) && B int f(); #endif"),
        ("#if A && \\\n  B\nint f();\n#endif\nint g();", 3, "#if A && \\ B ; #endif int g();"),
        ("int f(int a,\n#if A && \\\n  B\nint b);\n#else\nnone b);\n#endif", 6, "; #if A && \\ B #else #endif"),
        (  # each branch opens the loop that one brace ends
            "struct A {\n  int f() {\n#ifdef B\n    for (;;) {\n#else\n    for (none;;) {\n#endif\n    }\n    return 1;\n  }\n"
            "};\nstruct C {\n  C() { }\n};",
            6,
            "struct A { ; #ifdef B #else #endif }; struct C { C() { } };",
        ),
        ("HD float f() { return none; }", 1, "HD float f() { return none; }"),
        ("float f() { return none; }", 1, ";"),
    ],
)
def test_what_holds_a_declaration_stays_whole_or_goes_with_it(source: str, line: int, left: str) -> None:
    assert " ".join(without_host_code(source, {line}, macros={"HD"}).split()) == left


def test_functions_that_an_unknown_macro_declares_go_together() -> None:
    """A library of tests that is not installed: the compiler stops at the first use of its macro."""
    tests = "TEST(a, b) {\n  f(1);\n}\nTEST(a, c) {\n  f(2);\n}\nconstexpr int one() { return 1; }\n"
    kernel = "__global__ void k(int *x) { *x = one(); }"
    left = without_host_code(tests + kernel, {1}, extent=Extent.FUNCTIONS).split()
    assert " ".join(left) == f"; ; constexpr int one() {{ return 1; }} {kernel}"


def test_a_condition_that_cannot_be_decided_is_false() -> None:
    text = "#ifdef A\n#if NEWER(1) && \\\n  B\nint f();\n#elif OLDER(2) // why\n#endif\n#endif\n"
    assert without_conditions(text, {3, 5}) == "#ifdef A\n#if 0\n\nint f();\n#elif 0\n#endif\n#endif\n"
    assert without_conditions(text, {1, 4, 6, 90}) == text
