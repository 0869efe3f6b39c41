"""What a user's project says of a source: its compiler flags, and where its headers are."""

import json
from pathlib import Path

import pytest

from perfmodel.compiler.kernel_names import kernels_of
from perfmodel.errors import InputError
from perfmodel.sources.compile_commands import read_compile_flags
from perfmodel.sources.kernel_source import SourceKind, read_kernel_source


def commands(folder: Path, **entry: object) -> Path:
    path = folder / "compile_commands.json"
    path.write_text(json.dumps([{"directory": str(folder / "build"), **entry}]))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("build", "include", "src", "third"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "k.cu").write_text("__global__ void k() { }\n")
    return tmp_path


def test_flags_that_decide_the_device_code_are_kept(project: Path) -> None:
    (project / "build" / "more.rsp").write_text("-isystem ../third")
    path = commands(
        project,
        file="../src/k.cu",
        command="nvcc -ccbin g++ -I../include -I ../none -DN=4 -DFAST -D 'NAME=\"a b\"' --options-file more.rsp -std=c++20 "
        "-gencode=arch=compute_80,code=sm_80 --use_fast_math -Xcompiler -fopenmp -O3 -G -x cu -c ../src/k.cu -o k.o",
    )
    flags = read_compile_flags(path, project / "src" / "k.cu")
    assert [folder.resolve() for folder in flags.include] == [project / "include", project / "third"]
    assert flags.defines == (("N", "4"), ("FAST", 1), ("NAME", '"a b"'))
    assert flags.options == ("-std=c++20", "--use_fast_math", "-Xcompiler=-fopenmp")


def test_a_source_without_an_entry_is_named(project: Path) -> None:
    path = commands(project, file="../src/k.cu", arguments=["nvcc", "-DA"])
    assert read_compile_flags(path, project / "src" / "k.cu").defines == (("A", 1),)
    with pytest.raises(InputError, match=r"no entry for .*other.cu; its CUDA files: k.cu"):
        read_compile_flags(path, project / "src" / "other.cu")
    path.write_text("{")
    with pytest.raises(InputError, match=r"compile_commands\.json"):
        read_compile_flags(path, project / "src" / "k.cu")


def test_headers_of_the_project_are_found_where_they_lie_once(project: Path) -> None:
    source = project / "src" / "k.cu"
    source.write_text('#include "common/a.h"\n#include <vector>\n#include <cuda_fp16.h>\n#include <absent.h>\n')
    (project / "include" / "common").mkdir()
    (project / "include" / "common" / "a.h").write_text("#include <b.h>\n")
    (project / "third" / "b.h").write_text("#include <curves.h>\n#include <cuda_common.h>\n#include <cufft.h>\n")
    for name in ("curves.h", "cuda_common.h"):  # the project's, though CUDA's begin alike
        (project / "third" / name).write_text("")
    found = read_kernel_source(source)
    assert found.include == (project / "include", project / "third")
    assert found.note == "headers of the project are taken from ../include, ../third"
    (project / "build" / "b.h").write_text("")  # two of this name: the user chooses
    assert read_kernel_source(source).include == (project / "include",)
    assert read_kernel_source(source, [project / "third"]).include == (project / "third", project / "include")


def test_nothing_is_looked_for_outside_of_the_project(project: Path) -> None:
    (project / "src" / ".git").mkdir()
    (project / "include" / "a.h").write_text("")
    (project / "src" / "k.cu").write_text('#include "a.h"\n')
    assert read_kernel_source(project / "src" / "k.cu").include == ()


def test_a_header_with_links_to_it_is_one_header_and_sought_up_to_the_root(project: Path) -> None:
    deep = project / "src" / "a" / "b" / "c" / "d" / "e" / "f"
    deep.mkdir(parents=True)
    source = deep / "k.cu"
    source.write_text("#include <linked.h>\n__global__ void k() { }\n")
    (project / "third" / "linked.h").write_text("")
    (project / "include" / "linked.h").symlink_to(project / "third" / "linked.h")
    assert not read_kernel_source(source).include
    (project / ".git").mkdir()
    assert [folder.name for folder in read_kernel_source(source).include] == ["include"]
    (project / "build" / "linked.h").write_text("")
    assert not read_kernel_source(source).include


def test_headers_that_include_each_other_are_read_once(project: Path) -> None:
    (project / "src" / "a.h").write_text('#pragma once\n#include "../include/b.h"\n')
    (project / "include" / "b.h").write_text('#pragma once\n#include "../src/a.h"\n' + f'#include "{"x" * 5000}.h"\n')
    source = project / "src" / "k.cu"
    source.write_text('#include "a.h"\n__global__ void k() { }\n')
    assert len(read_kernel_source(source).texts()) == 3


def test_a_folder_that_hides_headers_of_cuda_is_not_taken(project: Path) -> None:
    (project / "src" / "k.cu").write_text("#include <other_vendor.h>\n")
    (project / "include" / "other_vendor.h").write_text("")
    assert read_kernel_source(project / "src" / "k.cu").include == (project / "include",)
    path = commands(project, file="../src/k.cu", command="nvcc -I../include -I../third")
    assert len(read_compile_flags(path, project / "src" / "k.cu").include) == 2
    (project / "include" / "cuda.h").write_text("#include <cuda.h>\n")
    assert [folder.name for folder in read_compile_flags(path, project / "src" / "k.cu").include] == ["third"]
    assert read_kernel_source(project / "src" / "k.cu").include == ()


def test_ptx_may_begin_with_comments_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text("// first\n/**\n * a .entry none()\n */\n.version 8.0 // PTX\n.target sm_90\n")
    assert read_kernel_source(path).kind is SourceKind.PTX
    assert kernels_of(path.read_text()) == ()
    path.write_text("// .version 8.0\nvoid f();\n")
    with pytest.raises(InputError, match=r"k\.ptx is no PTX: it does not begin with \.version"):
        read_kernel_source(path)
