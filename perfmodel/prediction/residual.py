"""What the physical model leaves unexplained on one GPU, learned from a user's own runs; off unless asked for.

A Gaussian process over the physical features of a launch (``launch_features``). What was learned is numbers in a JSON file;
to predict needs NumPy alone, to learn ``residual_learning``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import parse_json, read_text, write_text
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity
from ..time_model.coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES, Coefficients
from .launch_features import FEATURE_NAMES, Floats, Launches, features
from .prediction import Corrected

SCHEMA = "perfmodel residual 2"
LEAST_SIMILARITY = 0.5
"""Correlation with the nearest training run below which the errors of those runs say nothing of a launch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What was learned from: so many runs of one kernel on one GPU in one scenario, predicted at one fidelity.

    ``model`` is ``model_version`` of that day, ``sha256`` the hash of the file of the runs.
    """

    kernel: str
    gpu: str
    sm_clock_hz: float
    l2: L2State
    fidelity: Fidelity
    model: str
    runs: int
    sha256: str

    def require(self, kernel: str, gpu: Gpu, l2: L2State, fidelity: Fidelity) -> None:
        """Nothing where the errors that were learned are those of the prediction asked for.

        Raises:
            InputError: They are not; the text names what differs.
        """
        pairs = (
            ("for", self.kernel, kernel),
            ("on", self.gpu, gpu.id),
            ("at an SM clock of", _mhz(self.sm_clock_hz), _mhz(gpu.boost_clock_hz)),
            ("for an L2 that is", self.l2.value, l2.value),
            ("at fidelity", self.fidelity.value, fidelity.value),
        )
        for word, known, asked in pairs:
            if known != asked:
                raise InputError(f"the residual was learned {word} {known}, not {word} {asked}")
        if self.model != model_version(gpu):
            raise InputError(
                f"the residual was learned with another version of the time model or of the data of {gpu.id}; learn it again "
                "(perfmodel fit --residual)"
            )


def _mhz(clock_hz: float) -> str:
    return f"{clock_hz / 1e6:,.0f} MHz"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Residual:
    """log(measured / predicted) as a function of ``FEATURE_NAMES``, for one ``origin`` and one set of coefficients.

    ``centre`` and ``spread`` (shape ``(k,)``) standardise the features, ``known`` (shape ``(m, k)``) are the standardised
    features of the training runs, ``weights`` (shape ``(m,)``) what each contributes at distance 0; ``mean`` is the
    prediction far from all of them and holds the clock's scale. ``log_error_90`` is what 90 % of the training runs were
    within when their launch shape was held out.
    """

    origin: Origin
    coefficients: Coefficients
    centre: Floats
    spread: Floats
    known: Floats
    weights: Floats
    length: float
    mean: float
    log_error_90: float

    def log_correction(self, features: Floats) -> Floats:
        """What to add to the logarithm of the predicted time, shape ``(n,)`` for features of shape ``(n, k)``."""
        return np.asarray(self.mean + self._correlations(features) @ self.weights)

    def _correlations(self, features: Floats) -> Floats:
        """Of the error of each launch with that of each training run, shape ``(n, m)``."""
        scaled = (features - self.centre) / self.spread
        square = (scaled**2).sum(axis=1)[:, None] + (self.known**2).sum(axis=1)[None, :] - 2 * scaled @ self.known.T
        return np.asarray(np.exp(-np.sqrt(np.maximum(square, 0.0)) / self.length))

    def seconds(self, launches: Launches) -> Floats:
        """By the physical model with its own coefficients and what was learned of its errors, shape ``(n,)``."""
        correction = self.log_correction(features(launches, self.coefficients))
        return np.asarray(launches.seconds(self.coefficients) * np.exp(correction))

    def similarity(self, features: Floats) -> Floats:
        """Correlation of each launch's error with that of the most similar training run, 0 … 1, shape ``(n,)``."""
        return np.asarray(self._correlations(features).max(axis=1))

    def corrected(self, launches: Launches, predicted_s: Floats) -> list[Corrected]:
        """What stands beside each prediction, which may come from other coefficients."""
        rows = features(launches, self.coefficients)
        corrected = launches.seconds(self.coefficients) * np.exp(self.log_correction(rows))
        results = zip(corrected.tolist(), predicted_s.tolist(), self.similarity(rows).tolist(), strict=True)
        width = math.exp(self.log_error_90)
        return [
            Corrected(
                factor=seconds / predicted,
                corrected_s=seconds,
                interval_s=(seconds / width, seconds * width) if similarity >= LEAST_SIMILARITY else None,
                similarity=similarity,
                calibration_status=f"{self.origin.runs} runs on {self.origin.gpu}",
            )
            for seconds, predicted, similarity in results
        ]


@functools.cache
def model_version(gpu: Gpu) -> str:
    """Hash of the time model and of the GPU's data, so that errors of another model are never taken for those of this one."""
    digest = hashlib.sha256(repr(gpu).encode())
    for path in sorted(Path(str(files("perfmodel.time_model"))).rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def write_residual(residual: Residual, path: Path) -> None:
    """Write what was learned as JSON: numbers and names, nothing that a reader would execute."""
    content: dict[str, Any] = {"schema": SCHEMA, "features": list(FEATURE_NAMES)}
    origin = {
        name: value.value if isinstance(value, Enum) else value for name, value in asdict(residual.origin).items()
    }
    content |= {"origin": origin, "coefficients": asdict(residual.coefficients)}
    content |= {name: getattr(residual, name).tolist() for name in _ARRAYS}
    content |= {name: getattr(residual, name) for name in _NUMBERS}
    try:
        write_text(path, json.dumps(content) + "\n")
    except OSError as error:
        raise InputError(f"residual {path}: {error}") from error


def read_residual(path: Path) -> Residual:
    """What was learned, from its file.

    Raises:
        InputError: The file cannot be read, is damaged, or was written by another version.
    """
    try:
        content = parse_json(path, read_text(path))
    except InputError as error:
        raise InputError(f"not a residual: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise InputError(f"{path}: not a residual that this version can read (schema {SCHEMA!r}); learn it again")
    if content.get("features") != list(FEATURE_NAMES):
        raise InputError(f"{path}: learned for other features than this version has; learn it again")
    try:
        return _residual(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a residual: damaged at {' '.join(str(error).split())}") from error


_ARRAYS = ("centre", "spread", "known", "weights")
_NUMBERS = ("length", "mean", "log_error_90")


def _residual(content: Mapping[str, Any]) -> Residual:
    """The record of a file's content; raises what a missing or odd entry raises."""
    arrays = {name: _array(name, content[name]) for name in _ARRAYS}
    runs, width = len(arrays["weights"]), len(FEATURE_NAMES)
    shapes = {"centre": (width,), "spread": (width,), "known": (runs, width), "weights": (runs,)}
    for name, array in arrays.items():
        if array.shape != shapes[name]:
            raise ValueError(f"{name}: {shapes[name]} numbers are needed, not {array.shape}")
    numbers = {name: _finite(name, content[name]) for name in _NUMBERS}
    if numbers["length"] <= 0 or numbers["log_error_90"] < 0 or (arrays["spread"] <= 0).any():
        raise ValueError("length, log_error_90, spread: positive numbers are needed")
    coefficients = {name: _finite(name, content["coefficients"][name]) for name in (*COEFFICIENT_NAMES, *CHOSEN_NAMES)}
    values: dict[str, Any] = arrays | numbers
    return Residual(origin=_origin(content["origin"]), coefficients=Coefficients(**coefficients), **values)


def _array(name: str, value: Any) -> Floats:
    array = np.array(value, np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: finite numbers are needed")
    return array


def _origin(content: Mapping[str, Any]) -> Origin:
    values = {field.name: content[field.name] for field in fields(Origin)}
    values |= {"l2": L2State(values["l2"]), "fidelity": Fidelity(values["fidelity"])}
    values |= {"sm_clock_hz": _finite("sm_clock_hz", values["sm_clock_hz"]), "runs": int(values["runs"])}
    return Origin(**values)


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name}: a finite number is needed, not {value!r}")
    return float(value)
