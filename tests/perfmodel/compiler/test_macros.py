"""Macros that are handed to nvcc, which has a shell look at them."""

from __future__ import annotations

import pytest

from perfmodel.compiler.nvcc_options import macro_options
from perfmodel.errors import InputError


@pytest.mark.parametrize("macro", [("A", "$(touch found)"), ("A", "`touch found`"), ("A=$(touch found)", 1)])
def test_what_a_shell_would_replace_is_refused(macro: tuple[str, str | int]) -> None:
    with pytest.raises(InputError, match=r"nvcc takes neither \$ nor ` in a macro"):
        macro_options([("N", 4), macro])
