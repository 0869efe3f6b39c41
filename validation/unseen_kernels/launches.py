"""One timed launch of a kernel that the model does not know, and its prediction by the path of `perfmodel analyze`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import PerfmodelError
from perfmodel.launch.launch import KernelCall, L2State, Launch
from perfmodel.prediction.analyze import prediction_of_launch
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.executed_profile import Effort, execute
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.profiles.profile_cache import fetch_profile, keep_profile, profile_key
from perfmodel.profiles.user_launch import LaunchConfiguration, launch_of, require_fits
from perfmodel.simulator.simulation import Budget

MAKE_CALL_BYTES = 2**32
"""Buffers of a launch above which it is left out: making and executing them takes minutes."""
EFFORT = Effort(budget=Budget(seconds=120.0, memory_bytes=2 * MAKE_CALL_BYTES))
"""A launch that takes a simulation longer than this is left out."""

MakeCall = Callable[[], KernelCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """Seconds of a launch or of a part of it, the state of the L2, and who measured."""

    seconds: float
    l2: L2State
    way: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenLaunch:
    """A launch that was timed. ``group`` is what a table joins, ``problem`` what makes launches comparable in time.

    ``without``: the call of the same kernel that leaves out what was timed, where that was a part of the launch only; the
    prediction for the part is the difference of the two.
    """

    group: str
    setting: str
    problem: str = ""
    source: str
    kernel: str
    defines: Mapping[str, str | int]
    launch: Launch
    call: MakeCall
    without: MakeCall | None = None
    measured: Sequence[MeasuredTime]
    buffer_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenPrediction:
    """Predicted seconds beside measured ones; ``whole`` is the prediction of the whole launch, with its terms."""

    launch: UnseenLaunch
    measured: MeasuredTime
    predicted_s: float
    whole: Prediction

    @property
    def ratio(self) -> float:
        """Predicted over measured: above 1 the model is too slow."""
        return self.predicted_s / self.measured.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A timed launch without a prediction, and why."""

    launch: UnseenLaunch
    reason: str


def predict_unseen(
    launch: UnseenLaunch, scenario: Scenario, effort: Effort = EFFORT
) -> list[UnseenPrediction] | LeftOut:
    """Predictions for every time of a launch, or why there is none; what was executed is kept on disk."""
    if launch.buffer_bytes > MAKE_CALL_BYTES:
        return LeftOut(launch=launch, reason=f"buffers of {launch.buffer_bytes / 2**30:.1f} GiB")
    try:
        whole = _Executed.of(launch, launch.call, "all", scenario, effort)
        rest = None if launch.without is None else _Executed.of(launch, launch.without, "rest", scenario, effort)
    except PerfmodelError as error:
        return LeftOut(launch=launch, reason=str(error))
    found = []
    for measured in launch.measured:
        prediction = whole.predicted(launch, replace(scenario, l2=measured.l2))
        seconds = prediction.time.predicted_s
        if rest is not None:
            seconds -= rest.predicted(launch, replace(scenario, l2=measured.l2)).time.predicted_s
        found.append(
            UnseenPrediction(launch=launch, measured=measured, predicted_s=max(seconds, 0.0), whole=prediction)
        )
    return found


@dataclass(frozen=True, slots=True)
class _Executed:
    """A launch as the compiler and the simulator know it."""

    configuration: LaunchConfiguration
    profile: KernelProfile

    @classmethod
    def of(
        cls, unseen_kernel: UnseenLaunch, make_call: MakeCall, part: str, scenario: Scenario, effort: Effort
    ) -> _Executed:
        """Compile and execute it, unless the same has been kept."""
        request = CompileRequest(
            source=unseen_kernel.source,
            kernel=unseen_kernel.kernel,
            file_name=f"{unseen_kernel.kernel}.cu",
            defines=tuple(unseen_kernel.defines.items()),
            options=("-lineinfo",),
            architecture_specific=True,
        )
        compiled = compile_kernel(request, scenario.gpu.architecture.name)
        configuration = LaunchConfiguration(
            grid=unseen_kernel.launch.grid,
            block=unseen_kernel.launch.block,
            shared=int(unseen_kernel.launch.dynamic_shared_bytes),
            defines=unseen_kernel.defines,
        )
        launch = launch_of(configuration, compiled)
        require_fits(launch, compiled, scenario.gpu)
        key = _key(unseen_kernel, request, part, scenario)
        profile = fetch_profile(key)
        if profile is None:
            profile = execute(compiled, launch, make_call(), scenario.gpu, effort).profile
            keep_profile(key, profile)
        return cls(configuration, profile)

    def predicted(self, unseen_kernel: UnseenLaunch, scenario: Scenario) -> Prediction:
        """The prediction under a state of the L2."""
        return prediction_of_launch(unseen_kernel.kernel, self.configuration, self.profile, scenario)


def _key(unseen_kernel: UnseenLaunch, request: CompileRequest, part: str, scenario: Scenario) -> str:
    identity: tuple[Any, ...] = (
        "unseen kernel",
        unseen_kernel.group,
        unseen_kernel.problem,
        unseen_kernel.setting,
        repr(unseen_kernel.launch),
    )
    return profile_key(request, scenario.gpu, (*identity, part))
