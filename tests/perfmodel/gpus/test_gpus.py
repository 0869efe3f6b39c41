import csv
import itertools
import shutil
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import gpu_id_of_device, gpu_ids, inherited_fields, load_gpu, source_of, with_sm_clock
from perfmodel.gpus.gpu import IntegerPorts
from perfmodel.gpus.sheet import FIELD_TYPES

DATA = Path(str(files("perfmodel.data"))) / "gpus"
FIELDS = list(FIELD_TYPES)
PUBLISHED = (
    *(
        "data sheet",
        "product brief",
        "technical brief",
        "whitepaper",
        "CUDA C++ Programming Guide",
        "Tuning Guide",
        "cuda_occupancy.h",
    ),
    *("deviceQuery", "cudaDeviceProp", "machine_parameters.csv", "TechPowerUp", "arXiv:", "GTC S"),
    *("micro-benchmark", "NVRTC", "ptxas", "nvdisasm", "CUDA Binary Utilities", "PTX ISA"),
)
KIB = 1024


@pytest.mark.parametrize("gpu_id", gpu_ids())
def test_a_gpu_with_clusters_says_what_they_cost(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    costs = (gpu.cluster_barrier_cycles, gpu.cluster_exchange_cycles, gpu.cluster_sm_share)
    assert {cost > 0 for cost in costs} == {gpu.architecture.has_clusters}
    assert (gpu.distributed_shared_latency_cycles > gpu.shared_latency_cycles) == gpu.architecture.has_clusters


def test_the_gpus_of_the_contract_are_there() -> None:
    assert set(gpu_ids()) == {
        *("p100-pcie-12gb", "gtx-1080-ti"),
        *("v100-pcie-32gb", "v100-sxm2-32gb"),
        *("titan-rtx", "rtx-2080-ti", "rtx-2070-super", "t4"),
        *("a100-pcie-40gb", "a100-sxm-40gb", "a100-sxm-80gb"),
        *("a40", "rtx-a4000", "rtx-a6000", "rtx-3060-laptop", "rtx-3080", "rtx-3090"),
        "jetson-agx-orin-64gb",
        *("l4", "l40", "l40s", "rtx-4090"),
        *("h100-pcie-80gb", "h100-nvl", "h100-sxm-80gb", "h200", "gh200"),
        *("b200", "b300"),
        *("rtx-5080", "rtx-5090", "rtx-pro-6000-blackwell"),
    }


@pytest.mark.parametrize("gpu_id", gpu_ids())
def test_every_value_has_a_source_and_those_derived_say_so(gpu_id: str) -> None:
    for field in FIELDS:
        source = source_of(gpu_id, field)
        assert source.startswith("derived: ") or any(word in source for word in PUBLISHED), (field, source)


@pytest.mark.parametrize("path", [*DATA.glob("*.toml"), *DATA.glob("architectures/*.toml")], ids=lambda path: path.stem)
def test_no_file_repeats_what_its_base_says(path: Path) -> None:
    own = tomllib.loads(path.read_text(encoding="utf-8"))
    bases = [(DATA / "architectures" / f"{own.get('base')}.toml"), DATA / "architectures" / "common.toml"]
    for base in bases:
        if base.exists() and base != path:
            below = tomllib.loads(base.read_text(encoding="utf-8"))
            assert not {key for key in own.keys() & below.keys() if key != "base" and own[key] == below[key]}


# FP32 FMA: SMs · lanes · 2 · boost clock, beside the TFLOPS that the data sheet prints
@pytest.mark.parametrize(
    ("gpu_id", "tflops"),
    [
        ("gtx-1080-ti", 11.3),
        ("v100-pcie-32gb", 14.0),
        ("v100-sxm2-32gb", 15.7),
        ("titan-rtx", 16.3),
        ("rtx-2080-ti", 13.4),
        ("rtx-2070-super", 9.1),
        ("t4", 8.1),
        ("a100-pcie-40gb", 19.5),
        ("a100-sxm-40gb", 19.5),
        ("a100-sxm-80gb", 19.5),
        ("a40", 37.4),
        ("rtx-a4000", 19.2),
        ("rtx-a6000", 38.7),
        ("rtx-3080", 29.8),
        ("rtx-3090", 35.6),
        ("l4", 30.3),
        ("l40", 90.5),
        ("rtx-4090", 82.6),
        ("h100-pcie-80gb", 51.0),
        ("h100-sxm-80gb", 67.0),
        ("h200", 67.0),
        ("gh200", 67.0),
        ("b200", 75.0),
        ("b300", 75.0),
        ("h100-nvl", 60.0),
        ("l40s", 91.6),
        ("rtx-5080", 56.3),
        ("rtx-5090", 104.8),
        ("rtx-pro-6000-blackwell", 125.0),
        ("jetson-agx-orin-64gb", 5.3),
    ],
)
def test_fp32_peak_is_the_data_sheets(gpu_id: str, tflops: float) -> None:
    gpu = load_gpu(gpu_id)
    assert gpu.sm_count * gpu.fp32_lanes_per_sm * 2 * gpu.boost_clock_hz == pytest.approx(tflops * 1e12, rel=0.02)


# memory: bus width in bytes · effective rate of a pin, as the data sheets print them
@pytest.mark.parametrize(
    ("gpu_id", "bus_bits", "gbit_per_pin"),
    [
        ("p100-pcie-12gb", 3072, 1.43),
        ("gtx-1080-ti", 352, 11),
        ("v100-pcie-32gb", 4096, 1.754),
        ("titan-rtx", 384, 14),
        ("rtx-2080-ti", 352, 14),
        ("rtx-2070-super", 256, 14),
        ("t4", 256, 10),
        ("a100-pcie-40gb", 5120, 2.43),
        ("a100-sxm-80gb", 5120, 3.186),
        ("a40", 384, 14.5),
        ("rtx-a4000", 256, 14),
        ("rtx-a6000", 384, 16),
        ("rtx-3060-laptop", 192, 14),
        ("rtx-3080", 320, 19),
        ("rtx-3090", 384, 19.5),
        ("l4", 192, 12.5),
        ("l40", 384, 18),
        ("rtx-4090", 384, 21),
        ("h100-pcie-80gb", 5120, 3.186),
        ("h100-sxm-80gb", 5120, 5.238),
        ("gh200", 6144, 5.238),
        ("b200", 7680, 7.992),
        ("b300", 7680, 7.992),
        ("h100-nvl", 6016, 5.238),
        ("l40s", 384, 18),
        ("rtx-5080", 256, 30),
        ("rtx-5090", 512, 28),
        ("rtx-pro-6000-blackwell", 512, 28),
        ("jetson-agx-orin-64gb", 256, 6.4),
    ],
)
def test_dram_peak_is_bus_width_times_pin_rate(gpu_id: str, bus_bits: int, gbit_per_pin: float) -> None:
    assert load_gpu(gpu_id).dram_bytes_per_s == pytest.approx(bus_bits / 8 * gbit_per_pin * 1e9, rel=0.01)


@pytest.mark.parametrize("gpu_id", gpu_ids())
def test_what_holds_on_every_gpu(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    assert gpu.id == gpu_id
    assert gpu.dram_read_bytes_per_s < gpu.dram_bytes_per_s < gpu.l2_read_bytes_per_s
    assert gpu.l2_read_bytes_per_s < gpu.sm_count * gpu.l1_bytes_per_cycle_per_sm * gpu.boost_clock_hz
    assert gpu.fp32_latency_cycles < gpu.shared_latency_cycles < gpu.l1_latency_cycles
    assert gpu.l1_latency_cycles < gpu.l2_latency_cycles < gpu.dram_latency_cycles
    assert gpu.instruction_cache_l0_bytes < gpu.instruction_cache_l1_bytes < gpu.instruction_cache_l2_bytes
    assert gpu.l1_bytes_per_sm * gpu.sm_count < gpu.dram_bytes
    assert gpu.fp32_lanes_per_sm % gpu.sub_partitions_per_sm == 0
    expected_ports = {64: IntegerPorts.SEPARATE, 128: IntegerPorts.HALF_SHARED}[gpu.fp32_lanes_per_sm]
    if gpu.int32_lanes_per_sm == gpu.fp32_lanes_per_sm and gpu.architecture.compute_capability[0] in (6, 10, 12):
        expected_ports = IntegerPorts.SAME
    assert gpu.integer_ports is expected_ports


def test_cost_of_a_shared_access_by_conflict_degree() -> None:
    def cost(gpu_id: str, degree: int) -> float:
        gpu = load_gpu(gpu_id)
        return max(gpu.shared_cycles_per_instruction, degree * gpu.shared_cycles_per_wavefront)

    assert [cost("rtx-2080-ti", degree) for degree in (1, 2, 4)] == [2, 4, 8]  # 2·c
    assert [cost("rtx-3090", degree) for degree in (1, 2, 4)] == [2, 2, 4]  # max(2, c)
    assert [cost("rtx-4090", degree) for degree in (1, 2, 4)] == [2, 2, 4]
    for gpu_id in ("p100-pcie-12gb", "v100-sxm2-32gb", "a100-sxm-80gb", "h200", "b200", "b300"):
        assert [cost(gpu_id, degree) for degree in (1, 2, 4)] == [1, 2, 4]  # c


@pytest.mark.data
def test_measured_parameters_are_the_published_ones(published_data: Path) -> None:
    """But for the H200's, which were measured for the project: those agree with the published ones within a fifth."""
    names = {
        "clock_mhz": ("boost_clock_hz", 1e6),
        "l1_latency_cycles": ("l1_latency_cycles", 1),
        "l2_latency_cycles": ("l2_latency_cycles", 1),
        "dram_latency_cycles": ("dram_latency_cycles", 1),
        "l1_bytes_per_cycle_per_sm": ("l1_bytes_per_cycle_per_sm", 1),
        "dram_read_gb_s": ("dram_read_bytes_per_s", 1e9),
        "l2_read_gb_s_20mb": ("l2_read_bytes_per_s", 1e9),
    }
    rows = list(csv.DictReader((published_data / "machine_parameters.csv").read_text().splitlines()))
    compared = [
        (row["gpu"], field, float(row[column]) * scale)
        for row, (column, (field, scale)) in itertools.product(rows, names.items())
        if row[column]
    ]
    assert len(rows) == 8
    assert len(compared) == 36
    for gpu_id, field, published in compared:
        allowed = 0.2 if gpu_id == "h200" else 1e-6
        assert getattr(load_gpu(gpu_id), field) == pytest.approx(published, rel=allowed), (gpu_id, field)


def test_unknown_gpu_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown GPU 'H100'; nearest: h100-nvl, h100-pcie-80gb, h100-sxm-80gb, "):
        load_gpu("H100")
    with pytest.raises(InputError, match=r"^unknown GPU 'sm_90'; accepted: a100-pcie-40gb, .*, v100-sxm2-32gb$"):
        load_gpu("sm_90")


def test_unknown_field_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown field 'l2_byte' of a GPU; nearest: l2_bytes"):
        source_of("h200", "l2_byte")


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("H200", "h200"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("RTX PRO 6000", "rtx-pro-6000-blackwell"),
        ("Jetson AGX Orin", "jetson-agx-orin-64gb"),
        ("NVIDIA H100 NVL", "h100-nvl"),
    ],
)
def test_a_gpu_goes_by_the_names_that_people_use(name: str, gpu_id: str) -> None:
    assert load_gpu(name).id == gpu_id
    assert source_of(name, "sm_count") == source_of(gpu_id, "sm_count")


@pytest.mark.parametrize("name", ["H20", "RTX 3060", "RTX 5090 D", "RTX"])
def test_a_name_of_another_gpu_is_none_of_these(name: str) -> None:
    """An H20 is no H200, an RTX 3060 no laptop's."""
    with pytest.raises(InputError, match=f"unknown GPU '{name}'"):
        load_gpu(name)


def test_what_is_inherited_is_listed() -> None:
    inherited = inherited_fields("rtx-5090")
    assert inherited["max_warps_per_sm"] == "sm_120"  # 48, of GB202
    assert inherited["instruction_cache_l1_bytes"] == "sm_100"
    assert inherited["registers_per_sm"] == "common"
    assert not {"sm_count", "l2_bytes", "dram_bytes_per_s"} & inherited.keys()
    assert inherited_fields("h200").keys() < set(FIELDS)


def test_driver_names() -> None:
    assert gpu_id_of_device("NVIDIA H200\n") == "h200"
    assert gpu_id_of_device("Tesla T4") == "t4"
    assert gpu_id_of_device("NVIDIA A100-SXM4-40GB") == "a100-sxm-40gb"
    with pytest.raises(
        InputError, match=r"^no data for the GPU 'NVIDIA GeForce RTX 9090'; give a file for it, or one of"
    ):
        gpu_id_of_device("NVIDIA GeForce RTX 9090")


def test_every_gpu_can_be_recognised_and_no_name_means_two() -> None:
    names = [
        (name, path.stem)
        for path in DATA.glob("*.toml")
        for name in tomllib.loads(path.read_text(encoding="utf-8"))["device_names"]
    ]
    assert {gpu_id for _, gpu_id in names} == set(gpu_ids())
    assert len({name for name, _ in names}) == len(names)
    assert all(gpu_id_of_device(name) == gpu_id for name, gpu_id in names)


def test_auto_without_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        InputError,
        match=r"^GPU 'auto': no GPU found: nvidia-smi does not run \(FileNotFoundError\); choose one of a100",
    ):
        load_gpu("auto")


@pytest.mark.gpu
def test_auto_is_the_gpu_that_the_driver_names() -> None:
    program = shutil.which("nvidia-smi")
    assert program
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert load_gpu("auto").id == gpu_id_of_device(names[0])


def test_sm_clock() -> None:
    slow = with_sm_clock(load_gpu("h200"), 1.2e9)
    assert (slow.boost_clock_hz, slow.base_clock_hz) == (1.2e9, 1.2e9)
    assert slow.dram_bytes_per_s == load_gpu("h200").dram_bytes_per_s
    assert with_sm_clock(load_gpu("h200"), 1.7e9).base_clock_hz == load_gpu("h200").base_clock_hz
    for clock in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="the SM clock must be a positive number of hertz, not"):
            with_sm_clock(load_gpu("h200"), clock)


def test_loading_gpus_imports_nothing_heavy() -> None:
    script = (
        "import sys; from perfmodel.gpus.catalogue import gpu_ids, load_gpu; [load_gpu(gpu_id) for gpu_id in gpu_ids()];"
        "print(sorted({'numpy', 'scipy', 'pandas', 'cupy', 'matplotlib', 'typer'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
