"""The coefficients fitted to measured times: robust least squares on log ratios, weak priors, one clock scale a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..gpu import Gpu
from ..work import Work
from .coefficients import Coefficients
from .combine import launch_seconds

Floats = NDArray[np.float64]

PRIOR = Coefficients(
    round_trip_cycles=330.0,
    block_start_cycles=800.0,
    fma_issue_cycles=2.5,
    compute_share=0.5,
    sector_cycles=1.0,
    demand_norm=1.5,
    latency_norm=1.0,
    latency_norm_growth=0.4,
    contention=0.3,
    memory_norm=6.0,
    memory_efficiency=0.9,
    fetch_cycles_per_instruction=1.0,
    barrier_latencies=3.0,
)
"""Where the fit starts and what it is drawn to: published latencies and the findings of earlier fits."""

PRIOR_LOG_WIDTH = 0.7
"""Standard deviation of the logarithm of a coefficient before any data."""
PHYSICAL_LOG_WIDTH = 0.1
"""The same for a coefficient that corrects a known rate or latency of the hardware, or that other kernels must identify."""
PHYSICAL = frozenset(
    {
        "barrier_latencies",
        "block_start_cycles",
        "fetch_cycles_per_instruction",
        "memory_efficiency",
        "memory_norm",
        "sector_cycles",
    }
)
RESIDUAL_LOG_WIDTH = 0.05
"""Expected error of the model itself, on the same scale; sets how fast data overrule the prior."""
OUTLIER_LOG = 0.1
"""Log ratio from which a run counts as an outlier (soft_l1)."""
EFFECTIVE_RUNS = 200
"""Runs that a data set counts as at most: thousands of configurations of one kernel are not independent evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSet:
    """Measured runs on one GPU: n works (arrays) with resident blocks and measured device seconds.

    ``free_scale`` leaves one factor open, for files that do not record the clock.
    """

    name: str
    gpu: Gpu
    work: Work
    blocks_per_sm: Any
    seconds: Floats
    free_scale: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Fitted coefficients, standard errors of their logarithms, the scale of each data set, errors after it."""

    coefficients: Coefficients
    log_standard_errors: Mapping[str, float]
    scales: Mapping[str, float]
    log_residuals: Mapping[str, Floats]


def fit(sets: Sequence[FitSet], free: Sequence[str], prior: Coefficients = PRIOR) -> Fit:
    """Fit the named coefficients to all sets together; the others stay at the prior.

    Deterministic: no random start. Raises nothing on poor data; look at the residuals.
    """
    from scipy.optimize import least_squares

    fixed = asdict(prior)
    widths = np.array([PHYSICAL_LOG_WIDTH if name in PHYSICAL else PRIOR_LOG_WIDTH for name in free])
    start = np.log([fixed[name] for name in free])
    scaled = [s.name for s in sets if s.free_scale]

    def coefficients(z: Floats) -> Coefficients:
        return Coefficients(**(fixed | dict(zip(free, np.exp(z[: len(free)]).tolist(), strict=True))))

    def scale(z: Floats, name: str) -> float:
        return float(z[len(free) + scaled.index(name)]) if name in scaled else 0.0

    def log_residual(z: Floats, one: FitSet) -> Floats:
        seconds, _ = launch_seconds(one.work, one.blocks_per_sm, one.gpu, coefficients(z))
        return np.asarray(np.log(one.seconds / seconds) - scale(z, one.name))

    def residuals(z: Floats) -> Floats:
        parts = [
            log_residual(z, one) / RESIDUAL_LOG_WIDTH * np.sqrt(min(1.0, EFFECTIVE_RUNS / len(one.seconds)))
            for one in sets
        ]
        return np.concatenate([*parts, (z[: len(free)] - start) / widths])

    initial = np.concatenate([start, np.zeros(len(scaled))])
    solved = least_squares(residuals, initial, loss="soft_l1", f_scale=OUTLIER_LOG / RESIDUAL_LOG_WIDTH)
    jacobian = np.asarray(solved.jac, np.float64)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    errors = np.sqrt(np.diag(covariance))
    return Fit(
        coefficients=coefficients(solved.x),
        log_standard_errors=dict(zip(free, errors[: len(free)].tolist(), strict=True)),
        scales={name: float(np.exp(scale(solved.x, name))) for name in scaled},
        log_residuals={one.name: log_residual(solved.x, one) for one in sets},
    )
