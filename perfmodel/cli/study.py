"""The studies of ``perfmodel validate --study``: run, shown, and their figures for ``--max-mape`` and ``--min-tau``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.choices import one_of
from ..errors import InputError
from .output import print_json, progress_bar
from .pairs import Pair, runs_of

if TYPE_CHECKING:
    from ..accuracy.metrics import Accuracy
    from ..accuracy.studies import StudyResults
    from ..families.base import Family
    from ..profiles.kernel_profile import Fidelity

STUDIES = ("logo", "leave-gpu-out", "leave-architecture-out", "learning-curve", "repeats")
"""Names of ``perfmodel.accuracy.studies.Study``, here so that ``--help`` loads nothing heavy."""
BOUNDED = STUDIES[:3]
"""Studies that hold runs out."""


def studies_of(
    family: Family[Any, Any],
    pairs: Sequence[Pair],
    depth: Fidelity,
    names: Sequence[str],
    residual_runs: int | None,
    where: str | None,
    seed: int,
) -> StudyResults:
    """Run the named studies on the pairs; what each run does is worked out only where a study needs it."""
    from ..accuracy.studies import Study, run_studies

    studies = [one_of(Study, "--study", name) for name in dict.fromkeys(names)]
    needed = residual_runs is not None or any(study is not Study.REPEATS for study in studies)
    data = runs_of(pairs, depth) if needed else []
    with progress_bar("fits", None) as advance:
        return run_studies(
            studies,
            data,
            [(pair.scenario.gpu.id, pair.rows) for pair in pairs],
            kernel=family.name,
            fidelity=depth.value,
            where=where,
            residual_runs=residual_runs,
            seed=seed,
            advance=advance,
        )


def markdown_of(results: StudyResults) -> str:
    """The report in Markdown."""
    from ..accuracy.report import markdown

    return markdown(results)


def show(results: StudyResults, as_json: bool) -> None:
    """One JSON object, or the report as a terminal shows Markdown."""
    if as_json:
        print_json(results.to_json())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    (console if console.is_terminal else Console(width=160)).print(Markdown(markdown_of(results)))


def require_bounded(names: Sequence[str]) -> None:
    """Refuse --max-mape and --min-tau where no study is asked for that they could hold for."""
    if not set(names) & set(BOUNDED):
        raise InputError(f"--max-mape and --min-tau hold for --study {', '.join(BOUNDED)}; none of them was given")


def accuracies_of(results: StudyResults) -> list[tuple[str, Accuracy]]:
    """Study and data set with its accuracy, for every study that holds runs out."""
    return [
        (f"{study.value} {one.data.runs.name}", one.accuracy)
        for study, held_out in results.held_out.items()
        for one in held_out
    ]
