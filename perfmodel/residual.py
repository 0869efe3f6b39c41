"""What the physical model leaves unexplained on one GPU, learned from a user's own runs; off unless asked for.

A Gaussian process (scikit-learn, extra ``learn``) over physical features of a launch: shares of the terms, occupancy,
registers, waves, instructions of a warp. What was learned is numbers in a JSON file; to predict needs NumPy alone.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .measured_runs import MeasuredRuns
from .time.coefficients import Coefficients
from .time.combine import LIMITER_NAMES, launch_seconds
from .time.fitting import Fit, FitSet

Floats = NDArray[np.float64]

SCHEMA = "perfmodel residual 1"
LEAST_RUNS = 20
MOST_RUNS = 1500
"""Runs beyond which learning, cubic in their number, would take minutes; more are thinned evenly."""
SMOOTHNESS = 0.5
"""Order of the Matérn kernel: registers and residency jump from one configuration to the next."""

_COUNTS = (
    "warp_instructions",
    "fp32_fma",
    "global_load_requests",
    "shared_load_requests",
    "barriers",
    "local_load_sectors",
)
FEATURE_NAMES: tuple[str, ...] = (
    *(f"share of {name}" for name in LIMITER_NAMES),
    *(f"log {name} of a warp" for name in _COUNTS),
    "log resident blocks",
    "log warps of a block",
    "log block width",
    "log block height",
    "log waves",
    "registers",
    "log code bytes",
    "log round trips",
    "wavefronts of a shared load",
    "wavefronts of a shared store",
    "sectors of a global load",
    "part of multiply-adds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """log(measured / predicted) as a function of ``FEATURE_NAMES``, for one GPU and one set of coefficients.

    ``centre`` and ``spread`` (shape ``(k,)``) standardise the features, ``known`` (shape ``(m, k)``) are the standardised
    features of the training runs, ``weights`` (shape ``(m,)``) what each contributes at distance 0; ``mean`` is the
    prediction far from all of them and holds the clock's scale.
    """

    gpu: str
    coefficients: Coefficients
    centre: Floats
    spread: Floats
    known: Floats
    weights: Floats
    length: float
    mean: float

    def log_correction(self, features: Floats) -> Floats:
        """What to add to the logarithm of the predicted time, shape ``(n,)`` for features of shape ``(n, k)``."""
        scaled = (features - self.centre) / self.spread
        square = (scaled**2).sum(axis=1)[:, None] + (self.known**2).sum(axis=1)[None, :] - 2 * scaled @ self.known.T
        return np.asarray(self.mean + np.exp(-np.sqrt(np.maximum(square, 0.0)) / self.length) @ self.weights)


def features(data: MeasuredRuns, coefficients: Coefficients) -> Floats:
    """Physical features of every run, shape ``(n, len(FEATURE_NAMES))``; what was measured is not among them."""
    runs, count = data.runs, len(data)
    seconds, terms = launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, coefficients)
    launch, counts = runs.work.launch, runs.work.counts
    warps = np.maximum(np.asarray(launch.blocks, np.float64) * launch.warps_per_block, 1)
    columns = [np.asarray(getattr(terms, name)) / seconds for name in LIMITER_NAMES]
    columns += [np.log1p(getattr(counts, name) / warps) for name in _COUNTS]
    resident = np.maximum(runs.blocks_per_sm, 1)
    columns += [
        np.log(resident),
        np.log(launch.warps_per_block),
        np.log(launch.block_x),
        np.log(np.asarray(launch.block_y) * launch.block_z),
        np.log(launch.blocks / (runs.gpu.sm_count * resident)),
        data.registers / 64.0,
        np.log1p(data.code_bytes / 1024.0),
        np.log(np.maximum(runs.work.global_round_trips, 1)),
        _ratio(counts.shared_load_wavefronts, counts.shared_load_requests),
        _ratio(counts.shared_store_wavefronts, counts.shared_store_requests),
        _ratio(counts.global_load_sectors, counts.global_load_requests),
        _ratio(counts.fp32_fma, counts.warp_instructions),
    ]
    return np.stack([np.broadcast_to(np.asarray(column, np.float64), count) for column in columns], axis=1)


def _ratio(value: Any, by: Any) -> Floats:
    return np.asarray(value / np.maximum(by, 1.0), np.float64)


def learn(data: MeasuredRuns, trained: Fit) -> Residual:
    """Learn what a fit leaves of the runs.

    Raises:
        InputError: The extra ``learn`` is not installed, or there are fewer than ``LEAST_RUNS`` runs.
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError as error:
        raise InputError("learning a residual needs the extra `learn`: pip install perfmodel[learn]") from error
    if len(data) < LEAST_RUNS:
        raise InputError(f"{data.runs.name}: {len(data)} runs; a residual is learned from at least {LEAST_RUNS}")
    rows = np.unique(np.linspace(0, len(data) - 1, min(len(data), MOST_RUNS)).round().astype(np.intp))
    coefficients = trained.coefficients_for(data.runs.gpu)
    known, ratios = features(data, coefficients)[rows], _log_ratios(data.runs, coefficients)[rows]
    centre, spread = known.mean(axis=0), known.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    known, mean, unit = (known - centre) / spread, float(ratios.mean()), max(float(ratios.std()), 1e-9)
    kernel = ConstantKernel(1.0) * Matern(5.0, nu=SMOOTHNESS, length_scale_bounds=(0.1, 1e4)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound is an answer: no structure, or no noise
        process.fit(known, (ratios - mean) / unit)
    smooth = process.kernel_.k1
    return Residual(
        gpu=data.runs.gpu.id,
        coefficients=coefficients,
        centre=centre,
        spread=spread,
        known=known,
        weights=np.asarray(process.alpha_, np.float64) * float(smooth.k1.constant_value) * unit,
        length=float(smooth.k2.length_scale),
        mean=mean,
    )


def _log_ratios(runs: FitSet, coefficients: Coefficients) -> Floats:
    seconds, _ = launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, coefficients)
    return np.asarray(np.log(runs.seconds / seconds))


def corrected_s(data: MeasuredRuns, residual: Residual) -> Floats:
    """Seconds by the physical model and what was learned of its errors, shape ``(n,)``."""
    if data.runs.gpu.id != residual.gpu:
        raise InputError(f"the residual was learned on {residual.gpu}, not on {data.runs.gpu.id}")
    seconds, _ = launch_seconds(data.runs.work, data.runs.blocks_per_sm, data.runs.gpu, residual.coefficients)
    return np.asarray(seconds * np.exp(residual.log_correction(features(data, residual.coefficients))))


def write_residual(residual: Residual, path: Path) -> None:
    """Write what was learned as JSON: numbers and names, nothing that a reader would execute."""
    content: dict[str, Any] = {"schema": SCHEMA, "features": list(FEATURE_NAMES)}
    for field in fields(Residual):
        value = getattr(residual, field.name)
        content[field.name] = value.tolist() if isinstance(value, np.ndarray) else value
    content["coefficients"] = asdict(residual.coefficients)
    path.write_text(json.dumps(content) + "\n", encoding="utf-8")


def read_residual(path: Path) -> Residual:
    """What was learned, from its file.

    Raises:
        InputError: The file cannot be read, or was written by another version of the model.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise InputError(f"{path}: not a residual that this version can read (schema {SCHEMA!r})")
        if content["features"] != list(FEATURE_NAMES):
            raise InputError(f"{path}: learned for other features than this version has; learn it again")
        arrays = {name: np.array(content[name], np.float64) for name in ("centre", "spread", "known", "weights")}
        return Residual(
            gpu=str(content["gpu"]),
            coefficients=Coefficients(**content["coefficients"]),
            length=float(content["length"]),
            mean=float(content["mean"]),
            **arrays,
        )
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a residual: {' '.join(str(error).split())}") from error
