"""Filling and recounting the store: what is filled in is what execution gives, what was changed since is found."""

from __future__ import annotations

import csv
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from numpy.testing import assert_equal

from perfmodel.accuracy.verification import verify_store
from perfmodel.core.json_values import plain
from perfmodel.families.profiling import Depth, configuration_profile, stored_profiles
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.counts_store import CountsStore, empty_store, read_store, store_key, with_profiles, write_store
from perfmodel.records.measurements import read_measurements
from tables.counted_rows import fill, rows_of

pytestmark = pytest.mark.compiler

PROBLEM = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
CHOSEN = [TiledConv2dConfiguration(block_size_x=32, block_size_y=4, tile_size_x=1, tile_size_y=t) for t in (1, 2)]
GPUS = ("rtx-2080-ti", "rtx-3090")
GPU = load_gpu(GPUS[0])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The same two configurations measured on two GPUs, one of them twice."""
    folder, paths = tmp_path_factory.mktemp("measured"), []
    for gpu in GPUS:
        path = folder / f"{gpu}.csv"
        rows = [{"gpu": gpu, **plain(PROBLEM), **plain(chosen), "time_ms": 1.0} for chosen in (*CHOSEN, CHOSEN[0])]
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        paths.append(path)
    return paths


LAUNCH = Launch(grid_x=1, block_x=32)


@pytest.fixture(scope="module")
def filled(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("counts") / "tiled_conv2d.npz"
    assert fill(path, rows_of("tiled_conv2d", files), time_limit_s=120, workers=1) == []
    return path


def without(store: CountsStore, keys: list[str]) -> CountsStore:
    profile = {key: found for key in store.rows if key not in keys and (found := store.find(key, LAUNCH)) is not None}
    return with_profiles(empty_store(store.compiler), profile)


def store_at(path: Path) -> CountsStore:
    return read_store(path.read_bytes(), path.name)


def test_a_configuration_is_counted_once_for_all_gpus_that_measured_it(files: list[Path]) -> None:
    rows = rows_of("tiled_conv2d", files)
    assert [row.configuration for row in rows] == CHOSEN
    assert {row.gpu_ids for row in rows} == {GPUS}


def test_what_is_filled_in_is_what_execution_gives(filled: Path) -> None:
    store = store_at(filled)
    assert len(store) == len(CHOSEN) * len(GPUS)
    for name in GPUS:
        gpu = load_gpu(name)
        for chosen, profile in zip(CHOSEN, stored_profiles(FAMILY, PROBLEM, CHOSEN, gpu, store), strict=True):
            fresh = configuration_profile(FAMILY, PROBLEM, chosen, gpu, Depth.WHOLE)
            assert profile is not None
            assert profile.resources == fresh.resources
            assert profile.exact == fresh.exact
            assert profile.counts.global_load_requests == float(fresh.counts.global_load_requests)
            assert profile.counts.warp_instructions == float(fresh.counts.warp_instructions)


def test_filling_again_adds_what_is_missing_and_counts_nothing_twice(filled: Path, files: list[Path]) -> None:
    before = filled.read_bytes()
    assert fill(filled, rows_of("tiled_conv2d", files), time_limit_s=1e-3, workers=1) == []
    assert filled.read_bytes() == before


def test_what_the_store_has_can_be_counted_again(filled: Path, files: list[Path], tmp_path: Path) -> None:
    store = store_at(filled)
    kept, lost = sorted(store.rows)[:1], sorted(store.rows)[1:]
    wrong = {
        key: replace(found, exact=not found.exact) for key in kept if (found := store.find(key, LAUNCH)) is not None
    }
    path = tmp_path / filled.name
    write_store(with_profiles(without(store, lost), wrong), path)
    rows = [replace(row, gpu_ids=(gpu,)) for row in rows_of("tiled_conv2d", files) for gpu in row.gpu_ids]
    assert fill(path, rows, time_limit_s=120, workers=1, again=True) == []
    again = store_at(path)
    assert list(again.rows) == kept
    counted, before = again.find(kept[0], LAUNCH), store.find(kept[0], LAUNCH)
    assert counted is not None
    assert before is not None
    assert_equal(asdict(counted), asdict(before))


def test_recounting_finds_no_difference_and_finds_one(
    filled: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, measured = store_at(filled), read_measurements(files[0], FAMILY)
    monkeypatch.setattr("perfmodel.accuracy.verification.load_stores", lambda name: (store,))
    found = verify_store(FAMILY, measured, GPU)
    assert (found.compared, found.differences) == (3, ())
    request = FAMILY.compile_request(PROBLEM, CHOSEN[0], GPU)
    key = store_key(request, PROBLEM, GPU.architecture.name, store.compiler)
    profile = store.find(key, LAUNCH)
    assert profile is not None
    registers = profile.resources.registers_per_thread
    changed = replace(profile, resources=replace(profile.resources, registers_per_thread=registers + 8))
    tampered = with_profiles(store, {key: changed})
    monkeypatch.setattr("perfmodel.accuracy.verification.load_stores", lambda name: (tampered,))
    found = verify_store(FAMILY, measured, GPU)
    assert found.compared == 3
    assert len(found.differences) == 2  # the configuration stands twice in the file
    assert f"registers_per_thread {registers + 8} is now {registers}" in found.differences[0]
    assert "tile_size_y" in found.differences[0]
