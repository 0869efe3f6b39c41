"""Rates of the tensor cores: facts of the sheets, and what an H200 reaches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.instruction import MachineInstruction
from perfmodel.machine_code.issue_table import IssueTable
from perfmodel.machine_code.matrix_products import TensorRate, tensor_work
from perfmodel.time_model.sm_costs import issue_slot_cycles, tensor_cycles

RECORD = Path(__file__).parents[3] / "validation" / "data" / "h200-tensor.json"
BANKS = RECORD.with_name("h200-register-banks.json")
H200 = load_gpu("h200")


def product(opcode: str) -> MachineInstruction:
    return MachineInstruction(
        address=0, opcode=opcode, operand_text="R0,R4,R8,R0", guard=None, word=0, high=0, class_name="tensor"
    )


def table(*opcodes: str) -> IssueTable:
    work = [tensor_work(product(opcode)) for opcode in opcodes]
    nothing = np.zeros(len(opcodes), np.int64)
    names = dict.fromkeys(IssueTable.__dataclass_fields__, nothing)
    names["bank_reads"] = names["kept_reads"] = np.zeros((len(opcodes), 2), np.int64)
    names["tensor_rate"] = np.array([rate for rate, _, _ in work])
    names["tensor_operations"] = np.array([-count if group else count for _, count, group in work], np.int64)
    return IssueTable(**names)


@pytest.mark.parametrize(
    ("opcode", "rate", "operations", "of_warpgroup"),
    [
        ("HMMA.16816.F32", TensorRate.F16_F32, 2 * 16 * 8 * 16, False),
        ("HMMA.1688.F32.TF32", TensorRate.TF32, 2 * 16 * 8 * 8, False),
        ("IMMA.16832.S8.U8", TensorRate.I8, 2 * 16 * 8 * 32, False),
        ("DMMA.8x8x4", TensorRate.F64, 2 * 8 * 8 * 4, False),
        ("HGMMA.64x128x16.F32", TensorRate.F16_F32, 2 * 16 * 128 * 16, True),
        ("QGMMA.64x8x32.F16.E5M2.E4M3", TensorRate.F8, 2 * 16 * 8 * 32, True),
    ],
)
def test_operations_of_a_warp(opcode: str, rate: TensorRate, operations: int, of_warpgroup: bool) -> None:
    assert tensor_work(product(opcode)) == (rate, operations, of_warpgroup)


def test_cycles_of_a_sub_partition() -> None:
    warp, group = tensor_cycles(table("HMMA.16816.F32", "HGMMA.64x128x16.F32"), H200).tolist()
    assert warp == 4096 / (4096 / 4 * 0.66)
    assert group == 2 * 16 * 128 * 16 / (4096 / 4)
    halved = replace(H200, tensor_f16_f32_per_sm=2048)
    assert tensor_cycles(table("HMMA.16816.F32"), halved)[0] == 2 * warp
    assert tensor_cycles(table("IMMA.16864.S4.S4"), H200)[0] == 0  # no rate is published


def test_an_h200_reaches_what_its_sheet_says() -> None:
    measured = json.loads(RECORD.read_text(encoding="utf-8"))["flops_per_cycle_per_sm"]
    share = H200.tensor_warp_share
    for name, rate in (
        ("wgmma_f16_f32", H200.tensor_f16_f32_per_sm),
        ("wgmma_f16_f16", H200.tensor_f16_per_sm),
        ("wgmma_tf32", H200.tensor_tf32_per_sm),
        ("wgmma_e4m3", H200.tensor_f8_per_sm),
        ("wgmma_s8", H200.tensor_i8_per_sm),
        ("mma_f16_f32", H200.tensor_f16_f32_per_sm * share),
        ("mma_tf32", H200.tensor_tf32_per_sm * share),
        ("mma_s8", H200.tensor_i8_per_sm * share),
        ("mma_f64", H200.tensor_f64_per_sm),
    ):
        assert measured[name] == pytest.approx(rate, rel=0.06)


def test_a_product_keeps_its_scheduler() -> None:
    measured = json.loads(RECORD.read_text(encoding="utf-8"))["cycles_of_a_product"]
    (held,) = tensor_cycles(table("HMMA.1688.F32.TF32"), H200)
    assert held == pytest.approx(measured["mma_tf32"], rel=0.02)
    # Products alone, and one that two others follow; in a kernel seven of ten are followed by others, at a cycle each: 240
    # products and 572 others of each of two warps in a slab, sixteen slabs in what 1,024 channels add.
    tf32 = table(*["HMMA.1688.F32.TF32"] * 2)
    among, last = issue_slot_cycles(tf32, H200).tolist()
    banks = json.loads(BANKS.read_text(encoding="utf-8"))
    assert among == pytest.approx(banks["MMA"][-1], rel=0.01)
    assert last + 2 == pytest.approx(3 * banks["MMA eoe eoe"][-1], rel=0.05)
    of_parts = json.loads(RECORD.read_text(encoding="utf-8"))["parts_of_pointwise_tensor"]["microseconds"]
    half, whole = of_parts["without copies and barriers, factors moved and not read"]["2 warps a scheduler"]
    assert 0.3 * among + 0.7 * last == pytest.approx(((whole - half) * 1980 / 16 / 2 - 572) / 240, rel=0.03)
    assert issue_slot_cycles(tf32, load_gpu("a100-pcie-40gb"))[0] == 1


def test_a_product_of_64_bits_keeps_its_scheduler_on_hopper() -> None:
    wide = replace(table("IMAD.WIDE", "IMAD", "FFMA"), pipe_passes=np.array([2, 1, 1]))
    assert issue_slot_cycles(wide, H200).tolist() == [3.0, 1.0, 1.0]
    assert issue_slot_cycles(wide, load_gpu("a100-pcie-40gb")).tolist() == [1.0, 1.0, 1.0]
