"""PyTorch modules as networks: what is covered, what is named, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.families.conv1d import Conv1d
from perfmodel.networks.importer_torch import import_torch, load_torch_module

from .residual_block import RESIDUAL_EDGES, RESIDUAL_PROBLEMS

torch = pytest.importorskip("torch")
nn = torch.nn


class Residual(nn.Module):
    """Depthwise, pointwise, a shortcut and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8)
        self.project = nn.Conv2d(8, 16, 1)
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2)
        self.drop = nn.Dropout()
        self.head = nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        joined = self.project(self.depthwise(x)) + self.shortcut(x)
        return self.head(torch.flatten(self.drop(joined.mean((2, 3))), 1))


def test_a_residual_block_becomes_a_graph() -> None:
    network = import_torch(Residual(), (4, 8, 20, 20), "residual")
    problems = {layer.name: layer.problem for layer in network.layers}
    assert network.batch == 4
    assert problems == RESIDUAL_PROBLEMS
    assert set(network.graph.edges) == RESIDUAL_EDGES  # dropout and flatten compute nothing


def test_conv1d_and_what_no_family_covers() -> None:
    module = nn.Sequential(
        nn.Conv1d(4, 8, 5, padding="same"),
        nn.ReLU(),
        nn.Conv1d(8, 8, 3, stride=2, padding=1),
        nn.Conv1d(8, 8, 3, dilation=2),
        nn.ConvTranspose1d(8, 4, 4, 2, 1),
        nn.Conv1d(4, 4, 3, padding=1, padding_mode="circular"),
    )
    layers = import_torch(module, (1, 4, 32)).layers
    assert layers[0].problem == Conv1d(in_channels=4, out_channels=8, length=32, filter_width=5, padding=2)
    assert [layer.uncovered for layer in layers[1:]] == [
        "ReLU: no family computes it",
        "stride 2 with 1 spatial axis: conv1d covers 1",
        "dilation 2: families cover 1",
        "transposed convolution: families compute direct ones",
        "padding mode 'circular': families pad with zeros",
    ]


def test_wrong_ranks_are_named() -> None:
    volume = import_torch(nn.Sequential(nn.Conv3d(2, 2, 3)), (1, 2, 8, 8, 8)).layers[0]
    assert volume.uncovered == "rank 3: families convolve along 1 or 2 spatial axes"
    unbatched = import_torch(nn.Sequential(nn.Conv2d(3, 4, 3)), (3, 8, 8)).layers[0]
    assert unbatched.uncovered == "input of rank 3: Conv2d must get a batch, channels and 2 spatial axes"
    tokens = import_torch(nn.Sequential(nn.Linear(8, 4)), (2, 5, 8)).layers[0]
    assert tokens.uncovered == "linear layer of rank 3: must get rows, rank 2"


class Branching(nn.Module):
    """Control flow that depends on data."""

    def forward(self, x: Any) -> Any:
        return x if x.sum() > 0 else -x


def test_data_dependent_control_flow_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="cannot be traced, its control flow depends on data") as caught:
        import_torch(Branching(), (1, 3), "branching")
    assert "\n" not in str(caught.value)


class Refusing(nn.Module):
    """A module that checks its use with exceptions of its own, as users' modules do."""

    class SundaysOnlyError(Exception):
        pass

    def forward(self, x: Any) -> Any:
        raise self.SundaysOnlyError("only on Sundays")


def test_whatever_a_module_raises_is_told_in_one_line() -> None:
    with pytest.raises(InputError, match=r"^refusing cannot be traced, its forward raises only on Sundays$"):
        import_torch(Refusing(), (1, 3), "refusing")


@pytest.mark.parametrize("shape", [(), (0, 3, 8, 8), (1, 3, -8, 8)])
def test_a_shape_must_be_positive(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=f"input shape {'x'.join(map(str, shape))} must be positive integers"):
        import_torch(nn.Sequential(nn.Conv2d(3, 8, 3)), shape, "stem")


def test_an_input_that_does_not_fit_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="does not take an input of 1x4x8x8") as caught:
        import_torch(nn.Sequential(nn.Conv2d(3, 8, 3)), (1, 4, 8, 8), "stem")
    assert "\n" not in str(caught.value)


def test_only_modules_are_read() -> None:
    with pytest.raises(InputError, match=r"a file is of type dict, not a torch\.nn\.Module"):
        import_torch({}, (1,), "a file")


def test_a_module_named_by_file(tmp_path: Path) -> None:
    path = tmp_path / "tiny_network.py"
    path.write_text("import torch.nn as nn\ndef build():\n    return nn.Conv2d(3, 8, 1)\nready = build()\nnumber = 3\n")
    for name in ("build", "ready"):
        assert isinstance(load_torch_module(f"{path}:{name}"), nn.Conv2d)
    for spec, named in (
        (f"{path}:missing", "defines no 'missing'"),
        (f"{path}", "must be FILE.py:NAME"),
        (f"{tmp_path}/no.py:x", "a file that exists"),
    ):
        with pytest.raises(InputError, match=named):
            load_torch_module(spec)
    with pytest.raises(InputError, match=r"is of type int, not a torch\.nn\.Module"):
        import_torch(load_torch_module(f"{path}:number"), (1,), "number")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import no_such_package_anywhere\n", "cannot be executed: No module named 'no_such_package_anywhere'"),
        ("assert 2 > 3, 'not today'\n", "cannot be executed: not today"),
        ("raise SystemExit('gone')\n", "cannot be executed: gone"),
        ("class Odd(Exception): pass\nraise Odd\n", "cannot be executed: Odd"),
        ("def build(\n", "cannot be executed: "),
        ("def build(width): pass\n", "cannot be made without arguments: build() missing 1 required"),
        ("def build(): assert False, 'no build'\n", "cannot be made without arguments: no build"),
    ],
)
def test_a_file_that_fails_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "broken_network.py"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_torch_module(f"{path}:build")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
