"""Fitted numbers of the families' estimates: one file a family under ``perfmodel/data/registers`` and ``…/instructions``.

A file has ``fitted_on`` (the kernels that were compiled), ``residual`` (what is left between the estimate and them) and
the table ``coefficients``, whose keys are the fields of the family's own record.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

CoefficientsT = TypeVar("CoefficientsT")
Estimate = Literal["registers", "instructions"]


@lru_cache
def fit_file(estimate: Estimate, family: str) -> Mapping[str, Any]:
    """The data file of one estimate of one family, read once.

    >>> sorted(fit_file("registers", "conv1d"))
    ['coefficients', 'fitted_on', 'residual']
    """
    return tomllib.loads((files("perfmodel.data") / estimate / f"{family}.toml").read_text(encoding="utf-8"))


def register_coefficients(family: str, kind: type[CoefficientsT]) -> CoefficientsT:
    """The fitted numbers of one family's register estimate as a record of its own type.

    Args:
        family: the family's name, which is also that of the file.
        kind: a keyword-only dataclass that has a field for every coefficient and no other.

    Raises:
        TypeError: the file lacks one of the fields or has another one.

    >>> from perfmodel.families.conv1d.registers import Coefficients
    >>> register_coefficients("conv1d", Coefficients).fewest
    22
    """
    return kind(**fit_file("registers", family)["coefficients"])


def instruction_coefficients(family: str, kind: type[CoefficientsT]) -> CoefficientsT:
    """The same for the estimate of the instruction mix.

    >>> from perfmodel.families.conv1d.counts import InstructionCoefficients
    >>> instruction_coefficients("conv1d", InstructionCoefficients).naive_control
    5
    """
    return kind(**fit_file("instructions", family)["coefficients"])


def weighted(coefficients: Mapping[str, float], features: Mapping[str, Any]) -> NDArray[np.float64]:
    """The sum of features, numbers or arrays of shape ``(n,)``, each times the coefficient of its name.

    Raises:
        TypeError: a feature has no coefficient, or a coefficient no feature.

    >>> weighted({"constant": 2.0, "taps": 0.5}, {"constant": 1, "taps": np.array([4, 6])})
    array([4., 5.])
    """
    if coefficients.keys() != features.keys():
        raise TypeError(f"coefficients of {', '.join(coefficients)} for features {', '.join(features)}")
    return np.asarray(sum(coefficients[name] * feature for name, feature in features.items()), np.float64)
