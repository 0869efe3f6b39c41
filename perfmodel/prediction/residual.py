"""What the physical model leaves unexplained on one GPU, learned from a user's own runs; off unless asked for.

A Gaussian process over the physical features of a launch (``launch_features``). What was learned is numbers in a JSON file;
to predict needs NumPy alone, to learn ``residual_learning``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from ..core.documents import converted, to_builtins
from ..core.files import parse_json, read_text, write_text
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity
from ..time_model.coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES, Coefficients
from .launch_features import FEATURE_NAMES, Floats, Launches, features
from .prediction import Corrected

SCHEMA = "perfmodel residual 2"
_LARGEST = 1e300
Finite = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
Positive = Annotated[float, Meta(gt=0, le=_LARGEST)]
LEAST_SIMILARITY = 0.5
"""Correlation with the nearest training run below which the errors of those runs say nothing of a launch."""


class Origin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


class ResidualFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a residual's file holds: numbers and names, nothing that a reader would execute."""

    schema: str
    features: tuple[str, ...]
    origin: Origin
    coefficients: dict[str, Finite]
    centre: tuple[Finite, ...]
    spread: tuple[Positive, ...]
    known: tuple[tuple[Finite, ...], ...]
    weights: tuple[Finite, ...]
    length: Positive
    mean: Finite
    log_error_90: Annotated[float, Meta(ge=0, le=_LARGEST)]


def write_residual(residual: Residual, path: Path) -> None:
    """Write what was learned as JSON."""
    arrays = {name: getattr(residual, name).tolist() for name in ("centre", "spread", "known", "weights")}
    content = ResidualFile(
        schema=SCHEMA,
        features=FEATURE_NAMES,
        origin=residual.origin,
        coefficients=asdict(residual.coefficients),
        length=residual.length,
        mean=residual.mean,
        log_error_90=residual.log_error_90,
        **arrays,
    )
    try:
        write_text(path, json.dumps(to_builtins(content), allow_nan=False) + "\n")
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
    read = converted(ResidualFile, content, f"{path}: not a residual: damaged")
    absent = {*COEFFICIENT_NAMES, *CHOSEN_NAMES} ^ read.coefficients.keys()
    if absent:
        raise InputError(f"{path}: not a residual: damaged: coefficients: {min(absent)} is missing or unknown")
    runs, width = len(read.weights), len(FEATURE_NAMES)
    if any(len(row) != width for row in (read.centre, read.spread, *read.known)) or len(read.known) != runs:
        raise InputError(
            f"{path}: not a residual: damaged: centre, spread and known must have {width} columns, {runs} rows"
        )
    return Residual(
        origin=read.origin,
        coefficients=Coefficients(**read.coefficients),
        centre=np.array(read.centre),
        spread=np.array(read.spread),
        known=np.array(read.known),
        weights=np.array(read.weights),
        length=read.length,
        mean=read.mean,
        log_error_90=read.log_error_90,
    )
