"""Compiles what a campaign will run, before there is a GPU: same source, same options, same cubin as the prediction's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.compiler.pool import compile_many
from perfmodel.compiler.request import CompileRequest
from perfmodel.compiler.toolchain import compiler_version
from perfmodel.core.json_values import plain
from perfmodel.core.progress import no_progress
from perfmodel.errors import InfeasibleError
from perfmodel.families.base import Batch, Family
from perfmodel.families.kernel_files import kernel_text
from perfmodel.families.registry import family as family_of_name
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Launch
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.profiles.user_launch import require_fits
from perfmodel.records.schema import Failure, FailureKind, Predicted, RecordKind, Scalar

from .device import commit_id
from .prepared import PreparedFolder, PreparedKernel, Purpose, kernel_resources
from .timing import FLUSH_KERNEL, FLUSH_L2_SIZES, flush_launch

COMPILE_LIMIT_S = 120.0
MESSAGE_CHARACTERS = 300

Advance = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Configurations of one problem of a family, and what they are to be run for."""

    family: str
    problem: Any
    configurations: tuple[Any, ...]
    purposes: tuple[Purpose, ...]
    predicted: tuple[Predicted | None, ...] = ()
    """What was predicted of each configuration; of those of which nothing was, closed forms say it."""
    problem_name: str = ""


def prepare_choices(
    choices: Sequence[Choice],
    scenario: Scenario,
    folder: PreparedFolder,
    *,
    workers: int | None = None,
    compile_limit_s: float = COMPILE_LIMIT_S,
    advance: Advance = no_progress,
) -> list[PreparedKernel]:
    """Compile every configuration, keep its code in the folder, and say what it was predicted to take.

    A configuration that does not compile within its time limit, or whose compiled resources do not fit the GPU, is prepared as
    a failure: no step launches it.
    """
    gpu = scenario.gpu
    requests: list[tuple[CompileRequest, str]] = []
    for choice in choices:
        family = family_of_name(choice.family)
        requests += [
            (family.compile_request(choice.problem, c, gpu), gpu.architecture.name) for c in choice.configurations
        ]
    compiled = iter(compile_many(requests, workers=workers, time_limit_s=compile_limit_s, advance=advance))
    prepared: list[PreparedKernel] = []
    for choice in choices:
        family = family_of_name(choice.family)
        batch: Batch[Any] = Batch.of(choice.configurations)
        launches = family.launch(choice.problem, batch, gpu)
        closed = _by_closed_forms(family, choice.problem, batch, scenario)
        given = choice.predicted or (None,) * len(closed)
        for index, configuration in enumerate(choice.configurations):
            outcome = next(compiled)
            launch = launches.at(index)
            fields = KernelFields(
                kind=RecordKind.KERNEL,
                name=choice.family,
                problem=plain(choice.problem),
                configuration=plain(configuration),
                purposes=choice.purposes,
                predicted=given[index] or closed[index],
                problem_name=choice.problem_name,
            )
            prepared.append(prepared_kernel(fields, outcome, launch, gpu, folder))
    return prepared


def _by_closed_forms(
    family: Family[Any, Any], problem: Any, batch: Batch[Any], scenario: Scenario
) -> tuple[Predicted | None, ...]:
    seconds = np.broadcast_to(evaluate_batch(family, problem, batch, scenario).seconds, len(batch))
    return tuple(
        Predicted(fidelity=Fidelity.ANALYTIC, time_s=float(one)) if np.isfinite(one) else None for one in seconds
    )


def prepare_flush(gpu: Gpu, folder: PreparedFolder) -> PreparedKernel:
    """The kernel that empties L2, compiled into the folder."""
    launch = flush_launch(gpu.sm_count)
    request = CompileRequest(
        source=kernel_text("micro", f"{FLUSH_KERNEL}.cu"), kernel=FLUSH_KERNEL, file_name=f"{FLUSH_KERNEL}.cu"
    )
    (outcome,) = compile_many([(request, gpu.architecture.name)])
    fields = KernelFields(
        kind=RecordKind.MICRO_BENCHMARK,
        name=FLUSH_KERNEL,
        problem={},
        configuration={"bytes": FLUSH_L2_SIZES * gpu.l2_bytes, "passes": 1},
        purposes=(Purpose.FLUSH,),
    )
    return prepared_kernel(fields, outcome, launch, gpu, folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFields:
    """What a prepared kernel is, apart from its code."""

    kind: RecordKind
    name: str
    problem: dict[str, Scalar]
    configuration: dict[str, Scalar]
    purposes: tuple[Purpose, ...]
    predicted: Predicted | None = None
    problem_name: str = ""


def prepared_kernel(
    fields: KernelFields, outcome: CompiledKernel | Exception, launch: Launch, gpu: Gpu, folder: PreparedFolder
) -> PreparedKernel:
    """What the plan says of a compiled kernel, its code kept in the folder; a failure where it cannot be launched."""
    resources, kernel_name = None, ""
    failure = _failure(outcome, launch, gpu)
    if failure is None and isinstance(outcome, CompiledKernel):
        resources = kernel_resources(outcome, int(launch.dynamic_shared_bytes), folder.keep_cubin(outcome.cubin))
        kernel_name = outcome.kernel_name
    return PreparedKernel(
        kind=fields.kind,
        name=fields.name,
        problem=fields.problem,
        configuration=fields.configuration,
        purposes=fields.purposes,
        gpu=gpu.id,
        architecture=gpu.architecture.name,
        compiler_version=compiler_version(),
        commit=commit_id(),
        kernel_name=kernel_name,
        resources=resources,
        predicted=fields.predicted,
        problem_name=fields.problem_name,
        failure=failure,
    )


def _failure(outcome: CompiledKernel | Exception, launch: Launch, gpu: Gpu) -> Failure | None:
    """Why a kernel cannot be launched: it did not compile, or not one block of what the compiler made fits an SM."""
    if not isinstance(outcome, CompiledKernel):
        message = " ".join(str(outcome).split())[:MESSAGE_CHARACTERS]
        return Failure(kind=FailureKind.COMPILE, message=message)
    compiled_launch = replace(launch, static_shared_bytes=outcome.resources.static_shared_bytes)
    try:
        require_fits(compiled_launch, outcome, gpu)
    except InfeasibleError as error:
        return Failure(kind=FailureKind.REJECTED, message=str(error))
    return None
