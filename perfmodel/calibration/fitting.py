"""The coefficients fitted to measured times: robust least squares on log ratios, weak priors, one clock scale a data set."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from ..core.documents import converted, parse_toml
from ..gpus.gpu import Gpu
from ..profiles.kernel_profile import KernelProfile
from ..time_model.coefficients import Coefficients
from ..time_model.combine import launch_seconds

Width = Annotated[float, Meta(gt=0)]


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of a coefficient before any data.

    ``log_width`` is the standard deviation of its logarithm, ``own_log_width`` that of an architecture's own value around
    the shared one, of the architectures named in ``own``. ``shared`` is False where the shared value stays as it is, because
    one architecture's says nothing of another's.
    """

    value: Annotated[float, Meta(ge=0)]
    log_width: Width
    own_log_width: Width = 0.7
    own: tuple[str, ...] = ()
    shared: bool = True


class Chosen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A coefficient that no fit changes."""

    value: Annotated[float, Meta(gt=0)]
    source: str


class PriorFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of the prior."""

    fitted: dict[str, Expected]
    chosen: dict[str, Chosen]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """The coefficients that a fit begins with, and what is expected of those that it may change."""

    coefficients: Coefficients
    expected: Mapping[str, Expected]

    @property
    def architectural(self) -> dict[str, tuple[str, ...]]:
        """Coefficients that some architectures have for their own, and which."""
        return {name: entry.own for name, entry in self.expected.items() if entry.own}


@functools.cache
def prior() -> Prior:
    """The prior that the package ships.

    >>> prior().coefficients.round_trip_latencies, prior().architectural
    (1.0, {})
    """
    name = "calibrations/prior.toml"
    text = (files("perfmodel.data") / name).read_text(encoding="utf-8")
    content = converted(PriorFile, parse_toml(text, name), name)
    values = {entry: known.value for entry, known in (content.fitted | content.chosen).items()}
    return Prior(coefficients=Coefficients(**values), expected=content.fitted)


Floats = NDArray[np.float64]

RESIDUAL_LOG_WIDTH = 0.05
"""Expected error of the model itself, on the same scale; sets how fast data overrule the prior."""
OUTLIER_LOG = 0.1
"""Log ratio from which a run counts as an outlier (soft_l1)."""
LOG_STEP = 1e-6
"""Step of a coefficient's logarithm by which derivatives are taken."""
SOLVER_TOLERANCE = 1e-6
"""Relative change of the cost or of the solution that ends the search: far below every standard error."""
HELD_OUT_TOLERANCE = 1e-9
"""The same where errors of held-out runs are written down."""
WRITTEN_TOLERANCE = 1e-13
"""The same for a fit that is written down: sums differ by machine in their last digits, and from here on move no
coefficient of the shipped fit by 1e-5 of itself, far less than the digits of a calibration file."""
EFFECTIVE_RUNS = 200
"""Runs that a data set counts as at most: thousands of configurations of one kernel are not independent evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitSet:
    """Measured runs on one GPU: n works (arrays) with resident blocks and measured device seconds.

    ``free_scale`` leaves one factor open, for files that do not record the clock.
    """

    name: str
    gpu: Gpu
    profile: KernelProfile
    blocks_per_sm: Any
    seconds: Floats
    free_scale: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Fitted coefficients, standard errors of their logarithms, the scale of each data set, errors after it.

    ``coefficients`` are those of an architecture that was not fitted to; ``architectures`` and
    ``architecture_log_standard_errors`` have, by architecture (``sm_86``), the values of those that it has for itself.
    """

    coefficients: Coefficients
    log_standard_errors: Mapping[str, float]
    scales: Mapping[str, float]
    log_residuals: Mapping[str, Floats]
    architectures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    architecture_log_standard_errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def coefficients_for(self, gpu: Gpu) -> Coefficients:
        """The coefficients of the GPU's architecture, the shared ones where it has none of its own."""
        return replace(self.coefficients, **self.architectures.get(gpu.architecture.name, {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where things stand in the vector that is solved for: shared logarithms, deviations by architecture, scales."""

    free: tuple[str, ...]
    own: tuple[tuple[str, str], ...]
    """Architecture and name of each coefficient that the architecture has for itself."""
    scaled: tuple[str, ...]
    unshared: tuple[str, ...]
    fixed: Mapping[str, float]

    @property
    def size(self) -> int:
        return len(self.free) + len(self.own) + len(self.scaled)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Those that have coefficients for themselves."""
        return tuple(dict.fromkeys(architecture for architecture, _ in self.own))

    def own_of(self, architecture: str) -> tuple[str, ...]:
        """Names of the coefficients that it has for itself."""
        return tuple(name for owner, name in self.own if owner == architecture)

    def deviation(self, architecture: str, name: str) -> int:
        return len(self.free) + self.own.index((architecture, name))

    def logs(self, z: Floats, architecture: str) -> Floats:
        """Logarithms of the free coefficients on an architecture."""
        found = np.array(z[: len(self.free)])
        for name in self.own_of(architecture):
            found[self.free.index(name)] += z[self.deviation(architecture, name)]
        return found

    def scale(self, name: str) -> int | None:
        return self.size - len(self.scaled) + self.scaled.index(name) if name in self.scaled else None

    def vector(self, known: Fit, otherwise: Floats) -> Floats:
        """Where an earlier fit ended, ``otherwise`` for what it does not know."""
        z = np.array(otherwise)
        z[: len(self.free)] = np.log([getattr(known.coefficients, name) for name in self.free])
        for architecture, name in self.own:
            found = known.architectures.get(architecture, {}).get(name)
            if found is not None:
                z[self.deviation(architecture, name)] = np.log(found) - z[self.free.index(name)]
        for name in self.scaled:
            if name in known.scales:
                z[self.scale(name)] = np.log(known.scales[name])
        return z

    def coefficients(self, logs: Floats) -> Coefficients:
        return self._with(np.exp(logs).tolist())

    def stepped_coefficients(self, logs: Floats) -> Coefficients:
        """The coefficients as they are, then with a step of each one alone: arrays of shape ``(1 + free, 1)``."""
        steps = logs + LOG_STEP * np.eye(1 + len(self.free), len(self.free), -1)
        return self._with(np.exp(steps).T[:, :, None])

    def _with(self, values: Iterable[Any]) -> Coefficients:
        return Coefficients(**(dict(self.fixed) | dict(zip(self.free, values, strict=True))))


def fit(
    sets: Sequence[FitSet],
    free: Sequence[str],
    architectural: Mapping[str, Collection[str]] | None = None,
    near: Fit | None = None,
    tolerance: float = SOLVER_TOLERANCE,
) -> Fit:
    """Fit the named coefficients to all sets together; the others stay at the prior.

    ``architectural`` names the architectures that have a value of their own, drawn to the shared one (as the prior has it where
    None). The search begins where ``near`` ended, which saves most of it
    where the data are nearly the same, else at the prior. Deterministic: no random start. ``tolerance`` ends the search. Raises
    nothing on poor data; look at the residuals.
    """
    from scipy.optimize import least_squares

    expected = prior().expected
    architectural = prior().architectural if architectural is None else architectural
    layout = _Layout(
        free=tuple(free),
        own=tuple(
            (architecture, name)
            for architecture in dict.fromkeys(one.gpu.architecture.name for one in sets)
            for name in free
            if architecture in architectural.get(name, ())
        ),
        scaled=tuple(one.name for one in sets if one.free_scale),
        fixed=asdict(prior().coefficients),
        unshared=tuple(name for name in free if not expected[name].shared),
    )
    begin = np.concatenate([np.log([layout.fixed[name] for name in free]), np.zeros(layout.size - len(layout.free))])
    own_widths = [expected[name].own_log_width for _, name in layout.own]
    widths = np.array([expected[name].log_width for name in free] + own_widths, float)

    def residuals(z: Floats) -> Floats:
        parts = [_log_residual(z, one, layout) * _weight(one) for one in sets]
        return np.concatenate([*parts, (z - begin)[: len(widths)] / widths])

    def jacobian(z: Floats) -> Floats:
        parts = [_derivatives(z, one, layout) * _weight(one) for one in sets]
        return np.concatenate([*parts, np.eye(len(widths), layout.size) / widths[:, None]])

    solved = least_squares(
        residuals,
        begin if near is None else layout.vector(near, begin),
        jac=jacobian,
        x_scale="jac",
        tr_solver="exact",  # the iterative one needs three times the steps and ends earlier on one machine than on another
        loss="soft_l1",
        f_scale=OUTLIER_LOG / RESIDUAL_LOG_WIDTH,
        ftol=tolerance,
        xtol=tolerance,
    )
    return _result(np.asarray(solved.x), np.asarray(solved.jac, np.float64), sets, layout)


def _weight(one: FitSet) -> float:
    return float(np.sqrt(min(1.0, EFFECTIVE_RUNS / len(one.seconds)))) / RESIDUAL_LOG_WIDTH


def _log_seconds(coefficients: Coefficients, one: FitSet, layout: _Layout) -> Floats:
    seconds, _ = launch_seconds(one.profile, one.blocks_per_sm, one.gpu, coefficients)
    return np.asarray(np.log(seconds))


def _log_residual(z: Floats, one: FitSet, layout: _Layout) -> Floats:
    place = layout.scale(one.name)
    scale = 0.0 if place is None else z[place]
    coefficients = layout.coefficients(layout.logs(z, one.gpu.architecture.name))
    return np.asarray(np.log(one.seconds) - _log_seconds(coefficients, one, layout) - scale)


def _derivatives(z: Floats, one: FitSet, layout: _Layout) -> Floats:
    """Of a set's log residuals: one step of each coefficient, however many architectures there are, all at once."""
    stepped = layout.stepped_coefficients(layout.logs(z, one.gpu.architecture.name))
    logs = _log_seconds(stepped, one, layout)
    columns = (logs[0] - logs[1:]) / LOG_STEP
    found = np.zeros((len(one.seconds), layout.size))
    for index, (name, column) in enumerate(zip(layout.free, columns, strict=True)):
        if name not in layout.unshared:
            found[:, index] = column
        if (one.gpu.architecture.name, name) in layout.own:
            found[:, layout.deviation(one.gpu.architecture.name, name)] = column
    place = layout.scale(one.name)
    if place is not None:
        found[:, place] = -1.0
    return found


def _result(z: Floats, jacobian: Floats, sets: Sequence[FitSet], layout: _Layout) -> Fit:
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    own: dict[str, dict[str, float]] = {}
    errors: dict[str, dict[str, float]] = {}
    for architecture in layout.architectures:
        logs = layout.logs(z, architecture)
        own[architecture] = {name: float(np.exp(logs[layout.free.index(name)])) for name in layout.own_of(architecture)}
        places = {
            name: [layout.deviation(architecture, name)] + [layout.free.index(name)] * (name not in layout.unshared)
            for name in layout.own_of(architecture)
        }
        errors[architecture] = {
            name: float(np.sqrt(covariance[np.ix_(pair, pair)].sum())) for name, pair in places.items()
        }
    shared = np.sqrt(np.diag(covariance))[: len(layout.free)].tolist()
    return Fit(
        coefficients=layout.coefficients(z[: len(layout.free)]),
        log_standard_errors={
            name: error for name, error in zip(layout.free, shared, strict=True) if name not in layout.unshared
        },
        scales={name: float(np.exp(z[layout.scale(name)])) for name in layout.scaled},
        log_residuals={one.name: _log_residual(z, one, layout) for one in sets},
        architectures=own,
        architecture_log_standard_errors=errors,
    )
