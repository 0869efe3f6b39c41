"""One timed launch of a kernel that the model does not know, and its prediction by the path of `perfmodel analyze`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import PerfmodelError
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.prediction.analyze import predicted
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.facts import Facts
from perfmodel.profiles.launch_facts import Effort, launch_facts
from perfmodel.profiles.profile_cache import facts_key, fetch_facts, keep_facts
from perfmodel.profiles.user_launch import LaunchConfiguration, launch_of, require_fits
from perfmodel.ptx.parse import parse_module
from perfmodel.records.schema import L2State
from perfmodel.simulator.simulation import Budget
from perfmodel.sources.user_source import compile_user_kernel, plain_file_names, read_user_source, user_request

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
    launch: Launch
    facts: Facts

    @classmethod
    def of(
        cls, unseen_kernel: UnseenLaunch, make_call: MakeCall, part: str, scenario: Scenario, effort: Effort
    ) -> _Executed:
        """Compile and execute it, unless the same has been kept."""
        user = read_user_source(unseen_kernel.source)
        expression, _ = user.kernel(unseen_kernel.kernel)
        request = user_request(user, expression, unseen_kernel.defines)
        compiled = compile_user_kernel(request, scenario.gpu.architecture.name)
        configuration = LaunchConfiguration(
            grid=unseen_kernel.launch.grid,
            block=unseen_kernel.launch.block,
            shared=int(unseen_kernel.launch.dynamic_shared_bytes),
            defines=unseen_kernel.defines,
        )
        launch = launch_of(configuration, compiled)
        require_fits(launch, compiled, scenario.gpu)
        key = _key(unseen_kernel, request, part, scenario)
        facts = fetch_facts(key)
        if facts is None:
            executed = parse_module(plain_file_names(compiled.ptx)).kernel(compiled.kernel_name)
            facts = launch_facts(compiled, executed, launch, make_call(), scenario.gpu, effort).facts
            keep_facts(key, facts)
        return cls(configuration, launch, facts)

    def predicted(self, unseen_kernel: UnseenLaunch, scenario: Scenario) -> Prediction:
        """The prediction under a state of the L2."""
        return predicted(unseen_kernel.kernel, self.configuration, self.launch, self.facts, scenario)


def _key(unseen_kernel: UnseenLaunch, request: CompileRequest, part: str, scenario: Scenario) -> str:
    identity: tuple[Any, ...] = (
        "unseen kernel",
        unseen_kernel.group,
        unseen_kernel.problem,
        unseen_kernel.setting,
        repr(unseen_kernel.launch),
    )
    return facts_key(request, scenario.gpu, (*identity, part))
