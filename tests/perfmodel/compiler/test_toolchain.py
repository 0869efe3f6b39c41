"""What is handed to nvcc, which has a shell start its parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfmodel.compiler.nvcc_options import macro_options
from perfmodel.compiler.toolchain import run_compiler
from perfmodel.errors import InputError


@pytest.mark.parametrize(
    "words",
    [
        macro_options([("N", 4), ("A", "$(touch found)")]),
        macro_options([("A", "`touch found`")]),
        macro_options([("A=$(touch found)", 1)]),
        ["a$(touch found).cu"],
        ["-Xcompiler=-I$(touch found)"],
        ["-Xcompiler=-O2;touch found"],
        ["-Xcompiler", "-O2 & touch found"],
        ["--compiler-options", "-I`touch found`"],
    ],
)
def test_what_a_shell_would_read_is_refused(words: Sequence[str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nvcc would let a shell read the '.' in it"):
        run_compiler(["true", *words], tmp_path)


def test_what_nvcc_quotes_is_handed_on(tmp_path: Path) -> None:
    words = ["-I$(folder)", "-DPAIR=std::pair<int\\,int>", "-Xcompiler", "-O2 -Wall", "-DTWO=(1 & 3)", "my file.cu"]
    assert run_compiler(["echo", *words], tmp_path) == (0, " ".join(words) + "\n")
