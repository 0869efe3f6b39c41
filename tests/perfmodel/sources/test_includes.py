from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.sources.includes import inlined_source, without_unused_standard_headers

pytestmark = pytest.mark.compiler


def test_own_headers_are_put_in_place_and_lines_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "own.cuh").write_text("#define N 4\n__device__ int f() { return N; }\n")
    found = inlined_source('int a;\n#include "own.cuh"\nint b;\n', "k.cu", tmp_path, ())
    assert found.split("\n") == [
        "int a;",
        '#line 1 "own.cuh"',
        "#define N 4",
        "__device__ int f() { return N; }",
        "",
        '#line 3 "k.cu"',
        "int b;",
        "",
    ]


def test_a_header_with_pragma_once_is_put_in_place_once(tmp_path: Path) -> None:
    (tmp_path / "one.cuh").write_text("#pragma once\nint one;\n")
    (tmp_path / "two.cuh").write_text('#include "one.cuh"\nint two;\n')
    found = inlined_source('#include "one.cuh"\n#include "two.cuh"\n', "k.cu", tmp_path, ())
    assert found.count("int one;") == 1
    assert found.count("int two;") == 1


def test_include_folders_are_searched_for_both_forms(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.cuh").write_text("int a;\n")
    for form in ('"lib/a.cuh"', "<lib/a.cuh>"):
        assert "int a;" in inlined_source(f"#include {form}\n", "k.cu", None, (tmp_path,))


def test_headers_of_the_host_go_and_those_of_cuda_stay() -> None:
    source = "#include <iostream>\n#include <vector>\n#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#include <sys/time.h>\n"
    assert inlined_source(source, "k.cu", None, ()).split() == ["#include", "<cuda_fp16.h>"]


def test_a_missing_own_header_is_left_for_the_compiler_to_name() -> None:
    assert inlined_source('#include "missing.cuh"\n', "k.cu", None, ()) == '#include "missing.cuh"\n'


def test_an_include_in_a_comment_or_text_is_none() -> None:
    source = '// #include <vector>\n/*\n#include <vector>\n*/\nconst char *t = "#include <vector>";\n'
    assert inlined_source(source, "k.cu", None, ()) == source


def test_headers_that_include_themselves_end(tmp_path: Path) -> None:
    (tmp_path / "self.cuh").write_text('#include "self.cuh"\n')
    with pytest.raises(InputError, match="nested deeper"):
        inlined_source('#include "self.cuh"\n', "k.cu", tmp_path, ())


def test_standard_headers_stay_only_where_device_code_names_their_namespace() -> None:
    include = "#include <limits>\n"
    assert without_unused_standard_headers(include + "__device__ int x;") == "\n__device__ int x;"
    for code in ("float f = std::max(1, 2);", "using namespace std;"):
        assert without_unused_standard_headers(include + code) == include + code
    assert without_unused_standard_headers(include + "cuda::std::array<int, 3> x; // std::") != include
