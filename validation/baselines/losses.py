"""Why the kernel is slower than the best library where it is: what the model says of the very configuration that was timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfmodel.core.progress import no_progress
from perfmodel.families.registry import family
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.columns import record_of_fields
from perfmodel.time_model.combine import LIMITER_NAMES

from .ratios import Ratio, text

SHOWN_TERMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A problem on which the library is faster, and the prediction for the kernel's configuration."""

    ratio: Ratio
    prediction: Prediction

    def largest_terms(self, count: int) -> list[tuple[str, float]]:
        """Name and seconds of the resources that would take longest alone."""
        terms = [
            (name, float(seconds)) for name, seconds in self.prediction.time.terms.items() if name in LIMITER_NAMES
        ]
        return sorted(terms, key=lambda term: -term[1])[:count]


def losses(
    found: Sequence[Ratio], fidelity: Fidelity = Fidelity.COMPILED, advance: Callable[[], None] = no_progress
) -> tuple[Loss, ...]:
    """The problems that the kernel loses, worst first, each predicted for the GPU and the L2 that it was timed with.

    Raises:
        InputError: A record names a GPU, a family or a field that is not known.
    """
    lost = sorted((one for one in found if one.lost), key=lambda one: one.ratio)
    return tuple(Loss(ratio=one, prediction=_predicted(one, fidelity, advance)) for one in lost)


def _predicted(one: Ratio, fidelity: Fidelity, advance: Callable[[], None]) -> Prediction:
    chosen = family(one.family)
    problem = record_of_fields(chosen.problem_type, dict(one.problem))
    configuration = record_of_fields(chosen.configuration_type, dict(one.configuration))
    (prediction,) = predict_all(problem, [configuration], scenario_of(one.gpu, l2=one.l2), fidelity)
    advance()
    return prediction


def loss_table(found: Sequence[Loss]) -> str:
    """The losses as a Markdown table: times, the limiter, and the terms that would take longest alone."""
    lines = [
        "| family | problem | condition | library / kernel | kernel µs | predicted µs | limiter | largest terms alone, µs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        ratio, time = one.ratio, one.prediction.time
        terms = ", ".join(f"{name} {seconds * 1e6:.2f}" for name, seconds in one.largest_terms(SHOWN_TERMS))
        lines.append(
            f"| {ratio.family} | {text(ratio.problem)} | {ratio.condition} | {ratio.ratio:.2f} "
            f"| {ratio.kernel_s * 1e6:.2f} | {time.predicted_s * 1e6:.2f} | {time.limiter} | {terms} |"
        )
    return "\n".join(lines) + "\n"
