"""The page of a validation: how good the predictions are, where they are worst, and every row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfmodel.accuracy.metrics import WithinProblems
from perfmodel.accuracy.validating import Validation
from perfmodel.core.json_values import plain
from perfmodel.time_model.combine import LIMITER_NAMES

from .measured_runs import Comparison
from .parts import (
    Block,
    Cell,
    Column,
    Facts,
    Page,
    Paragraph,
    Section,
    Table,
    columns_of,
    microseconds,
    number,
    percent,
    words,
)
from .scenario_text import fields_text, interval_paragraph, scenario_pairs
from .validation_drawings import limiter_drawing, measured_drawing, regret_drawing

WORST_ROWS = 10
ROWS_CAPTION = "In the file's order, numbered without what was left out. Press a header to sort."


def validation_page(found: Validation, runs: Comparison, command: str) -> Page:
    """The whole page; ``command`` is what prints it again."""
    by_limiter = limiter_drawing(runs)
    drawings = [measured_drawing(runs), regret_drawing(runs), *(() if by_limiter is None else (by_limiter,))]
    fields = _fields(runs)
    errors = np.abs(runs.scaled_s / runs.measured_s - 1)
    worst = np.argsort(-errors, kind="stable")[:WORST_ROWS]
    sections = [
        Section(name="accuracy", heading="Accuracy", blocks=(_accuracy_table(found),)),
        Section(name="figures", heading="Predicted and measured", blocks=tuple(drawings)),
        Section(
            name="worst",
            heading="Worst rows",
            blocks=(_runs_table("worst", "Largest error after one factor first", runs, fields, worst.tolist()),),
        ),
        Section(name="agreement", heading="Counts against hardware counters", blocks=_agreement_blocks(found)),
        Section(
            name="rows",
            heading="Every row",
            blocks=(
                _runs_table(
                    "rows",
                    ROWS_CAPTION,
                    runs,
                    fields,
                    range(len(errors)),
                ),
            ),
        ),
        Section(
            name="reading",
            heading="How sure this is, and notes",
            blocks=(
                interval_paragraph(runs.scenario, found.kernel, found.fidelity),
                *(Paragraph(text=note) for note in found.notes),
            ),
        ),
    ]
    return Page(
        title=f"{found.kernel} on {runs.scenario.gpu.name}: predicted and measured",
        answer=_answer(found),
        facts=Facts(pairs=(*_facts(found, runs), *scenario_pairs(runs.scenario))),
        sections=tuple(sections),
        command=command,
    )


def _answer(found: Validation) -> str:
    agreement = found.accuracy
    return (
        f"Over {agreement.n:,} runs the error is {agreement.mape:.1%} on average, {agreement.mape_scaled:.1%} after one "
        f"factor of {agreement.scale:.3f}; Kendall's tau is {number(agreement.kendall_tau).text}. The configuration predicted "
        f"fastest takes {agreement.regret_top1:.3f} times as long as the best of the file, the best of the five predicted "
        f"fastest {agreement.regret_top5:.3f} times."
    )


def _facts(found: Validation, runs: Comparison) -> tuple[tuple[str, str], ...]:
    problems = runs.measurements.problems
    shown = fields_text(problems[0]) if len(problems) == 1 else f"{len(problems):,} problems"
    return (
        ("problem", shown),
        ("measurements", runs.measurements.path.name),
        ("rows", f"{found.accuracy.n:,} compared, {found.rejected:,} cannot be predicted"),
        ("counts from", found.fidelity.value),
    )


def _accuracy_table(found: Validation) -> Table:
    agreement = found.accuracy
    rows = (
        ("MAPE %", "mean of |predicted − measured| / measured", percent(agreement.mape)),
        ("MAPE after one factor %", "the same with predictions times the factor below", percent(agreement.mape_scaled)),
        ("median error %", "half of the rows are nearer", percent(agreement.median_ape)),
        ("90 % quantile of the error %", "nine of ten rows are nearer", percent(agreement.p90_ape)),
        ("factor", "median of measured / predicted", number(agreement.scale)),
        ("Kendall's tau-b", "1: the order is right, 0: no relation", number(agreement.kendall_tau)),
        ("Spearman's rho", "the same by ranks", number(agreement.spearman)),
        ("regret of the top 1", "its measured time over the best of the file", number(agreement.regret_top1)),
        ("regret of the top 5", "the best of these over the best of the file", number(agreement.regret_top5)),
        ("regret of the top 10", "the best of these over the best of the file", number(agreement.regret_top10)),
        *_within_problems(agreement.within_problems),
    )
    return Table(
        name="accuracy",
        caption=f"{agreement.n:,} rows",
        columns=columns_of(("measure", "what it is", "value"), text=("measure", "what it is")),
        rows=tuple((words(name), words(meaning), value) for name, meaning, value in rows),
        sortable=False,
    )


def _within_problems(found: WithinProblems | None) -> tuple[tuple[str, str, Cell], ...]:
    """What holds inside problems, where there are any of enough runs."""
    if found is None:
        return ()
    order, choice = f"of {found.problems:,} problems", f"of {found.regret_problems:,} problems: its own best"
    taus = (
        ("tau-b inside problems, mean", order, number(found.kendall_tau_mean)),
        ("tau-b inside problems, worst", order, number(found.kendall_tau_worst)),
    )
    regrets = (
        ("regret of the top 1 inside problems, mean", choice, number(found.regret_top1_mean)),
        ("regret of the top 1 inside problems, worst", choice, number(found.regret_top1_worst)),
        ("regret of the top 5 inside problems, mean", choice, number(found.regret_top5_mean)),
        ("regret of the top 5 inside problems, worst", choice, number(found.regret_top5_worst)),
    )
    return (taus if found.problems else ()) + (regrets if found.regret_problems else ())


def _agreement_blocks(found: Validation) -> tuple[Block, ...]:
    if not found.counts:
        return (Paragraph(text="The file has no hardware counters."),)
    rows = tuple(
        (
            words(c.count),
            number(c.n),
            percent(c.exact_fraction),
            percent(c.median_relative_error),
            percent(c.max_relative_error),
        )
        for c in found.counts
    )
    titles = ("count", "rows", "exact %", "median error %", "largest error %")
    return (
        Table(
            name="agreement",
            caption="|predicted − counted| / max(counted, 1)",
            columns=columns_of(titles, text=("count",)),
            rows=rows,
        ),
    )


def _fields(runs: Comparison) -> list[tuple[str, list[Cell]]]:
    """What distinguishes the rows: the problem's fields where they differ, and the configuration's; a cell for each row."""
    measurements = runs.measurements
    problems = [{name: words(value) for name, value in plain(problem).items()} for problem in measurements.problems]
    differing = [name for name in problems[0] if len({problem[name] for problem in problems}) > 1]
    found = [(name, [problems[index][name] for index in measurements.problem_index.tolist()]) for name in differing]
    configurations = [plain(runs.batch.configuration(row)) for row in range(len(measurements))]
    return found + [(name, [words(values[name]) for values in configurations]) for name in configurations[0]]


def _runs_table(
    name: str, caption: str, runs: Comparison, fields: Sequence[tuple[str, list[Cell]]], rows: Sequence[int]
) -> Table:
    scaled = runs.scaled_s
    columns = (
        Column(title="#", order="ascending" if isinstance(rows, range) else None),
        *columns_of(
            ("measured µs", "predicted µs", "error %", "error after factor %", "limiter"),
            text=("limiter",),
        ),
        *(Column(title=field, numeric=any(cell.value is not None for cell in cells)) for field, cells in fields),
    )

    def cells(row: int) -> tuple[Cell, ...]:
        measured, predicted = float(runs.measured_s[row]), float(runs.predicted_s[row])
        return (
            number(row + 1),
            microseconds(measured),
            microseconds(predicted),
            percent(predicted / measured - 1, signed=True),
            percent(float(scaled[row]) / measured - 1, signed=True),
            words(LIMITER_NAMES[int(runs.limiters[row])].replace("_", " ")),
            *(values[row] for _, values in fields),
        )

    return Table(name=name, caption=caption, columns=columns, rows=tuple(cells(row) for row in rows))
