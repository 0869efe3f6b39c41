import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.user.space_file import parse_space, read_space_file

SPACE = """
kernel = "conv<{R},{KIND}>"
grid = ["ceil_div(N, BLOCK * TILE)", 2]
block = "BLOCK"
shared_bytes = "4 * PITCH"
arguments = ["f32[N]", "f32[N]=0", "i32=N"]
constraints = ["BLOCK * TILE <= 512"]
include = ["common"]
options = ["--use_fast_math"]

[sizes]
N = 1000
R = 2

[tune]
BLOCK = [32, 64]
TILE = [1, 2]
KIND = ["float", "double"]

[macros]
WIDE = "BLOCK * TILE"
PITCH = "WIDE + 1 if BLOCK == 32 else WIDE"

[contents]
weights = "f32[2 * R + 1]"
"""


@pytest.mark.parametrize(
    "constraints",
    [
        [],
        ["PITCH < 64"],
        ["KIND == 'float'", "N % WIDE == 0 or TILE == 1"],
        ["N == 1000", "R > 2"],
        ["TILE < BLOCK", "0"],
    ],
)
def test_places_of_what_meets_the_constraints_are_those_of_all_that_do(constraints: list[str]) -> None:
    stated = SPACE.replace('["BLOCK * TILE <= 512"]', json.dumps(constraints))
    space = parse_space(stated, "s.toml", Path("folder"))
    every = [dict(zip(space.tune, values, strict=True)) for values in product(*space.tune.values())]
    meeting = [all(one.value(space.names(tuned)) for one in space.constraints) for tuned in every]
    assert space.allowed_places().tolist() == np.flatnonzero(meeting).tolist()


def test_a_space_names_values_and_expressions() -> None:
    space = parse_space(SPACE, "s.toml", Path("folder"))
    names = space.names({"BLOCK": 32, "TILE": 2, "KIND": "double"})
    assert names == {"N": 1000, "R": 2, "BLOCK": 32, "TILE": 2, "KIND": "double", "WIDE": 64, "PITCH": 65}
    assert [part.integer(names) for part in space.grid] == [16, 2, 1]  # ceil(1000 / 64)
    assert [part.integer(names) for part in space.block] == [32, 1, 1]
    assert space.shared_bytes.integer(names) == 260
    assert space.kernel_name(names) == "conv<2,double>"
    assert space.include == (Path("folder/common"),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('block = "BLOCK"', 'blocks = "BLOCK"', "unknown key 'blocks'"),
        ('block = "BLOCK"', "", "block is missing"),
        ('block = "BLOCK"', 'block = "BLOC"', "block uses the unknown name 'BLOC'"),
        ('block = "BLOCK"', 'block = ["BLOCK", 1, 1, 1]', "of length <= 3"),
        ('block = "BLOCK"', "block = true", "block = True must be"),
        ('block = "BLOCK"', 'block = "open(1)"', "calls 'open'"),
        ("TILE = [1, 2]", "TILE = []", "tune.TILE = [] must be a list of length >= 1"),
        ("TILE = [1, 2]", "TILE = 3", "tune.TILE = 3 must be a list"),
        ("TILE = [1, 2]", "TILE = [1, 1]", "twice"),
        ("TILE = [1, 2]", "TILE = [[1]]", "tune.TILE[0] = [1] must be"),
        ("TILE = [1, 2]", "TILE = [1]\nN = [1]", "more than one of sizes, tune, tables and macros"),
        ('WIDE = "BLOCK * TILE"', 'WIDE = "PITCH"', "macros.WIDE uses the unknown name 'PITCH'"),
        ('"conv<{R},{KIND}>"', '"conv<{Q}>"', "kernel uses the unknown name 'Q'"),
        ('"conv<{R},{KIND}>"', "5", "kernel = 5 must be a text"),
        ('"i32=N"]', '"i33=N"]', "arguments: argument 'i33=N'"),
        ('"i32=N"]', "5]", "arguments[2] = 5 must be a text"),
        ("weights =", '"a b" =', "contents: keys 'a b' must each be"),
        ("[sizes]", "[[sizes]]", "sizes = "),
        ('options = ["--use_fast_math"]', 'options = "-x"', "options = '-x' must be a list"),
        ("[tune]", "[tune", "s.toml"),
        ("[macros]", "[tables]\nT = [1, 2]\n[macros]", "tables.T must have 8 values"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, message: str) -> None:
    assert old in SPACE
    with pytest.raises(InputError) as caught:
        parse_space(SPACE.replace(old, new), "s.toml", Path())
    assert str(caught.value).startswith("space s.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_has_a_value_for_each_combination() -> None:
    space = parse_space(SPACE.replace("[macros]", "[tables]\nT = [0, 1, 2, 3, 4, 5, 6, 7]\n[macros]"), "s.toml", Path())
    assert space.names({"BLOCK": 64, "TILE": 1, "KIND": "double"})["T"] == 5  # 1 * 4 + 0 * 2 + 1
    with pytest.raises(InputError, match="BLOCK=7 is none of the tuned values 32, 64"):
        space.names({"BLOCK": 7, "TILE": 1, "KIND": "double"})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml"):
        read_space_file(tmp_path / "none.toml")
