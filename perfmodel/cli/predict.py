"""``perfmodel predict``: one configuration, explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.choices import one_of
from ..core.json_aliases import with_former_names
from .options import (
    EXTRA_OPTIONS,
    CalibrationOption,
    ClockOption,
    CsvOption,
    FamilyCommand,
    FidelityOption,
    GpuOption,
    JsonOption,
    L2Option,
    configuration_from,
    family_completion,
    field_values,
    problem_from,
    require_one_format,
    scenario_from,
    settings,
)
from .output import print_csv, print_json, print_prediction, print_table, progress_bar

if TYPE_CHECKING:
    from ..gpus.gpu import Gpu
    from ..prediction.explanation import Change
    from ..prediction.prediction import Prediction


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("predict", cls=FamilyCommand, context_settings=EXTRA_OPTIONS)(predict)


def predict(
    context: typer.Context,
    family_name: Annotated[
        str, typer.Argument(metavar="FAMILY", help="A name of `perfmodel families`.", autocompletion=family_completion)
    ],
    gpu: GpuOption,
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="A configuration field; may be repeated.")
    ] = None,
    fidelity: FidelityOption = "compiled",
    sm_clock_mhz: ClockOption = None,
    l2: L2Option = "cold",
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
) -> None:
    """Predict one configuration of FAMILY and explain its time; fields without --set are those of the best by closed form.

    `predict FAMILY --help` lists the problem's options (--height 2160 --filter-width 5 …).
    """
    from ..families.registry import family
    from ..prediction.explanation import sensitivity
    from ..prediction.predicting import predict_all
    from ..prediction.throughput import throughput
    from ..profiles.kernel_profile import Fidelity

    require_one_format(as_json, as_csv)
    chosen = family(family_name)
    problem = problem_from(chosen.problem_type, chosen.default_problem(), context.args)
    depth = one_of(Fidelity, "--fidelity", fidelity)
    scenario = scenario_from(gpu, sm_clock_mhz, l2, calibration)
    fields = settings(given or [])
    base = _base(chosen, problem, scenario, fields)
    configuration = configuration_from(chosen.configuration_type, base, fields)
    with progress_bar(f"{depth.value} prediction", 1) as advance:
        prediction = predict_all(problem, [configuration], scenario, depth, advance)[0]
    if as_csv:
        print_csv(prediction.to_rows())
        return
    changes = sensitivity(prediction, scenario)
    if as_json:
        named = with_former_names({"sensitivity": [_change_json(change) for change in changes]})
        print_json(prediction.to_json() | {"throughput": throughput(prediction, scenario.gpu).to_json()} | named)
        return
    _print(prediction, changes, scenario.gpu)


def _base(chosen: Any, problem: Any, scenario: Any, given: dict[str, str]) -> Any:
    """The analytic best where a field is left open, so that every field has a sensible value beside those given."""
    from ..prediction.ranking import best_with, rank_problem
    from ..profiles.kernel_profile import Fidelity

    if set(chosen.configuration_type.__dataclass_fields__) <= set(given):
        return None
    fields = field_values(chosen.configuration_type, given)
    return (
        best_with(problem, fields, scenario) or rank_problem(problem, scenario, Fidelity.ANALYTIC, 1).best.configuration
    )


def _change_json(change: Change) -> dict[str, Any]:
    value = getattr(change.value, "value", change.value)
    return {"field": change.field, "value": value, "time_ratio": change.ratio, "rejected": change.rejection}


def _print(prediction: Prediction, changes: Sequence[Change], gpu: Gpu) -> None:
    from ..core.json_values import fields_text, plain
    from ..prediction.throughput import throughput

    for title, record in ((f"{prediction.kernel} on {gpu.id}", prediction.problem), ("configuration", None)):
        values = plain(prediction.configuration if record is None else record)
        typer.echo(f"{title}: {fields_text(one for one in values.items() if one[1] != 'none')}")
    print_prediction(prediction, time_note=f"; {prediction.fidelity.value}", between=[throughput(prediction, gpu).text])
    rows = [
        (
            change.field,
            getattr(change.value, "value", change.value),
            "–" if change.ratio is None else f"{change.ratio - 1:+.1%}",
            change.rejection or "",
        )
        for change in changes
    ]
    print_table("what a change of one field would do", ("field", "to", "time", "cannot run because"), rows, 2)
