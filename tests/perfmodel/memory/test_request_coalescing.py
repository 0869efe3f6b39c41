"""Requests that SMs share, against the counters of the micro-benchmark `common_read` on an H200."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.request_coalescing import requests_in_step, requests_in_turns, sms_of_gpcs

H200 = load_gpu("h200")
BUFFER_SECTORS = 65_536 / 32


@pytest.mark.parametrize(("buffers", "counted"), [(1, 71_092), (2, 74_444), (4, 73_728), (8, 131_072), (16, 262_148)])
def test_blocks_on_all_sms_that_read_buffers_in_turn(buffers: int, counted: int) -> None:
    assert requests_in_step(132, H200, buffers) == pytest.approx(counted / BUFFER_SECTORS, rel=0.021)


@pytest.mark.parametrize(("blocks", "counted"), [(2, 2048), (4, 2048), (8, 4132), (66, 35_236)])
def test_blocks_on_some_sms_that_read_one_buffer(blocks: int, counted: int) -> None:
    """Not so 16 and 33 blocks, for which 10 requests are counted each: where these are placed is not known."""
    assert requests_in_step(blocks, H200) == pytest.approx(counted / BUFFER_SECTORS, rel=0.021)


def test_gpcs_have_all_sms() -> None:
    for sms in (132, 114, 96):
        of_gpcs = sms_of_gpcs(replace(H200, sm_count=sms))
        assert of_gpcs.sum() == sms
        assert of_gpcs.max() - of_gpcs.min() <= 2


def test_nothing_is_merged_where_no_unit_does() -> None:
    turing = load_gpu("rtx-2080-ti")
    assert requests_in_step(68, turing, 4) == 68
    assert requests_in_turns(10, 10, 2, turing) == (1.0, 1.0)


def test_one_wave_of_a_block_for_each_sm() -> None:
    # a row of 66 blocks is four GPCs of 16 and two SMs: 17 requests, and one more where a GPC has SMs of both rows
    of_rows, of_columns = requests_in_turns(66, 2, 1, H200)
    assert of_rows == pytest.approx(34 / 132, abs=2 / 132)
    assert of_columns == 1.0  # block b and block b + 66 are on different GPCs
