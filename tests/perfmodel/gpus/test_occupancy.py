import csv
import itertools
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import gpu_ids, load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.gpus.occupancy import Limiter, carve_out_bytes, l1_cache_bytes, limit_text, occupancy

HERE = Path(__file__).parent
BY_HAND = list(csv.DictReader((HERE / "occupancy_by_hand.csv").read_text().splitlines()))
ONE_GPU_EACH = {load_gpu(row["gpu"]).architecture.compute_capability: row["gpu"] for row in BY_HAND}

any_gpu = st.sampled_from([load_gpu(gpu_id) for gpu_id in ONE_GPU_EACH.values()])
threads = st.integers(1, 1100)
registers = st.integers(0, 260)
shared_bytes = st.integers(0, 240_000)


def blocks(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> int:
    found = occupancy(
        gpu, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=shared_bytes
    )
    return int(found.blocks_per_sm)


def test_the_hand_worked_table_covers_every_compute_capability() -> None:
    assert set(ONE_GPU_EACH) == {load_gpu(gpu_id).architecture.compute_capability for gpu_id in gpu_ids()}
    earlier = {(6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9)}
    assert set(ONE_GPU_EACH) == earlier | {(9, 0), (10, 0), (10, 3), (12, 0)}
    assert {name for row in BY_HAND for name in row["limiters"].split()} == {
        limiter.value for limiter in Limiter if limiter is not Limiter.BARRIERS
    }


@pytest.mark.parametrize("row", BY_HAND, ids=lambda row: " ".join(itertools.islice(row.values(), 5)))
def test_hand_worked(row: dict[str, str]) -> None:
    if int(row["blocks_per_sm"]):
        cells = [row[f"by_{limit}"] for limit in ("warps", "blocks", "registers", "shared_memory")]
        assert min(int(cell.split("=")[-1]) for cell in cells if cell != "none") == int(row["blocks_per_sm"])

    found = occupancy(
        load_gpu(row["gpu"]),
        threads_per_block=int(row["threads_per_block"]),
        registers_per_thread=int(row["registers_per_thread"]),
        shared_bytes_per_block=int(row["shared_bytes_per_block"]),
        static_shared_bytes_per_block=int(row["static_shared_bytes_per_block"]),
    )

    assert found.blocks_per_sm == int(row["blocks_per_sm"])
    assert found.warps_per_sm == int(row["warps_per_sm"])
    assert found.fraction == int(row["warps_per_sm"]) / load_gpu(row["gpu"]).max_warps_per_sm
    assert [limiter.value for limiter in found.limiters()] == row["limiters"].split()


@pytest.mark.compiler
@pytest.mark.parametrize("gpu_id", ONE_GPU_EACH.values())
def test_equal_to_nvidias_header_on_random_kernels(gpu_id: str, nvidia_occupancy: Path) -> None:
    gpu = load_gpu(gpu_id)
    random = np.random.default_rng(20)
    n = 20_000
    threads = random.integers(1, 1030, n)
    registers = random.integers(1, 256, n)
    static = np.where(random.random(n) < 0.5, random.integers(0, 49_153, n), 0)
    dynamic = np.where(random.random(n) < 0.5, random.integers(0, gpu.shared_bytes_per_sm + 2048, n), 0)
    barriers = random.integers(0, 17, n)
    head = (
        *(
            *gpu.architecture.compute_capability,
            gpu.max_threads_per_block,
            32 * gpu.max_warps_per_sm,
            gpu.registers_per_block,
        ),
        *(gpu.registers_per_sm, gpu.shared_bytes_per_block, gpu.shared_bytes_per_sm),
        *(gpu.shared_bytes_per_block_opt_in, gpu.shared_reserved_bytes_per_block),
    )
    kernels = np.stack([threads, registers, static, dynamic, barriers], axis=1)
    questions = "\n".join([" ".join(map(str, head)), *(" ".join(map(str, kernel)) for kernel in kernels.tolist())])
    answers = subprocess.run([nvidia_occupancy], input=questions, capture_output=True, text=True, check=True).stdout
    expected_blocks, expected_factors = np.array(answers.split(), int).reshape(n, 2).T

    found = occupancy(
        gpu,
        threads_per_block=threads,
        registers_per_thread=registers,
        shared_bytes_per_block=static + dynamic,
        static_shared_bytes_per_block=static,
        barriers_per_block=barriers,
    )

    assert set(range(1, gpu.max_blocks_per_sm + 1)) >= set(expected_blocks[expected_blocks > 0].tolist())
    np.testing.assert_array_equal(found.blocks_per_sm, np.maximum(expected_blocks, 0))
    # The header names what bound before it looked at barriers, so compare the names where barriers are not the least.
    bits = {
        Limiter.WARPS: 0x01,
        Limiter.REGISTERS: 0x02,
        Limiter.SHARED_MEMORY: 0x04,
        Limiter.BLOCKS: 0x08,
    }
    compared = (expected_blocks > 0) & (found.limiter_bits != Limiter.BARRIERS.bit)
    for limiter, bit in bits.items():
        ours = (found.limiter_bits & limiter.bit != 0)[compared]
        np.testing.assert_array_equal(ours, (expected_factors & bit != 0)[compared], err_msg=limiter.value)


@pytest.fixture(scope="module")
def nvidia_occupancy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = find_spec("nvidia.cu13")
    compiler = shutil.which("g++")
    if spec is None or not spec.submodule_search_locations or compiler is None:
        pytest.skip("needs g++ and the header wheel of the extra `compile`")
    program = tmp_path_factory.mktemp("occupancy") / "driver"
    include = Path(next(iter(spec.submodule_search_locations))) / "include"
    source = HERE / "cuda_occupancy_driver.cpp"
    subprocess.run([compiler, "-O1", "-I", include, "-o", program, source], check=True)
    return program


@pytest.mark.data
def test_no_measured_occupancy_exceeds_the_theoretical_by_more_than_4_percent(published_data: Path) -> None:
    with (published_data / "tiled_conv2d" / "rtx-2080-ti.counters.csv").open() as file:
        rows = list(csv.DictReader(file))
    column = {
        name: np.array([float(row[name]) for row in rows])
        for name in (
            "block_size_x",
            "block_size_y",
            "registers_per_thread",
            "shared_bytes_per_block",
            "sm__warps_active.avg.pct_of_peak_sustained_active",
        )
    }
    threads = (column["block_size_x"] * column["block_size_y"]).astype(int)

    found = occupancy(
        load_gpu("rtx-2080-ti"),
        threads_per_block=threads,
        registers_per_thread=column["registers_per_thread"].astype(int),
        shared_bytes_per_block=column["shared_bytes_per_block"].astype(int),
    )

    assert len(rows) == 2640
    achieved = column["sm__warps_active.avg.pct_of_peak_sustained_active"] / 100
    assert np.all(found.blocks_per_sm > 0)
    assert np.max(achieved / found.fraction) <= 1.04
    assert np.median(achieved / found.fraction) >= 0.9  # and it is not far above the achieved one either


@given(any_gpu, threads, registers, shared_bytes, st.integers(0, 64))
def test_more_of_any_resource_never_lets_more_blocks_in(
    gpu: Gpu, threads: int, registers: int, shared_bytes: int, more: int
) -> None:
    base = blocks(gpu, threads, registers, shared_bytes)
    assert blocks(gpu, threads + more, registers, shared_bytes) <= base
    assert blocks(gpu, threads, registers + more, shared_bytes) <= base
    assert blocks(gpu, threads, registers, shared_bytes + more) <= base


@given(any_gpu, threads, registers, shared_bytes)
def test_resident_blocks_fit_and_one_more_would_break_a_named_limit(
    gpu: Gpu, threads: int, registers: int, shared_bytes: int
) -> None:
    found = occupancy(
        gpu, threads_per_block=threads, registers_per_thread=registers, shared_bytes_per_block=shared_bytes
    )
    resident, limiters = int(found.blocks_per_sm), found.limiters()
    warps = -(-threads // 32)
    registers_per_warp = -(-max(registers, 1) * 32 // 256) * 256
    assert limiters

    def fits(blocks: int) -> dict[Limiter, bool]:
        # registers live in sub-partitions: count the warps of one, whole
        warps_of_a_sub_partition = 65_536 // gpu.sub_partitions_per_sm // registers_per_warp
        unit = gpu.shared_allocation_unit_bytes
        allocated = -(-(shared_bytes + gpu.shared_reserved_bytes_per_block) // unit) * unit
        return {
            Limiter.WARPS: blocks * warps <= gpu.max_warps_per_sm,
            Limiter.BLOCKS: blocks <= gpu.max_blocks_per_sm,
            Limiter.REGISTERS: blocks * warps <= warps_of_a_sub_partition * gpu.sub_partitions_per_sm,
            Limiter.SHARED_MEMORY: blocks * allocated <= gpu.shared_bytes_per_sm,
        }

    if resident:
        assert all(fits(resident).values())
        assert {limiter for limiter, fit in fits(resident + 1).items() if not fit} == set(limiters)
        assert found.shared_bytes_per_sm <= gpu.shared_bytes_per_sm


@given(any_gpu, st.lists(st.tuples(threads, registers, shared_bytes), min_size=1, max_size=20))
def test_arrays_give_what_each_candidate_gives_alone(gpu: Gpu, candidates: list[tuple[int, int, int]]) -> None:
    block, registers, shared_bytes = np.array(candidates).T
    together = occupancy(
        gpu, threads_per_block=block, registers_per_thread=registers, shared_bytes_per_block=shared_bytes
    )
    for index, (threads, register, shared) in enumerate(candidates):
        alone = occupancy(gpu, threads_per_block=threads, registers_per_thread=register, shared_bytes_per_block=shared)
        assert together.at(index) == alone
        assert together.limiters(index) == alone.limiters()


def test_long_arrays_are_whole_and_in_order() -> None:
    threads = np.resize(np.arange(1, 1025), 70_001)
    found = occupancy(load_gpu("t4"), threads_per_block=threads, registers_per_thread=32, shared_bytes_per_block=0)
    assert found.blocks_per_sm.shape == (70_001,)
    np.testing.assert_array_equal(found.blocks_per_sm, np.minimum(16, 32 // -(-threads // 32)))


def test_barriers_limit_from_hopper_on() -> None:
    def with_barriers(gpu_id: str) -> tuple[int, tuple[Limiter, ...]]:
        found = occupancy(
            load_gpu(gpu_id),
            threads_per_block=64,
            registers_per_thread=16,
            shared_bytes_per_block=0,
            barriers_per_block=16,
        )
        return int(found.blocks_per_sm), found.limiters()

    assert with_barriers("h200") == (4, (Limiter.BARRIERS,))  # 64 barriers / 16
    assert with_barriers("a100-sxm-80gb") == (32, (Limiter.WARPS, Limiter.BLOCKS))


@pytest.mark.parametrize(
    ("gpu_id", "in_use", "carve_out", "l1"),
    [
        ("p100-pcie-12gb", 0, 64, 24),
        ("gtx-1080-ti", 96 * 1024, 96, 48),
        ("v100-pcie-32gb", 0, 0, 128),
        ("v100-pcie-32gb", 33 * 1024, 64, 64),
        ("rtx-2080-ti", 0, 32, 64),
        ("rtx-2080-ti", 32 * 1024 + 1, 64, 32),
        ("a100-sxm-80gb", 101 * 1024, 132, 60),
        ("rtx-3090", 65 * 1024, 100, 28),
        ("rtx-4090", 8 * 1024, 8, 120),
        ("h200", 165 * 1024, 196, 60 - 7),
        ("h200", 228 * 1024, 228, 28 - 7),
        ("b200", 1, 8, 248),
    ],
)
def test_l1_is_what_the_smallest_sufficient_carve_out_leaves(gpu_id: str, in_use: int, carve_out: int, l1: int) -> None:
    assert carve_out_bytes(load_gpu(gpu_id), in_use) == carve_out * 1024
    assert l1_cache_bytes(load_gpu(gpu_id), in_use) == l1 * 1024


def test_more_shared_memory_in_use_than_there_is() -> None:
    with pytest.raises(InputError, match="102401 bytes of shared memory in use, rtx-3090 has 102400 per SM"):
        l1_cache_bytes(load_gpu("rtx-3090"), [0, 102_401])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads_per_block": 0}, "threads_per_block=0 must be at least 1"),
        ({"threads_per_block": [64, -32]}, "threads_per_block=-32 must be at least 1"),
        ({"threads_per_block": 64.0}, "threads_per_block must be an integer, not 64.0"),
        ({"registers_per_thread": -1}, "registers_per_thread=-1 must be at least 0"),
        ({"shared_bytes_per_block": -1}, "shared_bytes_per_block=-1 must be at least 0"),
        ({"static_shared_bytes_per_block": 11}, "static_shared_bytes_per_block must not exceed"),
        ({"barriers_per_block": "many"}, "barriers_per_block must be an integer, not many"),
    ],
)
def test_wrong_input_names_the_value(arguments: dict[str, int], message: str) -> None:
    kernel = {"threads_per_block": 64, "registers_per_thread": 32, "shared_bytes_per_block": 10} | arguments
    with pytest.raises(InputError, match=message):
        occupancy(load_gpu("h200"), **kernel)


def test_sizes_beyond_32_bits_are_rejected_as_too_large_not_wrapped() -> None:
    found = occupancy(
        load_gpu("h200"), threads_per_block=2**32 + 64, registers_per_thread=2**40, shared_bytes_per_block=2**33
    )
    assert found.blocks_per_sm == 0
    assert found.limiters() == (
        Limiter.THREADS_PER_BLOCK,
        Limiter.REGISTERS_PER_THREAD,
        Limiter.REGISTERS_PER_BLOCK,
        Limiter.SHARED_BYTES_PER_BLOCK,
    )


def test_every_limit_has_a_text_with_its_number() -> None:
    texts = [limit_text(load_gpu("rtx-4090"), limiter) for limiter in Limiter]
    assert texts[0] == "48 warps per SM"
    assert texts[-2:] == [
        "101376 bytes of shared memory per block",
        "49152 bytes of static shared memory per block",
    ]
