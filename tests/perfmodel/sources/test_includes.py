"""Files that a source includes, and files that include it."""

from pathlib import Path

from perfmodel.sources.includes import including_files


def test_what_a_neighbour_includes_is_not_this_files_matter(tmp_path: Path) -> None:
    fragment, program, other = tmp_path / "fragment.cu", tmp_path / "program.cu", tmp_path / "other.cu"
    fragment.write_text("__global__ void copy(float* out) { out[0] = ONE; }\n")
    program.write_text('#define ONE 1\n#include "fragment.cu"\n')
    other.write_text('#include "table.h"\n#include "fragment.cu"\n')
    (tmp_path / "table.h").write_bytes(b"\0\1")
    assert list(including_files(fragment)) == [program]
