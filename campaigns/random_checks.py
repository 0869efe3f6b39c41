"""Random small problems of every family, each with a random configuration: what a campaign checks against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from perfmodel.errors import InfeasibleError, InputError
from perfmodel.families.problem_list import problem_of_fields
from perfmodel.families.registry import family as family_of_name
from perfmodel.prediction.scenario import Scenario
from perfmodel.validation.prepared import Purpose
from perfmodel.validation.preparing import Choice
from perfmodel.validation.selection import drawn

DRAWS_PER_CHECK = 50
"""How many random problems are tried for one that is a problem at all and has a configuration that fits."""

PRECISIONS = ("float32", "float32", "tf32", "float16")
"""Half of the problems in FP32, which has most designs."""

CHECKED_RANGES: Mapping[str, Mapping[str, Sequence[int | bool | str]]] = {
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
        "precision": PRECISIONS,
    },
    "pointwise_conv2d": {
        "batch": (1, 2, 3),
        "in_channels": range(1, 130),
        "out_channels": range(1, 130),
        "height": range(1, 20),
        "width": range(1, 20),
        "precision": PRECISIONS,
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


def random_checks(scenario: Scenario, per_family: int, seed: int) -> Iterator[Choice]:
    """Random small problems of every family, one random configuration that fits for each."""
    for name in CHECKED_RANGES:
        rng = np.random.default_rng([seed, len(name)])
        for _ in range(per_family):
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
            problem = problem_of_fields(family, sizes)
        except InputError:
            continue
        found = drawn(family, problem, scenario, 1, rng)
        if found:
            return Choice(family=name, problem=problem, configurations=(found[0],), purposes=(Purpose.CHECK,))
    raise InfeasibleError(
        f"none of {DRAWS_PER_CHECK} random problems of {name} has a configuration for {scenario.gpu.id}"
    )
