"""The page of a ranking: the best configurations, and why the winner takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmodel.core.json_values import plain
from perfmodel.core.units import time_text
from perfmodel.families.registry import family_of
from perfmodel.prediction.differences import alike
from perfmodel.prediction.explanation import Change, neighbours, sensitivity, why_first
from perfmodel.prediction.limiter_names import limiter_text
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import Ranking
from perfmodel.prediction.scenario import Scenario
from perfmodel.prediction.throughput import throughput
from perfmodel.time_model.combine import LIMITER_NAMES

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
from .ranking_drawings import occupancy_drawing, roofline_drawing, time_drawing
from .scenario_text import fields_text, interval_paragraph, scenario_pairs


def ranking_page(ranking: Ranking, scenario: Scenario, command: str) -> Page:
    """The whole page; ``command`` is what prints it again."""
    roofline = roofline_drawing(ranking, scenario.gpu)
    sections = (
        Section(name="best", heading="Best configurations", blocks=(_best_table(ranking.top),)),
        Section(name="time", heading="Where the time goes", blocks=(*_time_blocks(ranking), time_drawing(ranking))),
        Section(
            name="roofs",
            heading="How near the peak rates",
            blocks=(_headroom_table(ranking.best, scenario), *(() if roofline is None else (roofline,))),
        ),
        Section(
            name="occupancy",
            heading="Registers and occupancy",
            blocks=(Paragraph(text=_occupancy_text(ranking.best)), occupancy_drawing(ranking, scenario.gpu)),
        ),
        Section(name="sensitivity", heading="What one change would do", blocks=_sensitivity_blocks(ranking, scenario)),
        Section(name="counts", heading="What the winner does", blocks=(_counts_table(ranking.best),)),
        Section(name="left-out", heading="What was left out, and notes", blocks=_left_out(ranking)),
        Section(
            name="reading",
            heading="How sure this is",
            blocks=(interval_paragraph(scenario, ranking.kernel, ranking.fidelity),),
        ),
    )
    return Page(
        title=f"{ranking.kernel} on {scenario.gpu.name}",
        answer=_answer(ranking),
        facts=Facts(pairs=(*_facts(ranking), *scenario_pairs(scenario))),
        sections=sections,
        command=command,
    )


def _answer(ranking: Ranking) -> str:
    best = ranking.best
    bounds = best.time.interval_s
    within = "" if bounds is None else f" (90 % interval {time_text(bounds[0])} … {time_text(bounds[1])})"
    return (
        f"Run {fields_text(best.configuration)}: predicted {time_text(best.time.predicted_s)}{within}, "
        f"limited by {limiter_text(best.time.limiter)}."
    )


def _facts(ranking: Ranking) -> tuple[tuple[str, str], ...]:
    refused = sum(ranking.rejected.values())
    return (
        ("problem", fields_text(ranking.problem)),
        ("candidates", f"{ranking.candidates:,}, of which {refused:,} cannot run"),
        ("counts from", ranking.fidelity.value + (", exact" if ranking.best.exact else ", estimated")),
    )


def _best_table(top: Sequence[Prediction]) -> Table:
    fields = list(plain(top[0].configuration))
    columns = (
        Column(title="#", order="ascending"),
        *columns_of(("predicted µs", "from µs", "to µs", "limiter"), text=("limiter",)),
        *(Column(title=name, numeric=_numeric(top, name)) for name in fields),
        *columns_of(("registers", "shared bytes", "blocks per SM", "occupancy %", "counts"), text=("counts",)),
    )
    rows = tuple(_best_row(place, found) for place, found in enumerate(top, 1))
    return Table(
        name="ranking",
        caption="Fastest first; from and to bound the 90 % interval. Press a header to sort.",
        columns=columns,
        rows=rows,
    )


def _numeric(top: Sequence[Prediction], field: str) -> bool:
    """Whether any configuration gives the field a number; "no effect" beside numbers is their absence."""
    return any(words(plain(found.configuration)[field]).value is not None for found in top)


def _best_row(place: int, found: Prediction) -> tuple[Cell, ...]:
    resources, resident, time = found.resources, found.occupancy, found.time
    low, high = (None, None) if time.interval_s is None else time.interval_s
    return (
        number(place),
        microseconds(time.predicted_s),
        microseconds(low),
        microseconds(high),
        words(time.limiter.replace("_", " ")),
        *(words(value) for value in plain(found.configuration).values()),
        number(resources.registers_per_thread),
        number(resources.static_shared_bytes + resources.dynamic_shared_bytes),
        number(resident.blocks_per_sm),
        percent(resident.fraction),
        words("exact" if found.exact else "estimated"),
    )


def rival_place(top: Sequence[Prediction]) -> int | None:
    """Index of the first configuration that the model can tell from the winner; None where there is none."""
    ties = alike([found.time.predicted_s for found in top])
    return ties if ties < len(top) else None


def _why_text(top: Sequence[Prediction]) -> str:
    why = why_first(top)
    return f"{why[0].upper()}{why[1:]}."


def _time_blocks(ranking: Ranking) -> tuple[Block, ...]:
    first, rival = ranking.best, rival_place(ranking.top)
    second = None if rival is None else ranking.top[rival]
    rows = []
    for name in LIMITER_NAMES:
        here = float(getattr(first.time.terms, name))
        there = 0.0 if second is None else float(getattr(second.time.terms, name))
        if here > 0 or there > 0:
            saved = () if second is None else (microseconds(there), microseconds(there - here))
            share = percent(here / first.time.predicted_s)
            rows.append((words(name.replace("_", " ")), microseconds(here), share, *saved, words(limiter_text(name))))
    compared = () if rival is None else (f"#{rival + 1} µs", "saved µs")
    table = Table(
        name="terms",
        caption="Time of each resource as if it worked alone"
        + ("" if rival is None else f"; what #1 saves against #{rival + 1}"),
        columns=columns_of(
            ("term", "#1 µs", "#1, % of its time", *compared, "what it is"), text=("term", "what it is")
        ),
        rows=tuple(rows),
    )
    overhead = time_text(float(first.time.terms.launch_overhead))
    return (
        Paragraph(text=_why_text(ranking.top)),
        table,
        Paragraph(text=f"Launching takes about {overhead} beside this time and is not in it."),
    )


def _headroom_table(best: Prediction, scenario: Scenario) -> Table:
    reached = throughput(best, scenario.gpu)
    l1, l2, dram = reached.level_shares
    pairs = (
        ("FP32 operations", reached.fp32_share),
        ("L1 and shared memory bandwidth", l1),
        ("L2 bandwidth", l2),
        ("DRAM bandwidth", dram),
    )
    return Table(
        name="headroom",
        caption="What the winner reaches of the GPU's rates",
        columns=columns_of(("rate", "% of peak", "left %"), text=("rate",)),
        rows=tuple((words(name), percent(part), percent(1 - part)) for name, part in pairs),
    )


def _occupancy_text(best: Prediction) -> str:
    resident, resources = best.occupancy, best.resources
    return (
        f"The winner uses {resources.registers_per_thread} registers per thread; {resident.blocks_per_sm} of its blocks "
        f"({resident.warps_per_sm} warps, {resident.fraction:.0%} of what an SM holds) fit on an SM, limited by "
        f"{resident.limiter.replace('_', ' ')}. The grid has {resident.waves_per_sm:.2f} waves per SM; about "
        f"{resident.achieved_fraction:.0%} of the warps are there on average."
    )


def _sensitivity_blocks(ranking: Ranking, scenario: Scenario) -> tuple[Block, ...]:
    closed = family_of(ranking.problem).closed_forms
    changes = sensitivity(ranking.best, scenario) if closed else _executed_changes(ranking, scenario)
    if not changes:
        return (Paragraph(text="No neighbour of the winner is known."),)
    now = plain(ranking.best.configuration)
    titles = ("field", "from", "to", "time %", "cannot run because")
    basis = "by closed forms on both sides" if closed else "both executed"
    return (
        Table(
            name="sensitivity",
            caption=f"One field changed, the others as in the winner, {basis}",
            columns=columns_of(titles, text=("field", "from", "to", "cannot run because")),
            rows=tuple(_change_row(now, change) for change in changes),
        ),
    )


def _executed_changes(ranking: Ranking, scenario: Scenario) -> list[Change]:
    """What a change does where only execution shows it: that of a neighbour of the winner that is in the ranking."""
    best = ranking.best
    seconds = {found.configuration: found.time.predicted_s for found in ranking.top}
    changes = neighbours(family_of(ranking.problem), ranking.problem, best.configuration, scenario.gpu)
    return [
        Change(
            field=name,
            value=value,
            ratio=seconds[configuration] / best.time.predicted_s,
            rejection=None,
            configuration=configuration,
        )
        for name, value, configuration in changes
        if configuration in seconds
    ]


def _change_row(now: dict[str, Any], change: Change) -> tuple[Cell, ...]:
    moved = percent(None if change.ratio is None else change.ratio - 1, signed=True)
    return words(change.field), words(now[change.field]), words(change.value), moved, words(change.rejection or "")


def _counts_table(best: Prediction) -> Table:
    return Table(
        name="counts",
        caption="Counts of the whole launch" + ("" if best.exact else " (estimated)"),
        columns=columns_of(("count", "value"), text=("count",)),
        rows=tuple((words(name), number(float(value))) for name, value in best.counts.items() if float(value)),
    )


def _left_out(ranking: Ranking) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if ranking.rejected:
        rows = tuple((words(reason), number(count)) for reason, count in ranking.rejected.items())
        columns = columns_of(("reason", "candidates"), text=("reason",))
        blocks.append(Table(name="rejected", caption="Candidates that cannot run", columns=columns, rows=rows))
    notes = dict.fromkeys((*ranking.notes, *ranking.best.notes))
    blocks += [Paragraph(text=note) for note in notes]
    return tuple(blocks) or (Paragraph(text="Nothing was left out."),)
