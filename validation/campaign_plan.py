"""What the campaign runs: problems of every family to time, random small ones to check, and how many configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfmodel.core.json_values import plain
from perfmodel.errors import InfeasibleError, InputError
from perfmodel.families.registry import family as family_of_name
from perfmodel.prediction.scenario import Scenario
from perfmodel.records.columns import record_of_fields

from .prepared import Purpose
from .preparing import Choice
from .selection import best_and_drawn, drawn

Sizes = Mapping[str, int | bool]

SLOWEST_RATIO = 30.0
"""Configurations predicted to take longer than this many times the best are not worth the campaign's time."""
DRAWS_PER_CHECK = 50
"""How many random problems are tried for one that is a problem at all and has a configuration that fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSizes:
    """How much of everything the campaign runs."""

    best_per_problem: int = 12
    drawn_per_problem: int = 60
    counted_per_problem: int = 3
    checks_per_family: int = 200


def _grid(names: Sequence[str], rows: Sequence[Sequence[int | bool]]) -> tuple[Sizes, ...]:
    return tuple(dict(zip(names, row, strict=True)) for row in rows)


TILED = ("height", "width", "filter_height", "filter_width")
DIRECT = ("batch", "in_channels", "out_channels", "height", "width", "filter_height", "stride", "padding", "depthwise")
POINTWISE = ("batch", "in_channels", "out_channels", "height")
CONV1D = ("in_channels", "out_channels", "length")
SSIM = ("batch", "channels", "height", "width", "gradients")

TIMED_PROBLEMS: Mapping[str, tuple[Sizes, ...]] = {
    "tiled_conv2d": _grid(
        TILED,
        [
            (512, 512, 3, 3), (1024, 1024, 5, 5), (2048, 2048, 3, 3), (2048, 2048, 7, 7), (2048, 2048, 11, 11),
            (4096, 4096, 5, 5), (2160, 3840, 5, 5), (2160, 3840, 9, 9), (1080, 1920, 15, 15), (4096, 4096, 15, 15),
        ],
    ),
    "direct_conv2d": _grid(
        DIRECT,
        [
            (1, 1, 1, 2160, 3840, 3, 1, 0, False), (1, 1, 1, 2160, 3840, 5, 1, 0, False),
            (1, 1, 1, 2048, 2048, 7, 1, 0, False), (1, 1, 1, 2048, 2048, 11, 1, 0, False),
            (1, 3, 32, 224, 224, 3, 2, 1, False), (1, 32, 32, 112, 112, 3, 1, 1, True),
            (1, 64, 64, 112, 112, 3, 2, 1, True), (1, 128, 128, 56, 56, 3, 1, 1, True),
            (1, 256, 256, 28, 28, 3, 1, 1, True), (1, 512, 512, 14, 14, 3, 1, 1, True),
            (32, 128, 128, 56, 56, 3, 1, 1, True), (32, 512, 512, 14, 14, 3, 1, 1, True),
        ],
    ),
    "pointwise_conv2d": _grid(
        POINTWISE,
        [
            (1, 32, 64, 112), (1, 64, 128, 56), (1, 128, 128, 56), (1, 128, 256, 28), (1, 256, 256, 28),
            (1, 256, 512, 14), (1, 512, 512, 14), (1, 512, 1024, 7), (1, 1024, 1024, 7), (32, 128, 128, 56),
            (32, 512, 512, 14),
        ],
    ),
    "conv1d": _grid(
        CONV1D,
        [
            (256, 256, 8), (256, 256, 16), (256, 512, 8), (512, 512, 4), (512, 512, 8), (512, 1024, 4),
            (1024, 256, 8), (1024, 1024, 4), (2048, 512, 4),
        ],
    ),
    "ssim": _grid(SSIM, [(1, 3, 2160, 3840, False), (1, 3, 1080, 1920, False), (4, 3, 512, 512, True)]),
}  # fmt: skip
"""Image filters, layers of the MobileNets, layers of the diffusion-policy U-Net, video frames."""

CHECKED_RANGES: Mapping[str, Mapping[str, Sequence[int | bool]]] = {
    "tiled_conv2d": {
        "height": range(1, 90),
        "width": range(1, 150),
        "filter_height": (1, 3, 5, 7, 9),
        "filter_width": (1, 3, 5, 7, 9),
    },
    "direct_conv2d": {
        "batch": (1, 2, 3),
        "in_channels": range(1, 6),
        "out_channels": range(1, 6),
        "height": range(1, 40),
        "width": range(1, 100),
        "filter_height": range(1, 8),
        "filter_width": range(1, 8),
        "stride": (1, 2),
        "padding": range(4),
        "depthwise": (False, True),
    },
    "pointwise_conv2d": {
        "batch": (1, 2, 3),
        "in_channels": range(1, 130),
        "out_channels": range(1, 130),
        "height": range(1, 20),
        "width": range(1, 20),
    },
    "conv1d": {
        "batch": (1, 2),
        "in_channels": range(1, 300),
        "out_channels": range(1, 40),
        "length": range(1, 40),
        "filter_width": range(1, 8),
        "padding": range(4),
    },
    "ssim": {
        "batch": (1, 2),
        "channels": (1, 2, 3),
        "height": range(1, 150),
        "width": range(1, 150),
        "gradients": (False, True),
    },
}
"""Where the random small problems are drawn from; what is drawn and is no problem is drawn again."""


def problem_of_sizes(family_name: str, sizes: Sizes) -> Any:
    """A problem of a family from some of its sizes: a filter or an image given one side is square."""
    family = family_of_name(family_name)
    values = plain(family.default_problem()) | dict(sizes)
    for given, other in (("filter_height", "filter_width"), ("height", "width")):
        if given in sizes and other not in sizes and other in values:
            values[other] = sizes[given]
    return record_of_fields(family.problem_type, values)


def timed_choices(scenario: Scenario, sizes: CampaignSizes, seed: int, families: Sequence[str]) -> Iterator[Choice]:
    """For each problem the predicted best and drawn configurations; the first few drawn ones are counted too."""
    for name in families:
        for number, problem_sizes in enumerate(TIMED_PROBLEMS.get(name, ())):
            rng = np.random.default_rng([seed, number])
            yield from _timed_choices_of(name, problem_of_sizes(name, problem_sizes), scenario, sizes, rng)


def _timed_choices_of(
    name: str, problem: Any, scenario: Scenario, sizes: CampaignSizes, rng: np.random.Generator
) -> Iterator[Choice]:
    family = family_of_name(name)
    chosen = best_and_drawn(
        family, problem, scenario, sizes.best_per_problem, sizes.drawn_per_problem, rng, SLOWEST_RATIO
    )
    order = [int(index) for index in rng.permutation(len(chosen))]
    counted = tuple(chosen[index] for index in order[: sizes.counted_per_problem])
    others = tuple(chosen[index] for index in order[sizes.counted_per_problem :])
    yield Choice(family=name, problem=problem, configurations=counted, purposes=(Purpose.TIME, Purpose.COUNT))
    if others:
        yield Choice(family=name, problem=problem, configurations=others, purposes=(Purpose.TIME,))


def checked_choices(scenario: Scenario, sizes: CampaignSizes, seed: int, families: Sequence[str]) -> Iterator[Choice]:
    """Random small problems of every family, one random configuration that fits for each."""
    for name in families:
        rng = np.random.default_rng([seed, len(name)])
        for _ in range(sizes.checks_per_family):
            yield random_check(name, scenario, rng)


def random_check(name: str, scenario: Scenario, rng: np.random.Generator) -> Choice:
    """One random problem of a family with one random configuration that fits.

    Raises:
        InfeasibleError: No draw gave one.
    """
    family = family_of_name(name)
    for _ in range(DRAWS_PER_CHECK):
        sizes = {field: values[int(rng.integers(len(values)))] for field, values in CHECKED_RANGES[name].items()}
        if sizes.get("depthwise"):
            sizes["out_channels"] = sizes["in_channels"]
        try:
            problem = problem_of_sizes(name, sizes)
        except InputError:
            continue
        found = drawn(family, problem, scenario, 1, rng)
        if found:
            return Choice(family=name, problem=problem, configurations=(found[0],), purposes=(Purpose.CHECK,))
    raise InfeasibleError(
        f"none of {DRAWS_PER_CHECK} random problems of {name} has a configuration for {scenario.gpu.id}"
    )
