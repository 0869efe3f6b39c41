"""One analysed launch as a page: what to change, source beside PTX and machine code, a block's warps, roofline, terms, counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmodel.advice.advise import Advised
from perfmodel.core.constants import SECTOR_BYTES, WAVEFRONT_BYTES
from perfmodel.core.units import time_text
from perfmodel.prediction.analyze import Analysis
from perfmodel.prediction.limiter_names import limiter_text
from perfmodel.prediction.source_view import CodeLine, SourceFile, SourceView
from perfmodel.simulator.faults import fault_texts

from .analysis_drawings import timeline_drawing
from .parts import (
    Block,
    Cell,
    CodePane,
    CodeRow,
    CodeView,
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
from .roofline_drawing import roofline
from .scenario_text import scenario_pairs

_SOURCE_COLUMNS = ("instructions", "excess sectors", "excess wavefronts", "µs", "µs of excess")
_MACHINE_COLUMNS = ("executed", "µs")
_BLANK = Cell(text="")


@dataclass(slots=True)
class _Excess:
    """What the accesses of one source line ask for beyond what they need, and what that costs."""

    sectors: float = 0.0
    wavefronts: float = 0.0
    seconds: float = 0.0


def analysis_page(analysis: Analysis, advised: Advised, command: str) -> Page:
    """The page of an analysis.

    Args:
        analysis: of one launch, with its memory instructions (``lines=True``).
        advised: what to change in it.
        command: prints the page again.
    """
    prediction, shape = analysis.prediction, analysis.configuration
    time = prediction.time
    grid, block = ("x".join(map(str, sizes)) for sizes in (shape.grid, shape.block))
    answer = f"Predicted {time_text(time.predicted_s)}, limited by {limiter_text(time.limiter)}."
    if advised.changes:
        best = advised.changes[0]
        answer += f" Worth most: {best.change} ({time_text(best.then_s)})."
    return Page(
        title=f"{prediction.kernel} on {prediction.gpu}",
        answer=answer,
        facts=_facts(analysis, grid, block),
        sections=tuple(section for section in _sections(analysis, advised) if section.blocks),
        command=command,
    )


def _facts(analysis: Analysis, grid: str, block: str) -> Facts:
    prediction = analysis.prediction
    interval = prediction.time.interval_s
    resources = prediction.resources
    return Facts(
        pairs=(
            ("launch", f"grid {grid}, block {block}"),
            ("90 % interval", "–" if interval is None else " … ".join(map(time_text, interval))),
            ("backed by", prediction.time.calibration_status),
            ("counts", "exact" if prediction.exact else "estimated"),
            ("registers per thread", str(resources.registers_per_thread)),
            ("shared memory", f"{resources.static_shared_bytes + resources.dynamic_shared_bytes:,} bytes"),
            ("spilled", f"{resources.spill_store_bytes} bytes"),
            ("occupancy", prediction.occupancy.text),
            *scenario_pairs(analysis.scenario)[:3],
        )
    )


def _sections(analysis: Analysis, advised: Advised) -> tuple[Section, ...]:
    drawn = roofline({analysis.prediction.kernel: analysis.prediction}, analysis.scenario.gpu, "the launch")
    none = Paragraph(text="The launch does no FP32 work that a roof could limit.")
    warps = timeline_drawing(analysis)
    notes = (*fault_texts(analysis.faults), *analysis.prediction.notes)
    return (
        Section(name="changes", heading="What to change", blocks=_changes(advised)),
        Section(name="source", heading="Source, PTX, machine code", blocks=(_code_view(analysis, advised),)),
        Section(name="warps", heading="Warps of a block", blocks=() if warps is None else (warps,)),
        Section(
            name="rates", heading="Rates and roofline", blocks=(_rates(analysis), none if drawn is None else drawn)
        ),
        Section(name="terms", heading="Time of each resource", blocks=(_terms(analysis),)),
        Section(name="counts", heading="Counts", blocks=(_counts(analysis),)),
        Section(name="notes", heading="Notes", blocks=tuple(Paragraph(text=text) for text in notes)),
    )


def _changes(advised: Advised) -> tuple[Block, ...]:
    if not advised.changes:
        return (Paragraph(text=f"Nothing was found that would gain more than {advised.least_gain:.0%}."),)
    rows = tuple(
        (
            number(place),
            words(", ".join(change.places) or "launch"),
            words(change.finding),
            words(change.change),
            microseconds(change.then_s),
            percent(change.gain),
        )
        for place, change in enumerate(advised.changes, 1)
    )
    titles = ("#", "where", "what is wrong", "what to do", "predicted µs", "gain %")
    caption = f"Each change predicted again; none that gains less than {advised.least_gain:.0%}"
    columns = columns_of(titles, text=("where", "what is wrong", "what to do"))
    return (Table(name="changes", caption=caption, columns=columns, rows=rows, sortable=False),)


def _code_view(analysis: Analysis, advised: Advised) -> CodeView:
    view = analysis.source_view
    excess = _excess_by_place(analysis, advised)
    panes = [_source_pane(f"source-{place}", file, excess) for place, file in enumerate(view.sources)]
    if view.ptx:
        panes.append(CodePane(name="ptx", title="PTX", columns=(), rows=tuple(_plain_row(line) for line in view.ptx)))
    if view.machine_code:
        panes.append(
            CodePane(
                name="machine",
                title="machine code",
                columns=_MACHINE_COLUMNS,
                rows=tuple(_machine_row(line, _most(view.machine_code)) for line in view.machine_code),
            )
        )
    return CodeView(name="code", caption=_caption(view), panes=tuple(panes))


def _source_pane(name: str, file: SourceFile, excess: Mapping[str, _Excess]) -> CodePane:
    """A source file with those of the columns in which a line has something."""
    cells = [_source_cells(line, excess) for line in file.lines]
    shown = [column for column in range(len(_SOURCE_COLUMNS)) if any(row[column].text for row in cells)]
    most = _most(file.lines)
    return CodePane(
        name=name,
        title=file.name,
        columns=tuple(_SOURCE_COLUMNS[column] for column in shown),
        rows=tuple(
            CodeRow(
                place=line.place,
                label=line.label,
                text=line.text,
                numbers=tuple(row[column] for column in shown),
                heat=_heat(line, most),
            )
            for line, row in zip(file.lines, cells, strict=True)
        ),
    )


def _caption(view: SourceView) -> str:
    timed = any(line.seconds is not None for line in view.machine_code)
    times = (
        "µs are the parts of the predicted time in which warps stand at a line, waiting included, by the model of one SM; "
        "they sum to the predicted time. "
        if timed
        else ""
    )
    return (
        f"A click on a line marks what belongs to it in the other panes. {times}"
        "Instructions are those of warps, in the whole launch."
    )


def _most(lines: Sequence[CodeLine]) -> float:
    return max((line.seconds or 0.0 for line in lines), default=0.0)


def _heat(line: CodeLine, most: float) -> float:
    return (line.seconds or 0.0) / most if most else 0.0


def _source_cells(line: CodeLine, excess: Mapping[str, _Excess]) -> tuple[Cell, ...]:
    """What stands in each of the columns."""
    if not line.place:
        return (_BLANK,) * len(_SOURCE_COLUMNS)
    own = excess.get(line.place, _Excess())
    return (
        number(line.instructions),
        number(own.sectors) if own.sectors else _BLANK,
        number(own.wavefronts) if own.wavefronts else _BLANK,
        _BLANK if line.seconds is None else microseconds(line.seconds),
        microseconds(own.seconds) if own.seconds else _BLANK,
    )


def _machine_row(line: CodeLine, most: float) -> CodeRow:
    numbers = (number(line.instructions), microseconds(line.seconds))
    return CodeRow(place=line.place, label=line.label, text=line.text, numbers=numbers, heat=_heat(line, most))


def _plain_row(line: CodeLine) -> CodeRow:
    return CodeRow(place=line.place, label=line.label, text=line.text)


def _excess_by_place(analysis: Analysis, advised: Advised) -> Mapping[str, _Excess]:
    found: defaultdict[str, _Excess] = defaultdict(_Excess)
    for row in analysis.instructions:
        own = found[f"{row.file}:{row.line}"]
        if row.space == "shared":
            own.wavefronts += row.excess_bytes / WAVEFRONT_BYTES
        else:
            own.sectors += row.excess_bytes / SECTOR_BYTES
    for line in advised.excess:
        found[line.place].seconds += line.excess_s
    return found


def _rates(analysis: Analysis) -> Table:
    reached = analysis.throughput
    names = ("L1 and shared memory", "L2", "DRAM")
    levels = zip(names, reached.levels, reached.level_shares, strict=True)
    rows = (
        (
            words("FP32"),
            number(reached.fp32_operations / reached.seconds / 1e9),
            words("GFLOP/s"),
            percent(reached.fp32_share),
        ),
        (
            words("tensor cores"),
            number(reached.tensor_operations / reached.seconds / 1e9),
            words("GFLOP/s"),
            percent(reached.tensor_share),
        ),
        *(
            (words(name), number(one.moved_bytes / reached.seconds / 1e9), words("GB/s"), percent(share))
            for name, one, share in levels
        ),
    )
    columns = columns_of(("resource", "rate", "unit", "% of peak"), text=("resource", "unit"))
    intensity = "" if not reached.intensity else f"; {reached.intensity:.3g} operations for each byte of DRAM"
    return Table(
        name="rates-table", caption=f"What the launch achieves{intensity}", columns=columns, rows=rows, sortable=False
    )


def _terms(analysis: Analysis) -> Table:
    time = analysis.prediction.time
    rows = tuple(
        (words(name.replace("_", " ")), microseconds(float(value)), percent(float(value) / time.predicted_s))
        for name, value in time.terms.items()
        if float(value) > 0
    )
    columns = columns_of(("term", "µs", "% of the time"), text=("term",))
    return Table(
        name="terms-table", caption="As if each resource worked alone; they overlap", columns=columns, rows=rows
    )


def _counts(analysis: Analysis) -> Table:
    counts = analysis.prediction.counts.items()
    rows = tuple((words(name), number(float(value))) for name, value in counts if float(value))
    columns = columns_of(("count", "value"), text=("count",))
    return Table(name="counts-table", caption="Of the whole launch", columns=columns, rows=rows)
