import csv
import itertools
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.gpu import Gpu, IntegerPorts
from perfmodel.gpus import gpu_id_of_device, gpu_ids, load_gpu, source_of, with_sm_clock

DATA = Path(str(files("perfmodel.data"))) / "gpus"
FIELDS = [field.name for field in fields(Gpu) if field.name not in ("id", "name")]
PUBLISHED = (
    *("data sheet", "product brief", "whitepaper", "CUDA C++ Programming Guide", "Tuning Guide", "cuda_occupancy.h"),
    *("deviceQuery", "cudaDeviceProp", "machine_parameters.csv", "TechPowerUp", "arXiv:", "GTC S"),
)
KIB = 1024


def test_the_gpus_of_the_contract_are_there() -> None:
    assert set(gpu_ids()) == {
        *("p100-pcie-12gb", "gtx-1080-ti"),
        *("v100-pcie-32gb", "v100-sxm2-32gb"),
        *("titan-rtx", "rtx-2080-ti", "rtx-2070-super", "t4"),
        *("a100-pcie-40gb", "a100-sxm-40gb", "a100-sxm-80gb"),
        *("a40", "rtx-a4000", "rtx-a6000", "rtx-3060-laptop", "rtx-3080", "rtx-3090"),
        *("l4", "l40", "rtx-4090"),
        *("h100-pcie-80gb", "h100-sxm-80gb", "h200", "gh200"),
        *("b200",),
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
    if gpu.int32_lanes_per_sm == gpu.fp32_lanes_per_sm and gpu.compute_capability[0] in (6, 10):
        expected_ports = IntegerPorts.SAME
    assert gpu.integer_ports is expected_ports


def test_cost_of_a_shared_access_by_conflict_degree() -> None:
    def cost(gpu_id: str, degree: int) -> float:
        gpu = load_gpu(gpu_id)
        return max(gpu.shared_cycles_per_instruction, degree * gpu.shared_cycles_per_wavefront)

    assert [cost("rtx-2080-ti", degree) for degree in (1, 2, 4)] == [2, 4, 8]  # 2·c
    assert [cost("rtx-3090", degree) for degree in (1, 2, 4)] == [2, 2, 4]  # max(2, c)
    assert [cost("rtx-4090", degree) for degree in (1, 2, 4)] == [2, 2, 4]
    for gpu_id in ("p100-pcie-12gb", "v100-sxm2-32gb", "a100-sxm-80gb", "h200", "b200"):
        assert [cost(gpu_id, degree) for degree in (1, 2, 4)] == [1, 2, 4]  # c


@pytest.mark.data
def test_measured_parameters_are_the_published_ones(published_data: Path) -> None:
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
        assert getattr(load_gpu(gpu_id), field) == pytest.approx(published), (gpu_id, field)


def test_unknown_gpu_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown GPU 'H100'; nearest: h100-pcie-80gb, h100-sxm-80gb, "):
        load_gpu("H100")
    with pytest.raises(InputError, match=r"^unknown GPU 'sm_90'; accepted: a100-pcie-40gb, .*, v100-sxm2-32gb$"):
        load_gpu("sm_90")


def test_unknown_field_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^unknown field 'l2_byte' of a GPU; nearest: l2_bytes"):
        source_of("h200", "l2_byte")


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
        InputError, match=r"^no GPU found: nvidia-smi does not run \(FileNotFoundError\); choose one of a100"
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


def complete(gpu_id: str) -> dict[str, str]:
    """Every field of a GPU as lines of a file that stands alone."""
    gpu = load_gpu(gpu_id)
    lines = {"name": f'name = "{gpu.name}"'}
    for field in FIELDS:
        value = getattr(gpu, field)
        text = (
            f'"{value.value}"'
            if isinstance(value, IntegerPorts)
            else str(list(value) if isinstance(value, tuple) else value)
        )
        lines[field] = f'{field} = {{ value = {text}, source = "{source_of(gpu_id, field)}" }}'
    return lines


@pytest.fixture
def toml(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_a_file_of_ones_own_extends_a_gpu(toml: Callable[[str], str]) -> None:
    path = toml('base = "h200"\nsm_count = { value = 66, source = "half of it" }')
    mine = load_gpu(path)
    assert (mine.id, mine.name, mine.sm_count) == ("mine", load_gpu("h200").name, 66)
    assert mine.l2_bytes == load_gpu("h200").l2_bytes
    assert source_of(path, "sm_count") == "half of it"
    assert source_of(path, "l2_bytes") == source_of("h200", "l2_bytes")


@pytest.mark.parametrize("gpu_id", ["p100-pcie-12gb", "h200"])
def test_a_file_of_ones_own_may_say_everything(toml: Callable[[str], str], gpu_id: str) -> None:
    mine = load_gpu(toml("\n".join(complete(gpu_id).values())))
    assert all(getattr(mine, field) == getattr(load_gpu(gpu_id), field) for field in FIELDS)


@given(st.sets(st.sampled_from(["name", *FIELDS]), min_size=1, max_size=5))
def test_missing_fields_are_named(tmp_path_factory: pytest.TempPathFactory, missing: set[str]) -> None:
    path = tmp_path_factory.mktemp("gpu") / "mine.toml"
    path.write_text("\n".join(line for key, line in complete("t4").items() if key not in missing), encoding="utf-8")
    named = ", ".join(key for key in ("name", *FIELDS) if key in missing)
    with pytest.raises(InputError) as error:
        load_gpu(str(path))
    assert str(error.value) == f"{path}: missing {named}; give them, or a base that has them"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "h20O"', "unknown base 'h20O'; nearest: h200, gh200"),
        ('base = "../gpus/h200"', "unknown base '../gpus/h200'; "),
        ("base = 90", "base = 90 must be a string"),
        ('base = "h200"\nname = 200', "name = 200 must be a string"),
        ('base = "h200"\ndevice_names = "H200"', "device_names = 'H200' must be a list of strings"),
        (
            'base = "h200"\nsm_counts = { value = 1, source = "" }',
            "unknown key 'sm_counts'; nearest: sm_count",
        ),
        ('base = "h200"\nid = "mine"', "unknown key 'id'; accepted: base, name, device_names, compute_capability, "),
        ('base = "h200"\nsm_count = 66', 'sm_count must be { value = …, source = "…" }, not 66'),
        (
            'base = "h200"\nsm_count = { value = 66 }',
            "sm_count must be { value = …, source = \"…\" }, not {'value': 66}",
        ),
        ('base = "h200"\nsm_count = { value = 66, source = " " }', "sm_count must say its source in a string, not ' '"),
        ('base = "h200"\nsm_count = { value = 66.0, source = "me" }', "sm_count = 66.0 must be an integer"),
        ('base = "h200"\nsm_count = { value = true, source = "me" }', "sm_count = True must be an integer"),
        ('base = "h200"\nsm_count = { value = 0, source = "me" }', "sm_count = 0 must be more than 0 and finite"),
        (
            'base = "h200"\nboost_clock_hz = { value = "fast", source = "me" }',
            "boost_clock_hz = 'fast' must be a number",
        ),
        (
            'base = "h200"\ndram_bytes_per_s = { value = inf, source = "me" }',
            "dram_bytes_per_s = inf must be more than 0 and finite",
        ),
        (
            'base = "h200"\nlaunch_overhead_s = { value = -1e-6, source = "me" }',
            "launch_overhead_s = -1e-06 must be 0 or more and finite",
        ),
        (
            'base = "h200"\ninteger_ports = { value = "shared", source = "me" }',
            "integer_ports = 'shared' must be one of same, separate, half-shared",
        ),
        (
            'base = "h200"\ncompute_capability = { value = [9], source = "me" }',
            "compute_capability = [9] must be a list of two integers",
        ),
        (
            'base = "h200"\nshared_carve_outs_bytes = { value = [0, 1.5], source = "me" }',
            "shared_carve_outs_bytes = [0, 1.5] must be a list of integers",
        ),
        (
            'base = "h200"\nshared_carve_outs_bytes = { value = [0, 1024], source = "me" }',
            "shared_carve_outs_bytes = [0, 1024] must ascend to shared_bytes_per_sm = 233472",
        ),
        (
            'base = "h200"\nboost_clock_hz = { value = 1e9, source = "me" }',
            "base_clock_hz = 1.59e+09 must not exceed boost_clock_hz = 1e+09",
        ),
        ("sm_count = 1\nsm_count = 2", "is not TOML: Cannot overwrite a value"),
        ("sm_count =", "is not TOML: Invalid value"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_with_file_and_key(
    toml: Callable[[str], str], text: str, message: str
) -> None:
    path = toml(text)
    with pytest.raises(InputError) as error:
        load_gpu(path)
    assert str(error.value).startswith(f"{path}: {message}")
    assert "\n" not in str(error.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: there is no such file$"):
        load_gpu(str(tmp_path / "none.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(InputError, match=r"folder\.toml: cannot be read: Is a directory$"):
        load_gpu(str(tmp_path / "folder.toml"))
    (tmp_path / "bytes.toml").write_bytes(b"name = '\xff'")
    with pytest.raises(InputError, match=r"bytes\.toml: is not TOML: 'utf-8' codec can't decode"):
        load_gpu(str(tmp_path / "bytes.toml"))


def test_loading_gpus_imports_nothing_heavy() -> None:
    script = (
        "import sys; from perfmodel.gpus import gpu_ids, load_gpu; [load_gpu(gpu_id) for gpu_id in gpu_ids()];"
        "print(sorted({'numpy', 'scipy', 'pandas', 'cupy', 'matplotlib', 'typer'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_manual_explains_every_field_and_its_example_loads(toml: Callable[[str], str]) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "gpus.md").read_text(encoding="utf-8")
    cells = [
        line.split("|")[1] for line in manual.split("## Fields")[1].split("## Sources")[0].splitlines() if "|" in line
    ]
    assert sorted(" ".join(cells).replace(",", " ").replace("`", " ").split()) == sorted([*FIELDS, "field", "---"])

    example = load_gpu(toml(manual.split("```toml\n")[1].split("```")[0]))
    assert (example.boost_clock_hz, example.sm_count) == (1.755e9, load_gpu("h100-sxm-80gb").sm_count)
