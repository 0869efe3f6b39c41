"""The counts store: what is written is read, keys name what decides the counts, damage is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.compiler.request import CompileRequest
from perfmodel.compiler.resources import Resources
from perfmodel.core.counts import Counts
from perfmodel.errors import InputError
from perfmodel.families.profiling import stored_profiles
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.counts_store import (
    CRITICAL_PATH_NAMES,
    UNKNOWN_COUNTS,
    CountsStore,
    empty_store,
    load_store,
    read_store,
    store_key,
    with_profiles,
    write_store,
)
from perfmodel.profiles.kernel_profile import KernelProfile

COMPILER = "nvrtc-12.9 ptxas-12.9"
LAUNCH = Launch(grid_x=5, block_x=64, static_shared_bytes=4096)
KEYS = ("a" * 24, "b" * 24, "c" * 24)


def executed(registers: int, **changed: Any) -> KernelProfile:
    resources = Resources(
        registers_per_thread=registers,
        static_shared_bytes=4096,
        dynamic_shared_bytes=16,
        stack_bytes_per_thread=8,
        spill_load_bytes=4,
        spill_store_bytes=2,
        code_bytes=6400,
    )
    counts = Counts(
        global_load_requests=2.0**40 + 1, fp32_fma=7.0, shared_load_wavefronts=0.5, **dict.fromkeys(UNKNOWN_COUNTS, nan)
    )
    profile = KernelProfile(
        launch=LAUNCH,
        resources=resources,
        counts=counts,
        loop_code_bytes=320.0,
        read_only_share=nan,
        exact=True,
        **dict.fromkeys(CRITICAL_PATH_NAMES, 3.0),
    )
    return replace(profile, **changed)


def store_of(found: Mapping[str, KernelProfile]) -> CountsStore:
    return with_profiles(empty_store(COMPILER), found)


def written(store: CountsStore, folder: Path) -> bytes:
    path = folder / "counts.npz"
    write_store(store, path)
    assert [entry.name for entry in folder.iterdir()] == ["counts.npz"]  # nothing half written is left
    return path.read_bytes()


def test_a_round_trip_keeps_every_value(tmp_path: Path) -> None:
    first, second = executed(32), executed(64, exact=False)
    store = read_store(written(store_of({KEYS[1]: second, KEYS[0]: first}), tmp_path), "counts.npz")
    assert len(store) == 2
    assert store.compiler == COMPILER
    assert store.find(KEYS[0], LAUNCH) == first
    assert store.find(KEYS[1], LAUNCH) == second
    assert store.find(KEYS[2], LAUNCH) is None


def test_an_empty_store_can_be_kept(tmp_path: Path) -> None:
    store = read_store(written(empty_store(COMPILER), tmp_path), "counts.npz")
    assert len(store) == 0
    assert store.find(KEYS[0], LAUNCH) is None


def test_the_bytes_depend_on_the_content_and_not_on_the_order(tmp_path: Path) -> None:
    rows = {key: executed(32 + i) for i, key in enumerate(KEYS)}
    forward = written(store_of(rows), tmp_path)
    one_by_one = empty_store(COMPILER)
    for key in reversed(KEYS):
        one_by_one = with_profiles(one_by_one, {key: rows[key]})
    assert written(one_by_one, tmp_path) == forward


def test_a_key_that_is_there_gets_the_new_row() -> None:
    store = with_profiles(store_of({key: executed(32) for key in KEYS}), {KEYS[1]: executed(99)})
    assert len(store) == 3
    assert [store.find(key, LAUNCH).resources.registers_per_thread for key in KEYS] == [32, 99, 32]  # type: ignore[union-attr]


@pytest.mark.parametrize("damage", ["cut short", "bit flipped", "empty", "another file", "other columns"])
def test_a_damaged_file_is_told_by_name(damage: str, tmp_path: Path) -> None:
    data = written(store_of({key: executed(32) for key in KEYS}), tmp_path)
    if damage == "cut short":
        data = data[: len(data) // 2]
    elif damage == "bit flipped":
        at = data.find(b"values.npy") + 60
        data = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
    elif damage == "empty":
        data = b""
    elif damage == "another file":
        data = b"not an archive at all"
    else:
        path = tmp_path / "other.npz"
        np.savez(path, columns=np.array(["registers"]), keys=np.zeros(0, "S24"))
        data = path.read_bytes()
    with pytest.raises(InputError, match=r"counts\.npz") as refused:
        read_store(data, "counts.npz")
    assert "\n" not in str(refused.value)


def request(**changed: Any) -> CompileRequest:
    base = CompileRequest(source="__global__ void k() {}", kernel="k", file_name="k.cu", defines=(("N", 3),))
    return replace(base, **changed)


def test_the_key_depends_on_everything_that_decides_the_counts(tmp_path: Path) -> None:
    (tmp_path / "part.cuh").write_text("// one\n")
    including = request(source='#include "part.cuh"\n', include_directories=(str(tmp_path),))
    problem = TiledConv2d(height=64)
    keys = [
        store_key(request(), problem, "sm_80", COMPILER),
        store_key(request(source="__global__ void k() { }"), problem, "sm_80", COMPILER),
        store_key(request(defines=(("N", 4),)), problem, "sm_80", COMPILER),
        store_key(request(options=("--use_fast_math",)), problem, "sm_80", COMPILER),
        store_key(request(), TiledConv2d(height=65), "sm_80", COMPILER),
        store_key(request(), problem, "sm_86", COMPILER),
        store_key(request(), problem, "sm_80", "nvrtc-13.0 ptxas-13.0"),
        store_key(including, problem, "sm_80", COMPILER),
    ]
    (tmp_path / "part.cuh").write_text("// two\n")
    keys.append(store_key(including, problem, "sm_80", COMPILER))
    assert len(set(keys)) == len(keys)
    assert {len(key) for key in keys} == {24}
    assert store_key(request(), TiledConv2d(height=64), "sm_80", COMPILER) == keys[0]


def test_stored_facts_are_found_by_configuration_and_architecture() -> None:
    problem, chosen = TiledConv2d(height=64), TiledConv2dConfiguration()
    turing, ampere = load_gpu("rtx-2080-ti"), load_gpu("rtx-3090")
    key = store_key(FAMILY.compile_request(problem, chosen, turing), problem, "sm_75", COMPILER)
    store = store_of({key: executed(40)})
    other = replace(chosen, tile_size_x=3)
    found = stored_profiles(FAMILY, problem, [other, chosen], turing, store)
    assert [None if f is None else f.resources.registers_per_thread for f in found] == [None, 40]
    assert stored_profiles(FAMILY, problem, [chosen], ampere, store) == [None]


def test_a_stand_in_is_marked() -> None:
    problem, chosen = TiledConv2d(height=64), TiledConv2dConfiguration(read_only=1)
    gpu = load_gpu("rtx-2080-ti")
    (other, *_) = FAMILY.equivalents(chosen)
    key = store_key(FAMILY.compile_request(problem, other, gpu), problem, "sm_75", COMPILER)
    store = store_of({key: executed(40)})
    assert stored_profiles(FAMILY, problem, [chosen], gpu, store) == [None]
    (found,) = stored_profiles(FAMILY, problem, [chosen], gpu, store, equivalents=True)
    assert found is not None
    assert (found.approximate, found.exact) == (True, False)
    assert "equivalent" in found.notes


def test_the_shipped_store_can_be_read() -> None:
    store = load_store("tiled_conv2d")
    assert len(store) > 0
    assert list(store.rows) == sorted(store.rows)
    known = store.values[:, : -len(CRITICAL_PATH_NAMES)]
    assert np.isfinite(known).all()
    assert (known >= 0).all()
    assert (np.isnan(store.values) | (store.values >= 0)).all()
