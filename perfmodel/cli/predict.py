"""``perfmodel predict``: one configuration, explained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.choices import one_of
from .options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    ResidualOption,
    conditions_from,
    configuration_from,
    field_values,
    problem_from,
    settings,
)
from .output import count_text, interval_text, print_json, print_table, progress_bar, time_text

if TYPE_CHECKING:
    from ..prediction.prediction import Corrected


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("predict", context_settings=EXTRA_OPTIONS)(predict)


def predict(
    context: typer.Context,
    family_name: Annotated[str, typer.Argument(metavar="FAMILY", help="A name of `perfmodel families`.")],
    gpu: GpuOption,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A configuration field; may be repeated.")
    ] = None,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    residual: ResidualOption = None,
    as_json: JsonOption = False,
) -> None:
    """Predict one configuration of FAMILY and explain its time; fields not set are those of the analytic best."""
    from ..families.registry import family
    from ..prediction.explanation import sensitivity
    from ..prediction.predicting import predict_all
    from ..profiles.kernel_profile import Fidelity

    chosen = family(family_name)
    problem = problem_from(chosen.problem_type, chosen.default_problem(), context.args)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = conditions_from(gpu, sm_clock_mhz, l2, calibration, residual)
    fields = settings(given or [])
    base = _base(chosen, problem, scenario, fields)
    configuration = configuration_from(chosen.configuration_type, base, fields)
    with progress_bar(f"{depth.value} prediction", 1) as advance:
        prediction = predict_all(problem, [configuration], scenario, depth, advance)[0]
    changes = sensitivity(prediction, scenario)
    if as_json:
        print_json(prediction.to_json() | {"what_if": [_change_json(change) for change in changes]})
        return
    _print(prediction, changes, scenario.gpu)


def _base(chosen: Any, problem: Any, scenario: Any, given: dict[str, str]) -> Any:
    """The analytic best where a field is left open, so that every field has a sensible value beside those given."""
    from ..prediction.ranking import best_with, rank_space
    from ..profiles.kernel_profile import Fidelity

    if set(chosen.configuration_type.__dataclass_fields__) <= set(given):
        return None
    own = replace(scenario, residual=None)
    fields = field_values(chosen.configuration_type, given)
    return best_with(problem, fields, own) or rank_space(problem, own, Fidelity.ANALYTIC, 1).best.configuration


def _change_json(change: Any) -> dict[str, Any]:
    value = getattr(change.value, "value", change.value)
    return {"field": change.field, "value": value, "time_ratio": change.ratio, "rejected": change.rejection}


def _residual_text(found: Corrected) -> str:
    within = "no interval" if found.interval_s is None else f"90 % within {interval_text(found.interval_s)}"
    return (
        f"corrected {time_text(found.corrected_s)} (predicted × {found.factor:.3f}), {within} "
        f"(residual of {found.calibration_status}; similarity to the nearest {found.similarity:.2f})"
    )


def _print(prediction: Any, changes: Any, gpu: Any) -> None:
    from ..core.json_values import plain
    from ..prediction.explanation import headroom, limiter_text

    problem = " ".join(f"{name}={value}" for name, value in plain(prediction.problem).items())
    chosen = " ".join(f"{name}={value}" for name, value in plain(prediction.configuration).items())
    time, resources, resident = prediction.time, prediction.resources, prediction.occupancy
    typer.echo(f"{prediction.kernel} on {prediction.gpu}: {problem}")
    typer.echo(f"configuration: {chosen}")
    bounds = (
        ""
        if time.interval_s is None
        else f", 90 % within {time_text(time.interval_s[0])} … {time_text(time.interval_s[1])}"
    )
    typer.echo(
        f"predicted {time_text(time.predicted_s)}{bounds} ({time.calibration_status}; {prediction.fidelity.value})"
    )
    if prediction.residual is not None:
        typer.echo(_residual_text(prediction.residual))
    typer.echo(f"limited by {limiter_text(time.limiter)}")
    peaks = headroom(prediction, gpu)
    typer.echo(f"of the roofs: FP32 {peaks.fp32:.0%}, L2 {peaks.l2:.0%}, DRAM {peaks.dram:.0%}")
    typer.echo(
        f"{resources.registers_per_thread} registers, {resources.static_shared_bytes + resources.dynamic_shared_bytes:,} bytes "
        f"of shared memory, {resources.stack_bytes_per_thread} bytes of stack, {resources.spill_store_bytes} spilled; "
        f"{resident.blocks_per_sm} blocks and {resident.warps_per_sm} warps per SM ({resident.fraction:.0%}), "
        f"limited by {resident.limiter}"
    )
    for text in prediction.notes:
        typer.echo(f"note: {text}")
    terms = [
        (n, time_text(float(v)), f"{float(v) / time.predicted_s:.0%}") for n, v in time.terms.items() if float(v) > 0
    ]
    print_table("time of each resource if it were alone", ("term", "time", "of total"), terms)
    counts = [(n, count_text(float(v))) for n, v in prediction.counts.items() if float(v)]
    title = "counts of the whole launch" if prediction.exact else "counts of the whole launch (estimated)"
    print_table(title, ("count", "value"), counts)
    rows = [
        (
            c.field,
            getattr(c.value, "value", c.value),
            "–" if c.ratio is None else f"{c.ratio - 1:+.1%}",
            c.rejection or "",
        )
        for c in changes
    ]
    print_table("what a change of one field would do", ("field", "to", "time", "cannot run because"), rows, 2)
