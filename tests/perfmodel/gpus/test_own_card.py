"""A sheet from what NVIDIA's tools print of a card: what they say is taken, the rest is the nearest GPU's."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmodel.cli.app import run
from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import inherited_fields, load_gpu, source_of
from perfmodel.gpus.own_card import base_of, card_sheet, read_card

DEVICE_QUERY = """./deviceQuery Starting...
Detected 2 CUDA Capable device(s)
Device 0: "NVIDIA GeForce RTX 5070 Ti"
  CUDA Capability Major/Minor version number:    12.0
  Total amount of global memory:                 15847 MBytes (16616521728 bytes)
  (070) Multiprocessors, (128) CUDA Cores/MP:    8960 CUDA Cores
  GPU Max Clock rate:                            2452 MHz (2.45 GHz)
  Memory Clock rate:                             14001 Mhz
  Memory Bus Width:                              256-bit
  L2 Cache Size:                                 50331648 bytes
Device 1: "NVIDIA H200"
  (132) Multiprocessors, (128) CUDA Cores/MP:    16896 CUDA Cores
"""
NVIDIA_SMI = """==============NVSMI LOG==============
Attached GPUs                             : 1
GPU 00000000:04:00.0
    Product Name                          : {name}
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
    Max Clocks
        SM                                : 1980 MHz
    Max Customer Boost Clocks
        Graphics                          : 1755 MHz
"""


def test_device_query_gives_a_sheet_above_the_nearest_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("query.txt").write_text(DEVICE_QUERY)
    assert run(["gpus", "add", "query.txt"]) == 0
    made = "nvidia-geforce-rtx-5070-ti.toml"
    assert f"{made}: NVIDIA GeForce RTX 5070 Ti, 8 values of its own" in capsys.readouterr().out
    gpu, base = load_gpu(made), load_gpu("rtx-5080")  # 84 SMs, nearer to 70 than the 170 of an RTX 5090
    assert (gpu.sm_count, gpu.boost_clock_hz, gpu.l2_bytes) == (70, 2.452e9, 48 * 2**20)
    assert gpu.dram_bytes_per_s == pytest.approx(14.001e9 * 2 * 256 / 8, rel=1e-5)
    assert gpu.l2_read_bytes_per_s == pytest.approx(base.l2_read_bytes_per_s * 48 / 64 * 2452 / 2617, rel=1e-5)
    assert gpu.dram_read_bytes_per_s / gpu.dram_bytes_per_s == pytest.approx(885.5 / 960, rel=1e-4)
    assert source_of(made, "sm_count") == "deviceQuery on this GPU (query.txt)"
    assert inherited_fields(made)["l2_latency_cycles"] == "rtx-5080"
    assert run(["gpus", "show", made]) == 0
    assert f"8 values of its own, {len(inherited_fields(made))} inherited" in capsys.readouterr().out


def test_nvidia_smi_knows_a_gpu_by_its_name() -> None:
    card = read_card(NVIDIA_SMI.format(name="NVIDIA H100 80GB HBM3"), "smi.txt")
    assert (card.tool, card.boost_clock_hz, card.dram_bytes) == ("nvidia-smi -q", 1.755e9, 81559 * 2**20)
    assert base_of(card) == "h100-sxm-80gb"
    text = card_sheet(card, "h100-sxm-80gb", "smi.txt")
    assert "boost_clock_hz = { value = 1.755e+09" in text
    assert "sm_count" not in text  # it says nothing of it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "out.txt: is neither an output of deviceQuery nor of nvidia-smi -q"),
        (NVIDIA_SMI.format(name="NVIDIA H20"), "no shipped GPU is called 'NVIDIA H20', and nvidia-smi -q does not say"),
        (DEVICE_QUERY.replace("12.0", "13.0"), "no shipped GPU is of compute capability 13.0"),
    ],
)
def test_what_cannot_be_placed_says_what_to_give(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        base_of(read_card(text, "out.txt"))
