"""Why a library is faster where it is: what the model says limits the fastest configuration that was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfmodel.core.json_values import fields_text
from perfmodel.core.progress import Advance, no_progress
from perfmodel.core.units import time_text
from perfmodel.families.registry import family
from perfmodel.prediction.limiter_names import limiter_text
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.columns import configuration_of_record, record_of_fields
from perfmodel.time_model.combine import LIMITER_NAMES
from perfmodel.validation.comparison import Comparison, Table

SHOWN_TERMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A problem on which the library is faster, and the prediction for the best kernel's configuration."""

    comparison: Comparison
    prediction: Prediction

    def largest_terms(self, count: int) -> list[tuple[str, float]]:
        """Name and seconds of the resources that would take longest alone."""
        terms = [
            (name, float(seconds)) for name, seconds in self.prediction.time.terms.items() if name in LIMITER_NAMES
        ]
        return sorted(terms, key=lambda term: -term[1])[:count]


def losses(
    found: Sequence[Comparison], fidelity: Fidelity = Fidelity.COMPILED, advance: Advance = no_progress
) -> tuple[Loss, ...]:
    """The problems on which the library is faster, worst first, predicted for the GPU and the L2 that they were timed with.

    Raises:
        InputError: A record names a GPU, a family or a field that is not known.
    """
    lost = sorted((one for one in found if one.ratio < 1), key=lambda one: one.ratio)
    return tuple(Loss(comparison=one, prediction=_predicted(one, fidelity, advance)) for one in lost)


def _predicted(one: Comparison, fidelity: Fidelity, advance: Advance) -> Prediction:
    chosen = family(one.family)
    problem = record_of_fields(chosen.problem_type, dict(one.problem))
    configuration = configuration_of_record(chosen, dict(one.best.configuration))
    (prediction,) = predict_all(problem, [configuration], scenario_of(one.gpu, l2=one.l2), fidelity)
    advance()
    return prediction


def loss_rows(found: Sequence[Loss]) -> Table:
    """A row for each loss: times, what limits the kernel, and the terms that would take longest alone."""
    columns = (
        "family", "L2", "problem", "library / best", "library", "measured", "predicted", "limited by",
        "largest terms alone", "best configuration",
    )  # fmt: skip
    rows = []
    for one in found:
        compared, time = one.comparison, one.prediction.time
        terms = ", ".join(f"{name} {time_text(seconds)}" for name, seconds in one.largest_terms(SHOWN_TERMS))
        rows.append(
            (
                compared.family,
                compared.l2.value,
                compared.title,
                f"{compared.ratio:.2f}",
                compared.library.name,
                time_text(compared.best.seconds),
                time_text(time.predicted_s),
                limiter_text(time.limiter),
                terms,
                fields_text(compared.best.configuration),
            )
        )
    return columns, rows
