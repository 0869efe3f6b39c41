"""The page of a ranking: the best configurations, and why the winner takes its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmodel.cli.output import time_text
from perfmodel.conditions import Conditions
from perfmodel.explanation import WhatIf, headroom, limiter_text, what_if, why_first
from perfmodel.families.registry import family_of
from perfmodel.prediction import Prediction, plain
from perfmodel.ranking import Ranking
from perfmodel.time.combine import LIMITER_NAMES

from .conditions_told import condition_pairs, evidence_paragraph, fields_text
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


def ranking_page(ranking: Ranking, under: Conditions, command: str) -> Page:
    """The whole page; ``command`` is what prints it again."""
    roofline = roofline_drawing(ranking, under.gpu)
    sections = (
        Section(name="best", heading="Best configurations", blocks=(_best_table(ranking.top),)),
        Section(name="time", heading="Where the time goes", blocks=(*_time_blocks(ranking), time_drawing(ranking))),
        Section(
            name="roofs",
            heading="How near the roofs",
            blocks=(_headroom_table(ranking.best, under), *(() if roofline is None else (roofline,))),
        ),
        Section(
            name="occupancy",
            heading="Registers and occupancy",
            blocks=(Paragraph(text=_occupancy_text(ranking.best)), occupancy_drawing(ranking, under.gpu)),
        ),
        Section(name="what-if", heading="What one change would do", blocks=_what_if_blocks(ranking.best, under)),
        Section(name="counts", heading="What the winner does", blocks=(_counts_table(ranking.best),)),
        Section(name="left-out", heading="What was left out, and notes", blocks=_left_out(ranking)),
        Section(name="reading", heading="How sure this is", blocks=(evidence_paragraph(under),)),
    )
    return Page(
        title=f"{ranking.kernel} on {under.gpu.name}",
        answer=_answer(ranking),
        facts=Facts(pairs=(*_facts(ranking), *condition_pairs(under))),
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


def _time_blocks(ranking: Ranking) -> tuple[Block, ...]:
    first, *others = ranking.top
    second = others[0] if others else None
    told = why_first(ranking.top)
    rows = []
    for name in LIMITER_NAMES:
        here = float(getattr(first.time.terms, name))
        there = None if second is None else float(getattr(second.time.terms, name))
        if here > 0 or (there is not None and there > 0):
            saved = () if there is None else (microseconds(there), microseconds(there - here))
            share = percent(here / first.time.predicted_s)
            rows.append((words(name.replace("_", " ")), microseconds(here), share, *saved, words(limiter_text(name))))
    titles = ("term", "#1 µs", "#1, % of its time", *(() if second is None else ("#2 µs", "saved µs")), "what it is")
    table = Table(
        name="terms",
        caption="Time of each resource as if it worked alone"
        + ("" if second is None else "; what the first saves against the second"),
        columns=columns_of(titles, text=("term", "what it is")),
        rows=tuple(rows),
    )
    overhead = time_text(float(first.time.terms.launch_overhead))
    return (
        Paragraph(text=f"{told[0].upper()}{told[1:]}."),
        table,
        Paragraph(text=f"Launching takes about {overhead} beside this time and is not in it."),
    )


def _headroom_table(best: Prediction, under: Conditions) -> Table:
    roofs = headroom(best, under.gpu)
    pairs = (("FP32 multiply-adds", roofs.fp32), ("L2 bandwidth", roofs.l2), ("DRAM bandwidth", roofs.dram))
    return Table(
        name="headroom",
        caption="What the winner reaches of the GPU's rates",
        columns=columns_of(("roof", "reached %", "left %"), text=("roof",)),
        rows=tuple((words(name), percent(part), percent(1 - part)) for name, part in pairs),
    )


def _occupancy_text(best: Prediction) -> str:
    resident, resources = best.occupancy, best.resources
    return (
        f"The winner uses {resources.registers_per_thread} registers per thread; {resident.blocks_per_sm} of its blocks "
        f"({resident.warps_per_sm} warps, {resident.fraction:.0%} of what an SM holds) are resident, limited by "
        f"{resident.limiter.replace('_', ' ')}."
    )


def _what_if_blocks(best: Prediction, under: Conditions) -> tuple[Block, ...]:
    if not family_of(best.problem).closed_forms:
        return (Paragraph(text="This kernel has no closed forms; compare the rows of the first table."),)
    changes = what_if(best, under)
    if not changes:
        return (Paragraph(text="There is no other value of any field."),)
    now = plain(best.configuration)
    titles = ("field", "from", "to", "time %", "cannot run because")
    return (
        Table(
            name="what-if",
            caption="One field changed, the others as in the winner, by closed forms on both sides",
            columns=columns_of(titles, text=("field", "from", "to", "cannot run because")),
            rows=tuple(_change_row(now, change) for change in changes),
        ),
    )


def _change_row(now: dict[str, Any], change: WhatIf) -> tuple[Cell, ...]:
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
