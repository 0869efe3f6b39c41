"""Channels per thread: the manual's table against the records of an H200, the model's choice against the author's."""

import gzip
import json
import re
import statistics
from collections import defaultdict
from pathlib import Path

import pytest

from perfmodel.families.conv1d import Conv1d, Variant
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity

ROOT = Path(__file__).parents[4]
Shape = tuple[int, int, int]


def manual() -> dict[Shape, tuple[int, ...]]:
    """Rows of the table by shape: author's, model's on two GPUs, fastest warm and cold."""
    text = (ROOT / "docs" / "notes" / "2026-11-conv1d.md").read_text(encoding="utf-8")
    numbers = [line for line in text.splitlines() if re.fullmatch(r"\|( \d+ \|)+", line)]
    rows = [tuple(int(cell) for cell in re.findall(r"\d+", line)) for line in numbers]
    return {row[:3]: row[3:] for row in rows if len(row) == 8}


def fastest_measured() -> dict[tuple[Shape, str], int]:
    """Channels per thread of the fastest run of each shape, by the state of L2."""
    medians: dict[tuple[Shape, str], dict[int, float]] = defaultdict(dict)
    with gzip.open(ROOT / "validation" / "data" / "h200.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            problem, choice = record["problem"], record["configuration"].get("channels_per_thread")
            if record["name"] != "conv1d" or not isinstance(choice, int) or problem["filter_width"] != 5:
                continue
            shape = (problem["in_channels"], problem["out_channels"], problem["length"])
            if problem["batch"] == 1:
                for timing in record["timings"]:
                    if timing["method"] == "graph":
                        times = medians[shape, timing["l2"]]
                        times[choice] = min(statistics.median(timing["samples_s"]), times.get(choice, float("inf")))
    return {key: min(times, key=times.__getitem__) for key, times in medians.items()}


def test_the_manual_shows_what_was_measured() -> None:
    table, measured = manual(), fastest_measured()
    assert len(table) == 9
    for shape, row in table.items():
        assert row[3:] == (measured[shape, "warm"], measured[shape, "cold"]), shape


@pytest.mark.parametrize("gpu_id", ["rtx-3090", "h200"])
def test_the_authors_choice_is_predicted_hardly_slower_than_the_models(gpu_id: str) -> None:
    for (in_channels, out_channels, length), (authors, *_) in manual().items():
        problem = Conv1d(in_channels=in_channels, out_channels=out_channels, length=length)
        top = rank_problem(problem, scenario_of(load_gpu(gpu_id)), Fidelity.ANALYTIC, top=2048).top
        of_rows = [one for one in top if one.configuration.variant is not Variant.BLOCKED]
        seconds = {one.configuration.channels_per_thread: one.time.predicted_s for one in of_rows}
        assert seconds[authors] <= 1.2 * of_rows[0].time.predicted_s
        assert seconds[authors] < seconds[None]  # and faster than the naive kernel
