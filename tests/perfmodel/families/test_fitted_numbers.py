"""The data files of the families' estimates: complete, read once, and nothing in them that no estimate uses."""

from dataclasses import make_dataclass
from importlib.resources import files

import pytest

from perfmodel.families.fitted_numbers import Estimate, fit_file, register_coefficients
from perfmodel.families.registry import family_names

ESTIMATES: tuple[Estimate, ...] = ("registers", "instructions")
FITTED = [
    (estimate, path.name.removesuffix(".toml"))
    for estimate in ESTIMATES
    for path in (files("perfmodel.data") / estimate).iterdir()
]


@pytest.mark.parametrize(("estimate", "name"), FITTED)
def test_every_file_belongs_to_a_family_and_says_what_it_was_fitted_on(estimate: Estimate, name: str) -> None:
    fit = fit_file(estimate, name)
    assert name in family_names()
    assert set(fit) == {"coefficients", "fitted_on", "residual"}
    assert all(len(fit[key]) > 20 for key in ("fitted_on", "residual"))
    assert fit_file(estimate, name) is fit


def test_a_field_that_the_file_lacks_and_one_that_the_record_lacks_are_errors() -> None:
    names = list(fit_file("registers", "conv1d")["coefficients"])
    assert register_coefficients("conv1d", make_dataclass("Whole", names)) is not None
    for wrong in (names[1:], [*names, "another"]):
        with pytest.raises(TypeError):
            register_coefficients("conv1d", make_dataclass("Wrong", wrong))
