"""Flags that a project states beside a source: commands of a build, and Makefiles, which are read and not executed."""

import json
from pathlib import Path

import pytest

from perfmodel.sources.project_flags import project_flags

KERNEL = "#ifdef DOUBLE\n#endif\n__global__ void k(float *x) { x[threadIdx.x] = N + M; }\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("src", "common", "build"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "k.cu").write_text(KERNEL)
    (tmp_path / "src" / "other.cu").write_text(KERNEL)
    return tmp_path


def stated(project: Path, makefile: str) -> str:
    (project / "src" / "Makefile").write_text(makefile)
    return project_flags(project / "src" / "k.cu").note


@pytest.mark.parametrize(
    ("makefile", "note"),
    [
        ("k: k.cu\n\tnvcc -DN=4 -DUNUSED=1 -I../common -I../none -O3 k.cu -o k\n", "-DN=4 -I../common"),
        ("NVCC ?= nvcc\nF = -DN=$(SIZE) \\\n  -DM=2\nSIZE = 8\n%.o: %.cu\n\t$(NVCC) $(F) -c $< -o $@\n", "-DN=8 -DM=2"),
        ("S := k.cu\nk: $(S)\n\tnvcc -use_fast_math -Xcompiler -Wall -std=c++11 $^\n", "-use_fast_math"),
        ("all: $(OBJ:.o=.cu)\n\tnvcc -DN=4 $^\nOBJ = k.o\n", "-DN=4"),
        (".cu.o:\n\tnvcc -DN=4 -c $<\n", "-DN=4"),
        ("k: $(wildcard *.cu)\n\tnvcc -DN=4 -DM=$(shell date) $^\n", "-DN=4"),
        (
            "ifeq ($(P),double)\nF += -DDOUBLE\nelse ifdef Q\nF += -DM=1\nelse\nF += -DM=2\nendif\nk: k.cu\n\tnvcc $(F) $<\n",
            "-DM=2",
        ),
        ("P = double\nifeq ($(P),double)\nF += -DDOUBLE\nendif\nk: k.cu\n\tnvcc $(F) $<\n", "-DDOUBLE"),
        ("include ../common.mk\nk: k.cu; $(CC) -DM=$(M) $<\n", "-DM=7"),
    ],
    ids=lambda text: None,
)
def test_what_a_makefile_compiles_the_file_with_is_taken(project: Path, makefile: str, note: str) -> None:
    (project / "common.mk").write_text("CC = /opt/bin/nvcc\nM = 7 # as in the paper\n")
    assert stated(project, makefile) == f"flags of Makefile: {note}"


@pytest.mark.parametrize(
    "makefile",
    [
        "k: other.cu\n\tnvcc -DN=4 other.cu -o k\n",  # of another file
        "k: k.o\n\tnvcc -DN=4 $^ -o k\n",  # links
        "k: k.cu\n\tclang++ -DN=4 k.cu\n",
        "k: k.cu\n\tnvcc -DN=4 k.cu\nk2: k.cu\n\tnvcc -DN=5 k.cu\n",  # two values
        "release: k.cu\n\tnvcc k.cu\ndebug: k.cu\n\tnvcc -DN=4 k.cu\n",
        "ifeq ($(shell uname),Linux)\nF = -DN=4\nendif\nk: k.cu\n\tnvcc $(F) k.cu\n",  # not known without executing
        "A = $(B)\nB = $(A)\nk: k.cu\n\tnvcc -DN=$(A) k.cu\n",
        "k: k.cu\n\tnvcc -DNAME='k.cu\n",
    ],
)
def test_what_is_not_certain_is_left_to_the_user(project: Path, makefile: str) -> None:
    assert stated(project, makefile) == ""


def test_nothing_of_a_makefile_is_executed(project: Path) -> None:
    stated(project, f"X := $(shell touch {project}/made)\nk: k.cu\n\tnvcc -D$(shell touch {project}/made) k.cu\n")
    assert not (project / "made").exists()


def test_the_commands_of_a_build_come_before_a_makefile(project: Path) -> None:
    assert stated(project, "k: k.cu\n\tnvcc -DN=4 k.cu\n") == "flags of Makefile: -DN=4"
    entry = {"directory": str(project), "file": "src/k.cu", "command": "nvcc -DN=5 -std=c++20 -c src/k.cu"}
    (project / "src" / "build").mkdir()
    path = project / "src" / "build" / "compile_commands.json"
    path.write_text(json.dumps([entry]))
    found = project_flags(project / "src" / "k.cu")
    assert found.flags.defines == (("N", "5"),)
    assert found.note == "flags of build/compile_commands.json: -DN=5 -std=c++20"
    path.write_text(json.dumps([{**entry, "file": "src/other.cu"}]))
    assert project_flags(project / "src" / "k.cu").note == "flags of Makefile: -DN=4"
    (project / "src" / "Makefile").rename(project / "Makefile")
    assert project_flags(project / "src" / "k.cu").note == ""  # here k.cu is another file than src/k.cu
    (project / "Makefile").write_text("VPATH = common:src\nobj/%.o: %.cu $(HEADERS)\n\tnvcc -DN=4 -c $<\n")
    assert project_flags(project / "src" / "k.cu").note == "flags of ../Makefile: -DN=4"
