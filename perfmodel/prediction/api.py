"""The public functions: what the command line does, as calls with typed results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..accuracy.validating import Validation, validate_measurements
from ..core.choices import one_of
from ..core.value_types import require_type
from ..families.registry import family
from ..gpus.gpu import Gpu
from ..records.measurements import read_measurements
from ..records.schema import L2State
from .predicting import predict_all
from .prediction import Fidelity, Prediction
from .ranking import REFINED_CANDIDATES, Order, Ranking, rank_space
from .scenario import scenario_of

if TYPE_CHECKING:
    import pandas as pd


def rank(
    problem: Any,
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    top: int = 10,
    refine: int = REFINED_CANDIDATES,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
    residual: str | Path | None = None,
    order: Order | str = Order.PREDICTED,
) -> Ranking:
    """The ``top`` configurations of the problem's family on a GPU, fastest first.

    Args:
        problem: A problem such as ``Conv2d`` or ``TiledConv2d``.
        gpu: An id of ``gpu_ids()``, the path of a TOML file, ``"auto"``, or a ``Gpu``.
        fidelity: How deep to look: ``analytic``, ``compiled`` (needs the extra ``compile``) or ``simulated``.
        top: How many predictions to return.
        refine: How many of the analytic best are compiled (at least ``top``).
        sm_clock_mhz: SM clock; the boost clock by default.
        l2: ``cold`` or ``warm``, what the L2 holds when the kernel starts.
        calibration: A calibration file of your own, made by ``perfmodel fit``.
        residual: What ``perfmodel fit --residual`` learned; told beside each prediction (``Prediction.residual``).
        order: ``predicted``, or ``corrected`` to sort by what the residual makes of the times.

    Raises:
        InputError: A value is wrong; the text names it.
        InfeasibleError: No configuration fits the GPU.

    >>> from perfmodel import TiledConv2d
    >>> rank(TiledConv2d(height=256, width=256), gpu="h200", fidelity="analytic", top=3).top[0].kernel
    'tiled_conv2d'
    """
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration, residual=residual)
    depth, chosen = one_of(Fidelity, "fidelity", fidelity), one_of(Order, "order", order)
    return rank_space(problem, scenario, depth, top, refine=refine, order=chosen)


def predict(
    problem: Any,
    configuration: Any,
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
    residual: str | Path | None = None,
) -> Prediction:
    """One configuration predicted; arguments as for ``rank``.

    Raises:
        InfeasibleError: The configuration cannot run on the GPU; the text names the limit.

    >>> from perfmodel import TiledConv2d, TiledConv2dConfiguration
    >>> found = predict(TiledConv2d(), TiledConv2dConfiguration(), gpu="rtx-2080-ti", fidelity="analytic")
    >>> found.occupancy.blocks_per_sm
    8
    """
    return predict_many(
        problem,
        [configuration],
        gpu=gpu,
        fidelity=fidelity,
        sm_clock_mhz=sm_clock_mhz,
        l2=l2,
        calibration=calibration,
        residual=residual,
    )[0]


def predict_many(
    problem: Any,
    configurations: Sequence[Any],
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
    residual: str | Path | None = None,
) -> list[Prediction]:
    """Several configurations of one problem, in order, compiled in parallel; arguments and errors as for ``predict``."""
    require_type(Sequence, "a list of them", configurations=configurations)
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration, residual=residual)
    return predict_all(problem, configurations, scenario, one_of(Fidelity, "fidelity", fidelity))


def validate(
    family_name: str,
    *,
    gpu: str | Gpu,
    measurements: str | Path,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    where: str | None = None,
    l2: L2State | str = L2State.COLD,
    sm_clock_mhz: float | None = None,
    calibration: str | None = None,
) -> Validation:
    """Predictions against the measurements of a file (CSV, Kernel Tuner cache, own records), as ``perfmodel validate``."""
    require_type((str, PathLike), "the path of a file", measurements=measurements)
    chosen = family(family_name)
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    rows = read_measurements(Path(measurements), chosen, scenario.l2)
    rows = rows if where is None else rows.where(where)
    return validate_measurements(chosen, rows, scenario, one_of(Fidelity, "fidelity", fidelity))


def frame(predictions: Iterable[Prediction]) -> pd.DataFrame:
    """Predictions as a pandas DataFrame, one row each: problem, configuration, resources, counts, seconds."""
    import pandas as pd

    return pd.DataFrame([prediction.to_row() for prediction in predictions])
