"""Predict which configuration of a CUDA kernel to run on a GPU, how long it takes and why, on a machine without a GPU.

>>> import perfmodel as pm
>>> best = pm.rank(pm.TiledConv2d(height=512, width=512), gpu="rtx-3090", fidelity="analytic").best
>>> best.time.predicted_s < 1e-3
True
"""

from __future__ import annotations

TYPE_CHECKING = False  # as `typing` has it, whose import would delay the start of the program

if TYPE_CHECKING:
    from typing import Any

    from .accuracy.validating import Validation, validate
    from .advice.advise import Advice, Advised, advise
    from .calibration.fit import Calibrated
    from .calibration.fitted import fit
    from .checks.checking import CheckReport, check
    from .core.results import frame
    from .errors import InfeasibleError, InputError, PerfmodelError
    from .families.conv1d import Conv1d, Conv1dConfiguration
    from .families.direct_conv2d import Conv2d, DirectConv2dConfiguration
    from .families.pointwise_conv2d import PointwiseConfiguration, PointwiseConv2d
    from .families.ssim import Ssim, SsimConfiguration
    from .families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
    from .families.user.family import script_problem, user_problem
    from .gpus.catalogue import gpu_ids, load_gpu
    from .networks.estimate import NetworkReport
    from .networks.estimating import network
    from .prediction.analyze import Analysis, analyze
    from .prediction.configurations import RankedConfigurations, rank_configurations
    from .prediction.predicting import predict, predict_many
    from .prediction.prediction import Prediction
    from .prediction.ranking import Ranking, rank
    from .prediction.tuning_space import rank_space
    from .profiles.executed_profile import Effort
    from .profiles.kernel_profile import Fidelity
    from .programs.program_run import ProgramRun, run_program
    from .sweeps.plan import SweepPlan
    from .sweeps.running import SweepReport, sweep
    from .tuning.helion_autotuner import helion_autotuner
    from .tuning.kernel_tuner_strategy import kernel_tuner_strategy
    from .tuning.triton_pruning import triton_pruning

_MODULES = {
    "accuracy.validating": ("Validation", "validate"),
    "calibration.fit": ("Calibrated",),
    "calibration.fitted": ("fit",),
    "checks.checking": ("CheckReport", "check"),
    "advice.advise": ("Advice", "Advised", "advise"),
    "core.results": ("frame",),
    "errors": ("InfeasibleError", "InputError", "PerfmodelError"),
    "families.conv1d": ("Conv1d", "Conv1dConfiguration"),
    "families.direct_conv2d": ("Conv2d", "DirectConv2dConfiguration"),
    "families.pointwise_conv2d": ("PointwiseConfiguration", "PointwiseConv2d"),
    "families.ssim": ("Ssim", "SsimConfiguration"),
    "families.tiled_conv2d": ("TiledConv2d", "TiledConv2dConfiguration"),
    "families.user.family": ("script_problem", "user_problem"),
    "gpus.catalogue": ("gpu_ids", "load_gpu"),
    "networks.estimate": ("NetworkReport",),
    "networks.estimating": ("network",),
    "prediction.analyze": ("Analysis", "analyze"),
    "prediction.configurations": ("RankedConfigurations", "rank_configurations"),
    "prediction.predicting": ("predict", "predict_many"),
    "prediction.prediction": ("Prediction",),
    "prediction.ranking": ("Ranking", "rank"),
    "prediction.tuning_space": ("rank_space",),
    "profiles.executed_profile": ("Effort",),
    "profiles.kernel_profile": ("Fidelity",),
    "programs.program_run": ("ProgramRun", "run_program"),
    "sweeps.plan": ("SweepPlan",),
    "sweeps.running": ("SweepReport", "sweep"),
    "tuning.helion_autotuner": ("helion_autotuner",),
    "tuning.kernel_tuner_strategy": ("kernel_tuner_strategy",),
    "tuning.triton_pruning": ("triton_pruning",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Advice",
    "Advised",
    "Analysis",
    "Calibrated",
    "CheckReport",
    "Conv1d",
    "Conv1dConfiguration",
    "Conv2d",
    "DirectConv2dConfiguration",
    "Effort",
    "Fidelity",
    "InfeasibleError",
    "InputError",
    "NetworkReport",
    "PerfmodelError",
    "PointwiseConfiguration",
    "PointwiseConv2d",
    "Prediction",
    "ProgramRun",
    "RankedConfigurations",
    "Ranking",
    "Ssim",
    "SsimConfiguration",
    "SweepPlan",
    "SweepReport",
    "TiledConv2d",
    "TiledConv2dConfiguration",
    "Validation",
    "advise",
    "analyze",
    "check",
    "fit",
    "frame",
    "gpu_ids",
    "helion_autotuner",
    "kernel_tuner_strategy",
    "load_gpu",
    "network",
    "predict",
    "predict_many",
    "rank",
    "rank_configurations",
    "rank_space",
    "run_program",
    "script_problem",
    "sweep",
    "triton_pruning",
    "user_problem",
    "validate",
]


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first used, so that the command line starts at once."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'perfmodel' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
