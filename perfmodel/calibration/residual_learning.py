"""Learning what the physical model leaves: a Gaussian process (scikit-learn, extra ``learn``) over measured runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..prediction.launch_features import Floats, Launches, features, scales
from ..prediction.residual import Origin, Residual, model_version
from ..time_model.coefficients import Coefficients
from .fit import conformal_quantile
from .fitting import Fit
from .measured_runs import MeasuredRuns

LEAST_RUNS = 20
MOST_RUNS = 1500
"""Runs beyond which learning, cubic in their number, would take minutes; more are thinned evenly."""
SMOOTHNESS = 0.5
"""Order of the Matérn kernel: registers and residency jump from one configuration to the next."""


def launches_of(data: MeasuredRuns) -> Launches:
    """The launches of measured runs; what was measured is not among it."""
    runs = data.runs
    return Launches(
        gpu=runs.gpu,
        profile=runs.profile,
        blocks_per_sm=runs.blocks_per_sm,
    )


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
    known, ratios = features(launches_of(data), coefficients)[rows], _log_ratios(data, coefficients)[rows]
    centre, spread = scales(known)
    known, mean, unit = (known - centre) / spread, float(ratios.mean()), max(float(ratios.std()), 1e-9)
    kernel = ConstantKernel(1.0) * Matern(5.0, nu=SMOOTHNESS, length_scale_bounds=(0.1, 1e4)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound is an answer: no structure, or no noise
        process.fit(known, (ratios - mean) / unit)
    smooth = process.kernel_.k1
    held_out = _held_out_errors(process, data.groups[rows]) * unit
    return Residual(
        origin=_origin_of(data),
        coefficients=coefficients,
        centre=centre,
        spread=spread,
        known=known,
        weights=np.asarray(process.alpha_, np.float64) * float(smooth.k1.constant_value) * unit,
        length=float(smooth.k2.length_scale),
        mean=mean,
        log_error_90=conformal_quantile(np.abs(held_out)),
    )


def _origin_of(data: MeasuredRuns) -> Origin:
    gpu = data.runs.gpu
    return Origin(
        kernel=data.kernel,
        gpu=gpu.id,
        sm_clock_hz=gpu.boost_clock_hz,
        l2=data.l2,
        fidelity=data.fidelity,
        model=model_version(gpu),
        runs=len(data),
        sha256=data.sha256,
    )


def _held_out_errors(process: Any, groups: NDArray[np.intp]) -> Floats:
    """What the process misses each training run by when all runs of its group are left out, in its own unit.

    By the inverse of the covariance (Rasmussen and Williams, Gaussian Processes for Machine Learning, section 5.4.2, for
    single runs): the error of a group is the inverse of its block times its weights. Nothing is learned anew.
    """
    from scipy.linalg import cho_solve

    inverse = cho_solve((process.L_, True), np.eye(len(groups)))
    errors = np.empty(len(groups))
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        errors[rows] = np.linalg.solve(inverse[np.ix_(rows, rows)], process.alpha_[rows])
    return errors


def _log_ratios(data: MeasuredRuns, coefficients: Coefficients) -> Floats:
    return np.asarray(np.log(data.runs.seconds / launches_of(data).seconds(coefficients)))


def corrected_s(data: MeasuredRuns, residual: Residual) -> Floats:
    """Seconds by the physical model and what was learned of its errors, shape ``(n,)``."""
    residual.origin.require(data.kernel, data.runs.gpu, data.l2, data.fidelity)
    return residual.seconds(launches_of(data))
