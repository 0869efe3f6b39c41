"""Which stored compiler built what was measured: told from recorded registers alone, the usual one where they say nothing."""

from __future__ import annotations

import csv
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from perfmodel.accuracy.validating import validate_measurements
from perfmodel.accuracy.verification import verify_store
from perfmodel.calibration.measured_runs import measured_runs, stores_for
from perfmodel.compiler.resources import Resources
from perfmodel.compiler.toolchain import compiler_version
from perfmodel.core.counts import Counts
from perfmodel.core.json_values import plain
from perfmodel.errors import CompilerMissingError
from perfmodel.families.base import Batch
from perfmodel.families.profiling import gather_profiles
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.counts_store import (
    CountsStore,
    empty_store,
    load_stores,
    read_store,
    store_key,
    with_profiles,
    write_store,
)
from perfmodel.profiles.kernel_profile import Fidelity, KernelProfile
from perfmodel.records.measurements import Measurements, read_measurements

GPU = load_gpu("rtx-3090")
PROBLEM = TiledConv2d(height=256, width=256, filter_height=3, filter_width=3)
CHOSEN = [TiledConv2dConfiguration(block_size_x=32, block_size_y=b, tile_size_y=t) for b in (2, 4) for t in range(1, 7)]
USUAL, OLDER = "nvrtc-12.9 ptxas-12.9", "nvrtc-12.2 ptxas-12.2"


def store(compiler: str, registers: list[int]) -> CountsStore:
    """A store of the first configurations, with these registers."""
    found = {}
    for configuration, count in zip(CHOSEN, registers, strict=False):
        resources = Resources(
            registers_per_thread=count,
            static_shared_bytes=4096,
            dynamic_shared_bytes=0,
            stack_bytes_per_thread=0,
            spill_load_bytes=0,
            spill_store_bytes=0,
            code_bytes=6400,
        )
        counts = Counts(fp32_fma=1e6, warp_instructions=2e6, shared_load_requests=1e5, shared_load_wavefronts=1e5)
        request = FAMILY.compile_request(PROBLEM, configuration, GPU)
        key = store_key(request, PROBLEM, GPU.architecture.name, compiler)
        found[key] = KernelProfile(launch=Launch(grid_x=1, block_x=32), resources=resources, counts=counts, exact=True)
    return with_profiles(empty_store(compiler), found)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> tuple[CountsStore, CountsStore]:
    """The usual store, which has all configurations with 40 registers, and one of eleven with 254."""
    pair = store(USUAL, [40] * len(CHOSEN)), store(OLDER, [254] * (len(CHOSEN) - 1))
    monkeypatch.setattr("perfmodel.calibration.measured_runs.load_stores", lambda name: pair)
    return pair


def measured(folder: Path, registers: list[int] | None) -> Measurements:
    """A file of all configurations, with recorded registers or without."""
    recorded = [{} for _ in CHOSEN] if registers is None else [{"registers_per_thread": count} for count in registers]
    rows = [
        {"gpu": GPU.id, **plain(PROBLEM), **plain(configuration), "time_ms": 1.0 + i, **more}
        for i, (configuration, more) in enumerate(zip(CHOSEN, recorded, strict=True))
    ]
    path = folder / "measured.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return read_measurements(path, FAMILY)


@pytest.mark.parametrize(
    ("registers", "chosen"),
    [
        (None, [USUAL]),
        ([40] * 12, [USUAL]),
        ([254] * 12, [OLDER, USUAL]),
        ([40] * 5 + [254] * 7, [OLDER, USUAL]),
        ([254] * 6 + [40] * 6, [USUAL]),
        ([63] * 12, [USUAL]),
    ],
)
def test_recorded_registers_choose_the_store(
    stores: tuple[CountsStore, CountsStore], registers: list[int] | None, chosen: list[str], tmp_path: Path
) -> None:
    found = stores_for(FAMILY, measured(tmp_path, registers), GPU)
    assert [one.compiler for one in found] == chosen


def test_what_the_chosen_store_lacks_is_the_usual_ones(stores: tuple[CountsStore, CountsStore]) -> None:
    usual, older = stores
    found = gather_profiles(FAMILY, PROBLEM, Batch.of(CHOSEN), GPU, stores=(older, usual), stored_only=True)
    assert [one.resources.registers_per_thread for one in found if isinstance(one, KernelProfile)] == [254] * 11 + [40]


def test_fits_and_validations_take_the_program_that_was_measured(
    stores: tuple[CountsStore, CountsStore], tmp_path: Path
) -> None:
    scenario = scenario_of(GPU.id)
    older, usual = (measured(tmp_path, [count] * 12) for count in (254, 40))
    for rows, count in ((older, 254), (usual, 40)):
        runs = measured_runs("made", FAMILY, rows, scenario, Fidelity.COMPILED, stored_only=True)
        assert runs.runs.profile.registers.tolist()[:-1] == [count] * 11
    told = validate_measurements(FAMILY, older, scenario)
    assert any(OLDER in note for note in told.notes)
    assert any("equal to the recorded ones in 91.7%" in note for note in told.notes)
    assert not any("stored by" in note for note in validate_measurements(FAMILY, usual, scenario).notes)


def test_every_shipped_store_of_a_family_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "counts"
    folder.mkdir()
    for name, compiler in (("a.npz", USUAL), ("a.nvrtc-12.2.npz", OLDER), ("ab.npz", "another family's")):
        write_store(replace(store(compiler, [40]), compiler=compiler), folder / name)
    monkeypatch.setattr("perfmodel.profiles.counts_store._SHIPPED", folder)
    assert [one.compiler for one in load_stores("a")] == [USUAL, OLDER]
    assert [len(one) for one in load_stores("b")] == [0]
    assert read_store((folder / "a.npz").read_bytes(), "a.npz").compiler == USUAL


@pytest.mark.data
@pytest.mark.parametrize(("gpu", "file"), [("rtx-2080-ti", "rtx-2080-ti.counters.csv"), ("rtx-3090", "rtx-3090.csv")])
def test_the_published_runs_were_built_by_an_older_compiler(published_data: Path, gpu: str, file: str) -> None:
    """Its registers are the recorded ones in at least 96 % of the rows of either file."""
    rows = read_measurements(published_data / "tiled_conv2d" / file, FAMILY)
    usual, *others = load_stores(FAMILY.name)
    first, second = stores_for(FAMILY, rows, load_gpu(gpu))
    assert first in others
    assert second is usual
    data = measured_runs(gpu, FAMILY, rows, scenario_of(gpu), Fidelity.COMPILED, stored_only=True)
    recorded = rows.columns["registers_per_thread"].to_numpy()
    assert np.mean(data.runs.profile.registers == recorded) >= 0.96


def test_recounting_without_the_compiler_names_the_extra(
    stores: tuple[CountsStore, CountsStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr("perfmodel.accuracy.verification.load_stores", lambda name: stores)
    monkeypatch.setattr(metadata, "version", absent)
    compiler_version.cache_clear()
    with pytest.raises(CompilerMissingError, match=r"no wheel nvidia-cuda-nvrtc-cu12.*perfmodel\[compile\]"):
        verify_store(FAMILY, measured(tmp_path, [40] * 12), GPU)
