"""Kernels compiled beforehand, and the folder in which they travel."""

import gzip
import hashlib
from pathlib import Path

import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.schema import FailureKind, Predicted, RecordKind
from perfmodel.validation.prepared import PreparedFolder, PreparedKernel, Purpose, unpacked_cubin
from perfmodel.validation.preparing import Choice, prepare_choices, prepare_flush

UNDER = scenario_of("h200")
PROBLEM = TiledConv2d(height=64, width=64, filter_height=3, filter_width=3)
SMALL = TiledConv2dConfiguration(block_size_x=32, block_size_y=2, tile_size_x=1, tile_size_y=1)
WIDE = TiledConv2dConfiguration(block_size_x=32, block_size_y=2, tile_size_x=2, tile_size_y=1)
PLAIN = PreparedKernel(
    kind=RecordKind.KERNEL,
    name="tiled_conv2d",
    problem={"height": 64},
    configuration={"block_size_x": 32, "use_padding": "none"},
    purposes=(Purpose.TIME, Purpose.COUNT),
    gpu="h200",
    architecture="sm_90",
    compiler_version="nvrtc",
    predicted=Predicted(fidelity=Fidelity.ANALYTIC, time_s=1e-6, place=1),
)


@pytest.mark.compiler
def test_the_very_cubin_of_the_prediction_travels(tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path / "prepared")
    choice = Choice(family="tiled_conv2d", problem=PROBLEM, configurations=(SMALL, WIDE), purposes=(Purpose.TIME,))
    folder.write_plan(prepare_choices([choice], UNDER, folder, workers=1))
    first, second = folder.kernels()
    compiled = compile_kernel(FAMILY.compile_request(PROBLEM, SMALL, UNDER.gpu), "sm_90")
    assert first.resources is not None
    assert first.resources.cubin_sha256 == hashlib.sha256(compiled.cubin).hexdigest()
    assert folder.cubin(first.resources.cubin_sha256) == compiled.cubin
    assert unpacked_cubin(folder, first.resources.cubin_sha256).read_bytes() == compiled.cubin
    assert first.resources.registers_per_thread == compiled.resources.registers_per_thread
    assert first.configuration["tile_size_x"] == 1
    assert second.configuration["tile_size_x"] == 2
    assert first.predicted is not None
    assert first.predicted.place is None
    assert first.key != second.key


@pytest.mark.compiler
def test_what_does_not_compile_in_time_is_prepared_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))  # nothing compiled by an earlier run helps
    large = TiledConv2d(height=96, width=96, filter_height=15, filter_width=15)
    slow = [TiledConv2dConfiguration(block_size_x=16, block_size_y=2, tile_size_x=8, tile_size_y=t) for t in (7, 8)]
    choice = Choice(family="tiled_conv2d", problem=large, configurations=tuple(slow), purposes=(Purpose.TIME,))
    kernels = prepare_choices([choice], UNDER, PreparedFolder(tmp_path), workers=1, compile_limit_s=0.02)
    assert [kernel.resources for kernel in kernels] == [None, None]
    assert [kernel.failure and kernel.failure.kind for kernel in kernels] == [FailureKind.COMPILE] * 2


@pytest.mark.compiler
def test_what_the_compiled_registers_keep_from_the_gpu_is_prepared_as_rejected(tmp_path: Path) -> None:
    # an H200 refused it (CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES): 24 warps of 124 registers, by eights 24·32·128 = 98,304 > 65,536
    problem = TiledConv2d(height=81, width=146, filter_height=9, filter_width=5)
    large = TiledConv2dConfiguration(
        block_size_x=48, block_size_y=16, tile_size_x=5, tile_size_y=8, use_padding=None, read_only=1, use_shmem=0
    )
    folder = PreparedFolder(tmp_path)
    choice = Choice(family="tiled_conv2d", problem=problem, configurations=(large, SMALL), purposes=(Purpose.CHECK,))
    rejected, fitting = prepare_choices([choice], UNDER, folder, workers=1)
    registers = compile_kernel(
        FAMILY.compile_request(problem, large, UNDER.gpu), "sm_90"
    ).resources.registers_per_thread
    assert rejected.failure is not None
    assert rejected.failure.kind is FailureKind.REJECTED
    assert rejected.failure.message == (
        f"768 threads of {registers} registers do not fit 65536 registers per block of h200"
    )
    assert rejected.resources is None
    assert fitting.failure is None
    assert fitting.resources is not None
    assert [path.name for path in (tmp_path / "cubins").iterdir()] == [f"{fitting.resources.cubin_sha256}.gz"]


@pytest.mark.compiler
def test_the_flush_is_prepared_for_a_buffer_twice_the_size_of_l2(tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path)
    kernel = prepare_flush(UNDER.gpu, folder)
    assert kernel.configuration["bytes"] == 2 * UNDER.gpu.l2_bytes
    assert kernel.purposes == (Purpose.FLUSH,)
    assert kernel.kernel_name == "global_read"
    assert kernel.resources is not None
    assert folder.cubin(kernel.resources.cubin_sha256).startswith(b"\x7fELF")


def test_plan_round_trip(tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path / "new")
    folder.write_plan([PLAIN])
    assert folder.kernels() == (PLAIN,)


def test_damaged_folder_is_named(tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path)
    with pytest.raises(InputError, match=r"plan\.jsonl: cannot be read"):
        folder.kernels()
    (tmp_path / "plan.jsonl").write_text('{"kind": "kernel"}\n')
    with pytest.raises(InputError, match=r"plan\.jsonl: line 1: name is missing"):
        folder.kernels()
    digest = folder.keep_cubin(b"code")
    packed = tmp_path / "cubins" / f"{digest}.gz"
    packed.write_bytes(gzip.compress(b"other code"))
    with pytest.raises(InputError, match="damaged"):
        folder.cubin(digest)
    packed.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="cannot be read"):
        folder.cubin(digest)
    with pytest.raises(InputError, match="cannot be read"):
        folder.cubin("0" * 64)


def test_same_code_is_stored_once(tmp_path: Path) -> None:
    folder = PreparedFolder(tmp_path)
    assert folder.keep_cubin(b"code") == folder.keep_cubin(b"code")
    assert len(list((tmp_path / "cubins").iterdir())) == 1
