"""The commands' JSON contract, and that standard output holds nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from perfmodel.cli.app import build_app, run
from perfmodel.core.counts import COUNT_NAMES

PROBLEM = ("--width", "256", "--height", "256")


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_no_help_text_is_taken_for_markup() -> None:
    """Rich drops ``[word …]`` from a help text, as it does colours."""
    waiting = [typer.main.get_command(build_app())]
    texts = []
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        texts += [f"{command.name} {one.name}: {one.help}" for one in command.params if getattr(one, "help", None)]
    assert len(texts) > 100
    assert [text for text in texts if re.search(r"\[[a-z]+[ :]", text)] == []


def test_predict_gives_the_object_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, "predict", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *PROBLEM)
    assert {"kernel", "gpu", "fidelity", "exact", "config", "resources", "occupancy", "counts", "time"} <= set(found)
    assert set(found["counts"]) == set(COUNT_NAMES)
    resources = {"registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes", "stack_bytes_per_thread"}
    assert set(found["resources"]) == resources | {"spill_load_bytes", "spill_store_bytes", "code_bytes"}
    assert {"blocks_per_sm", "fraction", "limiter", "waves_per_sm", "achieved_fraction"} <= set(found["occupancy"])
    names = {"predicted_us", "interval_us", "limiter", "calibration_status", "evidence", "terms_us"}
    assert set(found["time"]) == names  # "evidence" is a former name
    assert {change["field"] for change in found["sensitivity"]} >= {"block_size_x", "tile_size_x"}
    assert found["what_if"] == found["sensitivity"]


def test_rank_orders_by_predicted_time_and_counts_rejections(capsys: pytest.CaptureFixture[str]) -> None:
    found = json_of(capsys, "rank", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", "--top", "7", *PROBLEM)
    assert {"kernel", "gpu", "problem", "candidates", "rejected", "top"} <= set(found)
    times = [entry["time"]["predicted_us"] for entry in found["top"]]
    assert len(times) == 7
    assert times == sorted(times)
    assert 0 < sum(found["rejected"].values()) < found["candidates"]
    configurations = [json.dumps(entry["config"]) for entry in found["top"]]
    assert len(set(configurations)) == 7


def test_a_faster_clock_makes_a_faster_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    fields = ("--set", "block_size_x=32", "--set", "block_size_y=4", "--set", "use_shmem=1", "--set", "use_padding=0")
    options = ("predict", "tiled_conv2d", "--gpu", "rtx-3090", "--fidelity", "analytic", *PROBLEM, *fields)
    slow = json_of(capsys, *options, "--sm-clock-mhz", "800")["time"]["predicted_us"]
    fast = json_of(capsys, *options, "--sm-clock-mhz", "1600")["time"]["predicted_us"]
    assert fast < slow <= 2 * fast * 1.0001


def test_a_warm_cache_saves_dram_reads(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("predict", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *PROBLEM)
    assert json_of(capsys, *options, "--l2", "cold")["counts"]["dram_read_bytes"] == 4 * (256 + 14) ** 2
    assert json_of(capsys, *options, "--l2", "warm")["counts"]["dram_read_bytes"] == 0


def test_gpus_and_families_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(json_of(capsys, "gpus")["gpus"]) == 32
    names = {entry["family"] for entry in json_of(capsys, "families")["families"]}
    assert names >= {"conv1d", "direct_conv2d", "pointwise_conv2d", "ssim", "tiled_conv2d"}


def test_tables_are_readable(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", *PROBLEM]) == 0
    text = capsys.readouterr().out
    assert "limited by" in text
    assert "what a change of one field would do" in text


def test_the_same_question_has_the_same_answer(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("rank", "direct_conv2d", "--gpu", "h200", "--fidelity", "analytic", "--height", "99", "--width", "99")
    assert json_of(capsys, *options) == json_of(capsys, *options)


@pytest.mark.compiler
def test_an_interrupt_is_one_line_and_status_130(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "perfmodel", "rank", "tiled_conv2d", "--gpu", "t4", "--width", "1000"]
    environment = dict(os.environ) | {"PERFMODEL_CACHE": str(tmp_path)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)  # the cache folder is filled once compiling has begun
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] in ("perfmodel: interrupted", "perfmodel: interrupted; what was finished is kept")
    assert "Traceback" not in err
