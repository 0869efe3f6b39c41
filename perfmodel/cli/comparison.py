"""Several launches in one table: how long each takes, which the model cannot tell apart, what the slower ones take longer for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..core.units import count_text, interval_text, time_text
from .output import print_instructions, print_table

if TYPE_CHECKING:
    from ..advice.advise import Advised
    from ..prediction.analyze import Analysis


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of the launches that are compared, as the user named it; None where nothing was said."""

    file: Path
    kernel: str | None
    grid: str | None
    block: str | None
    gpu: str


def differing(variants: Sequence[Variant]) -> list[str]:
    """The names of the fields in which variants differ, in order.

    >>> one = Variant(file=Path("a.cu"), kernel="k", grid="1", block="32", gpu="h200")
    >>> differing([one, Variant(file=Path("b.cu"), kernel="k", grid="1", block="32", gpu="t4")])
    ['file', 'gpu']
    """
    return [field.name for field in fields(Variant) if len({getattr(one, field.name) for one in variants}) > 1]


def print_comparison(variants: Sequence[Variant], found: Sequence[Analysis], advised: Sequence[Advised]) -> None:
    """A row for each variant, what their differences come from, their changes, and the notes that they have."""
    names = differing(variants)
    times = [analysis.prediction.time.predicted_s for analysis in found]
    least = min(times)
    rows = []
    for variant, analysis in zip(variants, found, strict=True):
        prediction = analysis.prediction
        time, counts, resident = prediction.time, prediction.counts, prediction.occupancy
        rows.append(
            (
                *(_cell(variant, name) for name in names),
                time.limiter,
                time_text(time.predicted_s),
                _against(time.predicted_s, least),
                interval_text(time.interval_s),
                prediction.resources.registers_per_thread,
                f"{resident.fraction:.0%}",
                f"{resident.achieved_fraction:.0%}",
                f"{resident.waves_per_sm:.2f}",
                count_text(float(counts.warp_instructions)),
                f"{count_text(float(counts.dram_read_bytes + counts.dram_write_bytes))}B",
                "exact" if prediction.exact else "estimated",
            )
        )
    columns = (
        *(name if name != "gpu" else "GPU" for name in names),
        "limiter",
        "predicted",
        "against the fastest",
        "90 % within",
        "registers",
        "occupancy",
        "achieved",
        "waves",
        "warp instructions",
        "DRAM",
        "counts",
    )
    print_table(_title(found, names), columns, rows, len(names) + 1)
    for line in _explained(variants, found, names):
        typer.echo(line)
    for owners, text in texts_with_owners(variants, [one.prediction.notes for one in found]):
        typer.echo(f"note ({owners}): {text}" if owners else f"note: {text}")
    for variant, analysis, advice in zip(variants, found, advised, strict=True):
        typer.echo(f"{_name(variant, names)}:\n{advice.text}")
        if analysis.instructions:
            print_instructions(analysis.instructions, advice)


def _against(seconds: float, least: float) -> str:
    """How much longer a time is than the shortest, as far as the model can tell."""
    from ..prediction.differences import slower_by

    if seconds == least:
        return "fastest"
    slower = slower_by(least, seconds)
    return "alike" if slower is None else f"+{slower:.0%}"


def _cell(variant: Variant, name: str) -> str:
    value = getattr(variant, name)
    return "–" if value is None else str(value)


def _name(variant: Variant, names: Sequence[str]) -> str:
    return " ".join(
        _cell(variant, name) if name in ("file", "gpu", "kernel") else f"{name} {_cell(variant, name)}"
        for name in names
    )


def _title(found: Sequence[Analysis], names: Sequence[str]) -> str:
    """What all variants share."""
    first = found[0]
    grid, block = ("x".join(map(str, shape)) for shape in (first.configuration.grid, first.configuration.block))
    shared = (
        ("kernel", first.prediction.kernel),
        ("gpu", f"on {first.prediction.gpu}"),
        ("grid", f"grid {grid}"),
        ("block", f"block {block}"),
    )
    texts = [text for name, text in shared if name not in names]
    return ", ".join(texts).replace(", on ", " on ") or "launches"


def _explained(variants: Sequence[Variant], found: Sequence[Analysis], names: Sequence[str]) -> list[str]:
    """Which are the fastest, as far as the model can tell, and what each of the others takes longer for."""
    from ..prediction.differences import alike, difference_text, spread_text

    order = sorted(range(len(found)), key=lambda index: found[index].prediction.time.predicted_s)
    times = [found[index].prediction.time.predicted_s for index in order]
    ties = alike(times)
    named = [_name(variants[index], names) for index in order]
    first = found[order[0]].prediction
    together = f", {spread_text(times[:ties])}" if ties > 1 else ""
    lines = [f"fastest: {', '.join(named[:ties])}{together}"]
    lines += [
        f"{named[place]} takes {difference_text(first, found[order[place]].prediction)}"
        for place in range(ties, len(order))
    ]
    return lines


def texts_with_owners(variants: Sequence[Variant], texts: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Each text once, with the names of the variants that have it; no name where all have it.

    >>> one = Variant(file=Path("a.cu"), kernel="k", grid="1", block="32", gpu="t4")
    >>> two = Variant(file=Path("a.cu"), kernel="k", grid="2", block="32", gpu="t4")
    >>> texts_with_owners([one, two], [["a race"], ["a race", "out of bounds"]])
    [('', 'a race'), ('grid 2', 'out of bounds')]
    """
    names, owners = differing(variants), dict[str, list[str]]()
    for variant, own in zip(variants, texts, strict=True):
        for text in own:
            owners.setdefault(text, []).append(_name(variant, names))
    return [("" if len(found) == len(variants) else ", ".join(found), text) for text, found in owners.items()]
