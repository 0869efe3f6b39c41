"""The accuracy table: its cases, their figures, and the text that stands in the manuals.

``make accuracy`` computes every figure anew (``python -m perfmodel.accuracy.table compute``, some minutes) and writes the
table into the pages (``… show``). Needs the published measurements and the project's own records.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ..calibration.fitting import fit
from ..calibration.measured_runs import MeasuredRuns, dataset_name, measured_runs
from ..families.registry import family
from ..prediction.scenario import scenario_of
from ..profiles.kernel_profile import Fidelity
from ..records.measurements import read_measurements
from ..time_model.coefficients import COEFFICIENT_NAMES
from ..time_model.combine import launch_seconds
from .held_out import Coverage, HeldOut, architectures_out, raw_seconds, shapes_out, sign_rate
from .metrics import (
    LEAST_CANDIDATES,
    LEAST_RUNS,
    accuracy,
    largest_regret,
    regrets_by_problem,
    rows_by_problem,
    tau_without_near_ties,
    taus_by_problem,
)

PUBLISHED = {
    "rtx-2080-ti": "tiled_conv2d/rtx-2080-ti.counters.csv",
    "rtx-3090": "tiled_conv2d/rtx-3090.csv",
    "a100-pcie-40gb": "tiled_conv2d/a100-pcie-40gb.csv",
}
"""Files of the published measurements by GPU; the folder is the family."""
OWN = {"h200": "h200.jsonl.gz", "h100-sxm-80gb": "h100.jsonl.gz"}
"""Files of the project's own records by GPU."""
FAMILIES = ("direct_conv2d", "pointwise_conv2d", "conv1d", "ssim")
TILED = "h200, tiled_conv2d"
"""The family that was published, too; the shipped coefficients were fitted to the small tiles of these runs."""
H200 = tuple(f"h200, {name}" for name in FAMILIES)
H100 = tuple(f"h100-sxm-80gb, {name}" for name in (*FAMILIES, "tiled_conv2d"))
WITH_LOCAL_BYTES = ("rtx-2080-ti", "rtx-3090")
"""GPUs whose files say which runs spilled registers."""
UNSPILLED = "tile_size_x * tile_size_y < 24 and local_bytes_per_thread == 0"
SMALL_TILES = "tile_size_x * tile_size_y < 14"

NEAR_TIE = 1.05
"""Factor between two measured times from which on their order is asked for."""
REFIT = 0.005
"""Part by which predictions may differ where another machine makes the same fit."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its standard error, or for a regret how much more it can be where near-equal predictions change places.

    The standard error is that of drawing other runs of the same kind: of a mean σ/√n, of a part √(p(1 − p)/n), of tau the
    bound √(2(1 − τ²)/n) (Kendall, Rank Correlation Methods, 4.12).
    """

    value: float
    error: float

    def agrees(self, other: Figure) -> bool:
        """Whether the two differ by no more than the larger error, to the digits that are kept."""
        return abs(self.value - other.value) <= max(self.error, other.error) + 2 * 10.0**-DIGITS


DIGITS = 4
"""Decimal digits of a committed figure."""
Figures = dict[str, Figure]
"""Figures by name; ``n`` is the number of runs."""
Table = dict[str, dict[str, Figures]]
"""Figures by case and GPU (``h200, conv1d`` for one family of several)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question of the table: which runs of which data sets, and how they are predicted."""

    name: str
    title: str
    datasets: tuple[str, ...]
    where: str | None
    figures: Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]


def figures_of_case(case: Case, published: Path, own: Path) -> dict[str, Figures]:
    """The figures of a case by data set, computed anew from the folders of published measurements and own records."""
    return case.figures([_runs(published, own, name, case.where) for name in case.datasets])


@functools.cache
def _runs(published: Path, own: Path, name: str, where: str | None) -> MeasuredRuns:
    """A data set with stored counts of every run, nothing is compiled; ``where`` chooses among published runs alone."""
    gpu, _, family_name = name.partition(", ")
    scenario = scenario_of(gpu)
    if family_name:
        chosen = family(family_name)
        rows = read_measurements(own / OWN[gpu], chosen)
        return measured_runs(name, chosen, rows, scenario, Fidelity.COMPILED, stored_only=True)
    path = published / PUBLISHED[gpu]
    chosen = family(path.parent.name)
    rows = read_measurements(path, chosen).drawn(where, None, 0)
    return measured_runs(dataset_name(scenario.gpu, 1), chosen, rows, scenario, Fidelity.COMPILED, stored_only=True)


def _name(data: MeasuredRuns) -> str:
    return data.runs.name if ", " in data.runs.name else data.runs.gpu.id


def mean(values: Floats) -> Figure:
    """The mean of independent values.

    >>> mean(np.array([1.0, 3.0]))
    Figure(value=2.0, error=1.0)
    """
    return Figure(value=float(values.mean()), error=float(values.std(ddof=1) / np.sqrt(len(values))))


def part(number: int, of: int) -> Figure:
    """The part ``number`` of ``of``; its error is that of one more of each kind, so that it is not 0 for all or none.

    >>> round(part(24, 27).value, 3), round(part(24, 27).error, 3), part(27, 27).error > 0
    (0.889, 0.066, True)
    """
    p = (number + 1) / (of + 2)
    return Figure(value=number / of, error=float(np.sqrt(p * (1.0 - p) / of)))


def _tau(value: float, n: int) -> Figure:
    return Figure(value=value, error=float(np.sqrt(2.0 * (1.0 - value**2) / n)))


def figures_of(data: MeasuredRuns, predicted_s: Floats) -> Figures:
    """What any prediction of a data set is judged by; of several problems also what each one's own choice costs."""
    measured = data.runs.seconds
    result, n = accuracy(predicted_s, measured), len(measured)
    figures = {
        "n": Figure(value=float(n), error=0.0),
        "mape": mean(np.abs(predicted_s / measured - 1.0)),
        "mape_scaled": mean(np.abs(predicted_s * result.scale / measured - 1.0)),
        "kendall_tau": _tau(result.kendall_tau, n),
    }
    for top, value in ((1, result.regret_top1), (5, result.regret_top5)):
        error = largest_regret(predicted_s, measured, top, REFIT) - value
        figures[f"regret_top{top}"] = Figure(value=value, error=error)
    signs = sign_rate(data.batch, data.problem_index, predicted_s, measured)
    if signs.pairs:
        figures["sensitivity"] = part(signs.right, signs.pairs)
    if len(data.problems) > 1:
        figures |= _within_problems(data, predicted_s)
        figures["tau_without_near_ties"] = _tau(tau_without_near_ties(predicted_s, measured, NEAR_TIE), n)
    return figures


def _within_problems(data: MeasuredRuns, predicted_s: Floats) -> Figures:
    """Tau of each problem's own order and regret of its own choice: the mean over the problems, and the worst."""
    measured = data.runs.seconds
    figures: Figures = {}
    taus = taus_by_problem(predicted_s, measured, data.problem_index)
    if len(taus) > 1:
        worst_tau = int(taus.argmin())
        runs = len(rows_by_problem(data.problem_index, LEAST_RUNS)[worst_tau])
        figures |= {"tau_in_problems": mean(taus), "worst_tau": _tau(float(taus[worst_tau]), runs)}
    rows = rows_by_problem(data.problem_index, LEAST_CANDIDATES)
    for top in (1, 5) if len(rows) > 1 else ():
        regrets = regrets_by_problem(predicted_s, measured, data.problem_index, top)
        logs, highest = mean(np.log(regrets)), float(regrets.max())
        middle = float(np.exp(logs.value))
        most = max(largest_regret(predicted_s[of], measured[of], top, REFIT) for of in rows)
        figures[f"regret_top{top}_in_problems"] = Figure(value=middle, error=middle * logs.error)
        figures[f"worst_regret_top{top}"] = Figure(value=highest, error=most - highest)
    return figures


def _held_out(results: Sequence[HeldOut]) -> dict[str, Figures]:
    by_name = {}
    for one in results:
        covered = {} if one.coverage is None else {"coverage": _coverage(one.coverage)}
        by_name[_name(one.data)] = figures_of(one.data, one.predicted_s) | covered
    return by_name


def _coverage(found: Coverage) -> Figure:
    """The mean over problems; of a single one the part of its runs."""
    parts = found.of_problems
    return part(found.covered, found.n) if parts is None or len(parts) < 2 else mean(parts)


def _only(*names: str) -> Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]:
    """The named data sets with problems held out, by fits to all data sets."""
    return lambda data: _held_out([one for one in shapes_out(data) if _name(one.data) in names])


def _shipped(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """What a user gets who fits nothing: the coefficients that ship."""
    by_name = {}
    for one in data:
        runs, coefficients = one.runs, scenario_of(one.runs.gpu).calibration.coefficients
        by_name[_name(one)] = figures_of(
            one, launch_seconds(runs.profile, runs.blocks_per_sm, runs.gpu, coefficients)[0]
        )
    return by_name


def _from_others(*names: str) -> Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]:
    """The named data sets predicted by one fit to all others."""

    def figures(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
        trained = fit([one.runs for one in data if _name(one) not in names], COEFFICIENT_NAMES)
        return {_name(one): figures_of(one, raw_seconds(one, trained)) for one in data if _name(one) in names}

    return figures


CASES = (
    Case(
        name="shapes",
        title="launch shapes held out, nothing spilled, < 24 outputs a thread",
        datasets=WITH_LOCAL_BYTES,
        where=UNSPILLED,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="shapes-all",
        title="launch shapes held out, all runs",
        datasets=WITH_LOCAL_BYTES,
        where=None,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="architecture-of-three",
        title="fitted on the other two, data sheet only; < 14 outputs",
        datasets=tuple(PUBLISHED),
        where=SMALL_TILES,
        figures=lambda data: _held_out(architectures_out(data)),
    ),
    Case(
        name="shipped-all",
        title="shipped coefficients, all runs",
        datasets=tuple(PUBLISHED),
        where=None,
        figures=_shipped,
    ),
    Case(
        name="own",
        title="own measurements, cold L2: problems held out (ssim: launch shapes)",
        datasets=H200,
        where=None,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="own-tiled",
        title="own measurements, cold L2, of the published family too: problems held out",
        datasets=(*H200, TILED),
        where=None,
        figures=_only(TILED),
    ),
    Case(
        name="unseen-kernels",
        title="own measurements, cold L2, fitted on the published runs alone: other GPUs, another family",
        datasets=(*PUBLISHED, *H200),
        where=SMALL_TILES,
        figures=_from_others(*H200),
    ),
    Case(
        name="unfitted",
        title="own measurements, cold L2, fitted on the family's published runs and on other families here",
        datasets=(*PUBLISHED, *H200, TILED),
        where=SMALL_TILES,
        figures=_from_others(TILED),
    ),
    Case(
        name="relative",
        title="own measurements, cold L2, fitted on the H200 and the published runs: another GPU of a fitted architecture",
        datasets=(*PUBLISHED, *H200, TILED, *H100),
        where=SMALL_TILES,
        figures=_from_others(*H100),
    ),
    Case(
        name="own-shipped",
        title="own measurements, cold L2: shipped coefficients, which have seen all but the larger tiles",
        datasets=(*H200, TILED),
        where=None,
        figures=_shipped,
    ),
)


def read_table(path: Path) -> Table:
    """The committed figures."""
    return {
        case: {gpu: {name: Figure(value=v, error=e) for name, (v, e) in figures.items()} for gpu, figures in of.items()}
        for case, of in json.loads(path.read_text(encoding="utf-8")).items()
    }


def write_table(path: Path, figures: Table) -> None:
    """Write figures with ``DIGITS`` digits: case, GPU, figure, then value and error."""
    plain = {
        case: {
            gpu: {name: [round(one.value, DIGITS), round(one.error, DIGITS)] for name, one in row.items()}
            for gpu, row in of.items()
        }
        for case, of in figures.items()
    }
    text = json.dumps(plain, indent=1).replace("[\n    ", "[")
    path.write_text(text.replace(",\n    ", ", ").replace("\n   ]", "]") + "\n", encoding="utf-8")


def differences(committed: Mapping[str, Figures], figures: Mapping[str, Figures]) -> list[str]:
    """Figures of a case that differ from the committed ones by more than their errors, or stand in one of the two alone."""
    lines = []
    for gpu in dict.fromkeys((*committed, *figures)):
        before, after = committed.get(gpu, {}), figures.get(gpu, {})
        for name in dict.fromkeys((*before, *after)):
            if name not in before or name not in after:
                lines.append(f"{gpu}: {name} stands in one of the two alone")
            elif not before[name].agrees(after[name]):
                lines.append(f"{gpu}: {name} {before[name].value:.4f} became {after[name].value:.4f}")
    return lines


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first ``left`` columns are text, the others numbers, aligned to the right.

    >>> print(markdown_table(("GPU", "tau"), [("h200", "0.94")]))
    | GPU | tau |
    | --- | ---: |
    | h200 | 0.94 |
    """
    rules = ["---" if index < left else "---:" for index in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rules, *rows))


def percent(value: float | None) -> str:
    """A fraction in percent; a dash where there is none.

    >>> percent(0.0329), percent(None)
    ('3.3 %', '–')
    """
    return "–" if value is None else f"{value * 100:.1f} %"


def full_table(figures: Table) -> str:
    """Every row, as Markdown."""
    columns = (
        "predicted by", "GPU", "runs", "MAPE", "tau", "tau without near-ties", "tau inside problems", "regret top-1 / 5",
        "regret top-1 inside problems", "regret top-5 inside problems", "sign of one-step changes", "in the 90 % interval",
    )  # fmt: skip
    titles = {case.name: case.title for case in CASES}
    rows = [(titles[case], gpu, *_full_cells(row)) for case, of in figures.items() for gpu, row in of.items()]
    return markdown_table(columns, rows, left=2)


def _full_cells(row: Figures) -> tuple[str, ...]:
    return (
        f"{row['n'].value:,.0f}",
        _percent(row, "mape_scaled"),
        _numbers(row, "kendall_tau"),
        _numbers(row, "tau_without_near_ties"),
        _numbers(row, "tau_in_problems", "worst_tau"),
        _numbers(row, "regret_top1", "regret_top5"),
        _numbers(row, "regret_top1_in_problems", "worst_regret_top1"),
        _numbers(row, "regret_top5_in_problems", "worst_regret_top5"),
        _percent(row, "sensitivity"),
        _percent(row, "coverage"),
    )


def _numbers(row: Figures, *names: str) -> str:
    return " / ".join(f"{row[name].value:.3f}" if name in row else "–" for name in names if name in row) or "–"


def _percent(row: Figures, name: str) -> str:
    return percent(row[name].value if name in row else None)


def summary_table(figures: Table) -> str:
    """Five rows for the README, as Markdown; where a row is of several data sets, each figure is that of the worst."""
    shapes, own = figures["shapes-all"], {**figures["own"], **figures["own-tiled"]}
    rows = (
        ("published runs on an RTX 2080 Ti, launch shapes held out", shapes["rtx-2080-ti"]),
        ("published runs on an RTX 3090, launch shapes held out", shapes["rtx-3090"]),
        ("a GPU known by its data sheet only: worst of three", worst(figures["architecture-of-three"].values())),
        ("H200, problems held out: worst of five kernel families", worst(own.values())),
        ("H200, GPU and kernel both unseen: worst of four families", worst(figures["unseen-kernels"].values())),
    )
    columns = (
        "runs predicted", "runs", "MAPE after one factor", "tau, pooled", "tau inside problems, mean / worst",
        "regret top-1 inside problems, mean / worst", "in the 90 % interval",
    )  # fmt: skip
    return markdown_table(columns, [(title, *_summary_cells(row)) for title, row in rows])


def _summary_cells(row: Figures) -> tuple[str, ...]:
    """A data set of one problem has the same figures inside it as over all of its runs."""
    inside = ("tau_in_problems", "worst_tau") if "tau_in_problems" in row else ("kendall_tau",)
    regrets = ("regret_top1_in_problems", "worst_regret_top1") if "tau_in_problems" in row else ("regret_top1",)
    return (
        f"{row['n'].value:,.0f}",
        _percent(row, "mape_scaled"),
        _numbers(row, "kendall_tau"),
        _numbers(row, *inside),
        _numbers(row, *regrets),
        _percent(row, "coverage"),
    )


def worst(rows: Iterable[Figures]) -> Figures:
    """Figure by figure the worst of some rows: the largest error and regret, the smallest tau and coverage; all runs.

    A figure that not all rows have is that of those which have it; coverage is left out where one lacks it.
    """
    listed = list(rows)
    result = {"n": Figure(value=sum(row["n"].value for row in listed), error=0.0)}
    for name, choose in (
        ("mape_scaled", max),
        ("regret_top1", max),
        ("regret_top5", max),
        ("regret_top1_in_problems", max),
        ("worst_regret_top1", max),
        ("kendall_tau", min),
        ("tau_in_problems", min),
        ("worst_tau", min),
        ("coverage", min),
    ):
        known = [row for row in listed if name in row]
        if len(known) == len(listed) or (known and name != "coverage"):
            result[name] = choose((row[name] for row in known), key=lambda figure: figure.value)
    return result


TEXTS: Mapping[str, Callable[[Table], str]] = {"accuracy table": full_table, "accuracy summary": summary_table}
"""What stands in a page between the comments ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""


def filled(page: str, figures: Table) -> str:
    """The page with the tables that it has places for made anew."""
    for name, text in TEXTS.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if begin in page:
            head, rest = page.split(begin, 1)
            page = f"{head}{begin}\n{text(figures)}\n{end}{rest.split(end, 1)[1]}"
    return page


app = typer.Typer(help=__doc__, add_completion=False)
FiguresArgument = Annotated[Path, typer.Argument(metavar="FIGURES.json", help="The committed figures.")]


@app.command()
def compute(
    path: FiguresArgument,
    published: Annotated[Path, typer.Option(envvar="PERFMODEL_DATA", help="Folder of the published measurements.")],
    own: Annotated[Path, typer.Option(help="Folder of the project's own records.")],
    only: Annotated[list[str] | None, typer.Option(help="Cases to compute; the others stay as they are.")] = None,
) -> None:
    """Compute the figures of every case anew; each is written when it is done."""
    known = read_table(path) if path.exists() else {}
    for case in CASES:
        if only is None or case.name in only:
            known[case.name] = figures_of_case(case, published, own)
            write_table(path, {one.name: known[one.name] for one in CASES if one.name in known})
            typer.echo(f"{case.name}: {len(known[case.name])} rows", err=True)


@app.command()
def show(
    path: FiguresArgument,
    page: Annotated[list[Path] | None, typer.Option(help="Markdown file to put the tables into.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="The five rows of the README.")] = False,
) -> None:
    """Print the table as Markdown, or put it into pages."""
    figures: Any = read_table(path)
    for one in page or ():
        one.write_text(filled(one.read_text(encoding="utf-8"), figures), encoding="utf-8")
    if not page:
        typer.echo(summary_table(figures) if summary else full_table(figures))


if __name__ == "__main__":
    app()
