"""Host code is left out line by line, whatever the text, and in several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from perfmodel.compiler.host_code import without_host_code

_MANY_LINES = """
import gc
from concurrent.futures import ThreadPoolExecutor
from perfmodel.compiler.host_code import without_host_code

gc.set_threshold(1)
source = "__global__ void k() { }\\n" + "".join(f"int f{n}() {{\\n  return g{n};\\n}}\\n" for n in range(400))
with ThreadPoolExecutor(4) as pool:
    texts = list(pool.map(lambda statements: without_host_code(source, range(2, 1202), statements=statements), [True, False] * 4))
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
@pytest.mark.parametrize("statements", [True, False])
def test_text_that_is_no_cpp_keeps_its_lines(source: str, statements: bool) -> None:
    shortened = without_host_code(source, range(1, 10), statements=statements)
    assert shortened.count("\n") == source.count("\n")
    assert shortened.count("__global__") == source.count("__global__")
