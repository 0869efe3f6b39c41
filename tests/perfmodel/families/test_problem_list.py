"""Lists of problems in a file."""

from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.problem_list import ListedProblem, read_problems
from perfmodel.families.tiled_conv2d import TiledConv2d

ROOT = Path(__file__).parents[3]
TILED = '[[problem]]\nname = "a"\nfamily = "tiled_conv2d"\nimage_height = 8\nwidth = 9\nfilter_height = 3\nfilter_width = 5\n'


def listed(folder: Path, text: str) -> tuple[ListedProblem, ...]:
    path = folder / "list.toml"
    path.write_text(text)
    return read_problems(path)


def test_problems_come_in_the_order_of_the_file_with_the_defaults_of_their_family(tmp_path: Path) -> None:
    second = '[[problem]]\nname = "b"\nfamily = "conv1d"\nlength = 16\n'
    first = TiledConv2d(height=8, width=9, filter_height=3, filter_width=5)
    assert listed(tmp_path, TILED + second) == (
        ListedProblem(name="a", family="tiled_conv2d", problem=first),
        ListedProblem(name="b", family="conv1d", problem=Conv1d(length=16)),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"needs a table \[\[problem\]\]"),
        ("problem = 3", r"needs a table \[\[problem\]\]"),
        (TILED + "[more]\n", "unknown key 'more'"),
        ('[[problem]]\nname = "a"\n', r'problem 1: needs family = "…"'),
        (TILED.replace("tiled", "tilde"), "problem 'a': unknown family 'tilde_conv2d'; nearest: tiled_conv2d"),
        (TILED + "depth = 3\n", "problem 'a': unknown field 'depth' of tiled_conv2d"),
        (TILED.replace("= 5", "= 4"), "problem 'a': filter_width=4 must be odd"),
        (TILED.replace("= 9", '= "9"'), "problem 'a': .*width"),
        ('[[problem]]\nname = "a"\nfamily = "direct_conv2d"\nheight = 9\n', "needs width"),
        (TILED + TILED.replace("= 9", "= 10"), "two problems are named 'a'"),
        (TILED + TILED.replace('"a"', '"b"'), "two names have the problem TiledConv2d"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        listed(tmp_path, text)
    assert "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    "path", ["examples/problems.toml", "campaigns/problems.toml", "campaigns/campaign-problems.toml"]
)
def test_shipped_lists_have_problems_of_every_family(path: str) -> None:
    families = {one.family for one in read_problems(ROOT / path)}
    assert families == {"conv1d", "direct_conv2d", "pointwise_conv2d", "ssim", "tiled_conv2d"}


def test_the_list_of_more_layers_has_none_of_the_first() -> None:
    first, more = (
        {(one.family, one.problem) for one in read_problems(ROOT / "campaigns" / name)}
        for name in ("problems.toml", "layers.toml")
    )
    assert len(more) == 31
    assert not first & more
