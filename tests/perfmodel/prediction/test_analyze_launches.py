"""Launches of small kernels analysed: counts by hand, results by NumPy, faults with thread and line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel
from perfmodel.errors import InfeasibleError, InputError, SimulationError
from perfmodel.launch.arguments import Argument
from perfmodel.prediction.analyze import Analysis, analyze
from perfmodel.profiles.executed_profile import Effort
from perfmodel.simulator.faults import FaultError
from perfmodel.simulator.simulation import Budget

pytestmark = pytest.mark.compiler

SOURCE = r"""
__constant__ float weights[3];

template <int PAD>
__global__ void transpose(const float *in, float *out, int n)
{
    __shared__ float tile[32][32 + PAD];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void stencil(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = weights[0] * in[i] + weights[1] * in[i + 1] + weights[2] * in[i + 2];
}

__global__ void rows(const float *in, float *out, int n)
{
    int x = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
#pragma unroll
    for (int row = 0; row < 4; row++)
#pragma unroll
        for (int tap = 0; tap < 3; tap++)
            sum += __ldg(&in[(blockIdx.y * 4 + row + tap) * n + x]) * (row * 3 + tap);
    out[blockIdx.y * n + x] = sum;
}

__global__ void gain(const float *by, float *x, int n)
{
#pragma unroll 1
    for (int j = 0; j < n; j++)
        x[j * 32 + threadIdx.x] *= __ldg(by + threadIdx.x);
}

__global__ void scale(double *x, double by, unsigned char add) { x[threadIdx.x] = x[threadIdx.x] * by + add; }

__global__ void race(float *x)
{
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = s[63 - threadIdx.x];
}

__global__ void dynamic(float *x)
{
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
"""


def transpose(pad: int, n: int = 128, lines: bool = False) -> Analysis:
    image = np.arange(n * n, dtype=np.float32).reshape(n, n)
    return analyze(
        SOURCE,
        kernel=f"transpose<{pad}>",
        grid=(n // 32, n // 32),
        block=(32, 8),
        args=[image, np.zeros_like(image), n],
        gpu="rtx-3090",
        lines=lines,
    )


def test_counts_are_those_of_the_addresses() -> None:
    counts = transpose(0).prediction.counts
    warps = 16 * 8  # 4 x 4 blocks of 8 warps
    assert counts.global_load_requests == warps * 4
    assert counts.global_load_sectors == warps * 4 * 4  # 32 lanes * 4 bytes = 4 sectors
    assert counts.shared_load_wavefronts == warps * 4 * 32  # a column: every lane in the same bank
    assert counts.shared_store_wavefronts == warps * 4
    assert transpose(1).prediction.counts.shared_load_wavefronts == warps * 4  # the padding spreads the column


@pytest.mark.parametrize("gpu", ["rtx-2080-ti", "h200"])
def test_loads_of_one_address_that_the_compiler_joins_are_one_request(gpu: str) -> None:
    image, out = np.ones((4 * 8 + 2, 128), np.float32), np.zeros((8, 128), np.float32)
    found = analyze(SOURCE, kernel="rows", grid=(4, 8), block=32, args=[image, out, 128], gpu=gpu, lines=True)
    assert found.prediction.counts.global_load_requests == 4 * 8 * (4 + 3 - 1)  # of 4 * 3 in the source
    assert found.prediction.counts.global_load_sectors == 4 * 8 * 6 * 4
    assert found.prediction.counts.l2_read_sectors <= 4 * 8 * 6 * 4
    assert found.prediction.exact
    assert (
        sum(row.requests for row in found.instructions if row.action == "load" and row.space == "global") == 4 * 8 * 6
    )
    assert (found.outputs["out"] == sum(range(12))).all()


@pytest.mark.parametrize("gpu", ["rtx-2080-ti", "h200"])
def test_load_that_the_compiler_takes_out_of_a_loop_is_one_request(gpu: str) -> None:
    by, x = np.full(32, 2.0, np.float32), np.ones((10, 32), np.float32)
    found = analyze(SOURCE, kernel="gain", grid=1, block=32, args=[by, x, 10], gpu=gpu)
    assert found.prediction.counts.global_load_requests == 1 + 10  # the gain once, x in every iteration
    assert (found.outputs["x"] == 2).all()


def test_padding_is_predicted_to_be_faster() -> None:
    slow, fast = transpose(0, 1024), transpose(1, 1024)
    assert slow.prediction.time.predicted_s > fast.prediction.time.predicted_s
    assert slow.prediction.time.limiter == "lsu_data_pipe"


def test_outputs_are_the_buffers_after_execution() -> None:
    found = transpose(1)
    assert list(found.outputs) == ["out"]  # `in` is const
    assert (found.outputs["out"] == np.arange(128 * 128, dtype=np.float32).reshape(128, 128).T).all()


def test_arrays_of_the_caller_stay_as_they_are() -> None:
    x = np.ones(64)
    found = analyze(SOURCE, kernel="scale", grid=1, block=64, args=[x, 2.5, 3], gpu="h200")
    assert (found.outputs["x"] == 5.5).all()
    assert (x == 1).all()


def test_constants_are_given_by_name() -> None:
    found = analyze(
        SOURCE,
        kernel="stencil",
        grid=4,
        block=64,
        args=[np.arange(258, dtype=np.float32), np.zeros(256, np.float32), 250],
        constants={"weights": np.array([1, 10, 100], np.float32)},
        gpu="h200",
    )
    i = np.arange(256)
    assert (found.outputs["out"] == np.where(i < 250, i + 10 * (i + 1) + 100 * (i + 2), 0)).all()


def test_dynamic_shared_memory_is_part_of_the_launch() -> None:
    found = analyze(SOURCE, kernel="dynamic", grid=1, block=64, args=["f32[64]=arange"], gpu="h200", shared_bytes=256)
    assert found.prediction.resources.dynamic_shared_bytes == 256
    assert found.outputs["x"].tolist() == list(range(63, -1, -1))
    with pytest.raises(SimulationError, match="out-of-bounds"):
        analyze(SOURCE, kernel="dynamic", grid=1, block=64, args=["f32[64]"], gpu="h200", shared_bytes=128)


def test_every_block_or_a_sample_gives_the_same_counts() -> None:
    def counts(effort: Effort) -> object:
        arguments: list[Argument] = ["f32[100002]", "f32[100000]", "i32=99990"]
        found = analyze(SOURCE, kernel="stencil", grid=782, block=128, args=arguments, gpu="h200", effort=effort)
        assert found.prediction.exact
        return found.prediction.counts.global_load_sectors, found.prediction.counts.global_store_requests

    assert counts(Effort()) == counts(Effort(all_blocks=True))


def test_the_listing_names_source_lines_and_puts_the_worst_first() -> None:
    rows = transpose(0, lines=True).instructions
    worst = next(i for i, text in enumerate(SOURCE.split("\n"), 1) if "= tile[threadIdx.x]" in text)
    assert rows[0].line == worst
    assert rows[0].space == "shared"
    assert rows[0].efficiency == 1 / 32
    assert sum(row.requests for row in rows if row.action == "load" and row.space == "global") == 16 * 8 * 4


def test_a_race_is_reported_with_thread_and_line() -> None:
    found = analyze(SOURCE, kernel="race", grid=1, block=64, args=["f32[64]"], gpu="h200")
    (fault,) = found.faults
    assert fault.source_line == next(i for i, text in enumerate(SOURCE.split("\n"), 1) if "s[63 -" in text)
    assert "source.cu" in fault.text
    assert "thread (0, 0, 0)" in fault.text
    assert found.to_json()["faults"] == [fault.text]


def test_an_access_out_of_bounds_ends_with_thread_block_and_line() -> None:
    with pytest.raises(FaultError) as caught:
        analyze(SOURCE, kernel="stencil", grid=4, block=64, args=["f32[257]", "f32[256]", 256], gpu="h200")
    assert "thread (63, 0, 0) of block (3, 0, 0)" in str(caught.value)
    assert "past the end of 'in'" in str(caught.value)


def test_budgets_end_a_simulation() -> None:
    with pytest.raises(SimulationError):
        analyze(
            SOURCE,
            kernel="stencil",
            grid=64,
            block=64,
            args=["f32[5000]", "f32[5000]", 4096],
            gpu="h200",
            effort=Effort(budget=Budget(warp_instructions=10)),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["f32[4]"], r"1 arguments given, the kernel has 3 parameters: const float \*in, float \*out, int n"),
        (["i32=4", "f32[256]", "i32=1"], r"argument 1 \(const float \*in\) is a pointer"),
        (["f32[258]", "f32[256]", "f32[1]"], r"argument 3 \(int n\) is no pointer"),
        (["f32[258]", "f32[256]", "f32=1"], r"argument 3 \(int n\) takes an integer"),
        (["f32[258]", "f32[256]", "i64=1"], r"argument 3 \(int n\) has 4 bytes"),
        (
            ["f32[258]", "f32[256]", "many"],
            r"argument 3 \(int n\): expression 'many': unknown name 'many' \(a number is needed",
        ),
        (["f32[258]", "f32[256]", 1.5], r"argument 3 \(int n\) takes an integer, not 1.5"),
        (["f32[258]", "f32[256]", 2**40], r"argument 3 \(int n\) has 4 bytes; 1099511627776 does not fit"),
        (["i32[258]", "f32[256]", 256], r"argument 1 \(const float \*in\) takes a buffer of f32 or u32, not of i32"),
        (["null", "f32[256]", "null"], r"argument 3 \(int n\) is no pointer"),
        (["f32[258]", "f32[256]", [1]], "of type list"),
    ],
)
def test_arguments_that_do_not_fit_name_the_parameter(arguments: list[Argument], message: str) -> None:
    with pytest.raises(InputError, match=message):
        analyze(SOURCE, kernel="stencil", grid=4, block=64, args=arguments, gpu="h200")


def test_a_launch_that_does_not_fit_names_the_limit() -> None:
    with pytest.raises(InfeasibleError, match="232448 bytes of shared memory per block of h200"):
        analyze(SOURCE, kernel="dynamic", grid=1, block=64, args=["f32[64]"], gpu="h200", shared_bytes=300_000)
    for grid, block in ((0, 32), (1, 1025), ((1, 70_000), 32), (1, (8, 8, 65))):
        with pytest.raises(InputError, match="must lie in"):
            analyze(SOURCE, kernel="race", grid=grid, block=block, args=["f32[64]"], gpu="h200")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"source": 7}, "source of type int is no kernel"),
        ({"kernel": 3}, "kernel=3"),
        ({"grid": "x"}, "grid='x' must be one to three integers"),
        ({"block": 1.5}, r"block=1\.5 must be one to three integers"),
        ({"grid": (1, 1, 1, 1)}, "must be one to three integers"),
        ({"args": 4}, "args=4"),
        ({"gpu": None}, "gpu=None"),
        ({"shared_bytes": 1.5}, r"shared bytes 1\.5 must be an integer"),
        ({"shared_bytes": -1}, "shared bytes -1 must be an integer from 0"),
        ({"shared_bytes": 10**29}, "must be an integer from 0 to 2,147,483,647"),
    ],
)
def test_values_of_another_type_are_named(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {
        "source": SOURCE,
        "kernel": "race",
        "grid": 1,
        "block": 32,
        "args": ["f32[64]"],
        "gpu": "h200",
    }
    with pytest.raises(InputError, match=message):
        analyze(**right | wrong)


def test_a_kernel_of_the_package_gives_its_familys_counts(tmp_path: Path) -> None:
    from importlib import resources

    path = tmp_path / "own.cu"
    path.write_text(resources.files("perfmodel.kernels").joinpath("tiled_conv2d.cu").read_text(encoding="utf-8"))
    configuration = perfmodel.TiledConv2dConfiguration(block_size_x=32, block_size_y=4, tile_size_x=2, tile_size_y=2)
    problem = perfmodel.TiledConv2d(height=128, width=128, filter_height=3, filter_width=3)
    defines = {"IMAGE_WIDTH": 128, "IMAGE_HEIGHT": 128, "FILTER_WIDTH": 3, "FILTER_HEIGHT": 3, "READ_ONLY": 0}
    defines |= {"BLOCK_SIZE_X": 32, "BLOCK_SIZE_Y": 4, "TILE_SIZE_X": 2, "TILE_SIZE_Y": 2, "USE_SHMEM": 1}
    found = analyze(
        path,
        kernel="tiled_conv2d",
        grid=(2, 16),
        block=(32, 4),
        args=["f32[128 * 128]", "f32[130 * 130]"],
        gpu="rtx-3090",
        defines=defines | {"ROW_LENGTH": 66},
    ).prediction
    expected = perfmodel.predict(problem, configuration, gpu="rtx-3090", fidelity="compiled")
    for name in ("global_load_requests", "shared_load_wavefronts", "shared_store_requests", "fp32_fma", "barriers"):
        assert getattr(found.counts, name) == getattr(expected.counts, name), name
    assert found.resources.registers_per_thread == expected.resources.registers_per_thread


def test_arguments_that_people_have(tmp_path: Path) -> None:
    """bfloat16, a null pointer, a structure from a file and a number of the parameter's own type; 2 * 1.5 + 4 = 7."""
    source = """
#include <cuda_bf16.h>
struct Scale { int offset; float by; };
extern "C" __global__ void k(const __nv_bfloat16 *in, float *out, const float *bias, Scale scale, unsigned char n)
{
    if (threadIdx.x < n)
        out[threadIdx.x] = float(in[threadIdx.x]) * scale.by + scale.offset + (bias ? bias[threadIdx.x] : 0.0f);
}
"""
    path = tmp_path / "scale.npy"
    np.save(path, np.array([(4, 1.5)], dtype=[("offset", np.int32), ("by", np.float32)]))
    for null in ("null", None, 0):
        arguments: list[Argument] = ["bf16[32]=2", "f32[32]=0", null, f"struct=@{path}", "30 + 1"]
        found = analyze(source, kernel="k", grid=1, block=32, args=arguments, gpu="h200")
        assert found.outputs["out"].tolist() == [7.0] * 31 + [0.0]


def test_dynamic_shared_memory_must_be_given() -> None:
    with pytest.raises(InputError, match=r"uses the extern __shared__ array .*; give its bytes by --shared"):
        analyze(SOURCE, kernel="dynamic", grid=1, block=64, args=["f32[64]"], gpu="h200")


def test_ptx_is_analysed() -> None:
    source = """
.version 8.0
.target sm_75
.address_size 64
.visible .entry fill(.param .u64 out)
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    cvta.to.global.u64 %rd3, %rd1;
    add.s64 %rd4, %rd3, %rd2;
    st.global.u32 [%rd4], %r1;
    ret;
}
"""
    found = analyze(source, kernel="fill", grid=1, block=64, args=["i32[64]=0"], gpu="rtx-3090")
    assert found.outputs["arg0"].tolist() == list(range(64))


GUARDED = """
__global__ void scan(const unsigned *x, unsigned *y, unsigned *sums, int n)
{
    __shared__ unsigned part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    for (int apart = 1; apart < blockDim.x; apart *= 2) {
        __syncthreads();
        unsigned sum = 0;
        if (threadIdx.x >= apart) sum = part[threadIdx.x] + part[threadIdx.x - apart];
        __syncthreads();
        if (threadIdx.x >= apart) part[threadIdx.x] = sum;
    }
    if (i < n) y[i] = part[threadIdx.x];
    if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = part[threadIdx.x];
}
__global__ void tile_sums(const float *x, const float *bias, float *y)
{
    __shared__ float part[256];
    float a = x[blockIdx.x * 256 + threadIdx.x], b = x[threadIdx.x];
    for (int tile = 0; tile < 4; tile++) {
        part[threadIdx.x] = a * tile + b;
        __syncthreads();
        for (int apart = blockDim.x / 2; apart > 0; apart >>= 1) {
            if (threadIdx.x < apart) part[threadIdx.x] += part[threadIdx.x + apart];
            __syncthreads();
        }
        if (threadIdx.x == 0) y[blockIdx.x * 4 + tile] = part[0] + bias[blockIdx.x];
        __syncthreads();
    }
}
"""


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        ("scan", ["u32[76800]", "u32[76800]=0", "u32[300]=0", 76800]),
        ("tile_sums", ["f32[76800]", "f32[300]", "f32[1200]=0"]),
    ],
)
def test_a_register_that_guards_use_twice_carries_nothing_over(kernel: str, arguments: list[Argument]) -> None:
    """Values that are only added decide nothing, though an address has their register later, under a guard."""
    found = analyze(GUARDED, kernel=kernel, grid=300, block=256, args=arguments, gpu="h200")
    assert not any("random values" in text for text in found.prediction.notes)
    assert found.execution.blocks_executed < 300


GATHER = """
__global__ void gather(const int *index, const float *x, const float *bound, float *y, int n)
{
    __shared__ int kept[64];
    kept[threadIdx.x] = index[threadIdx.x];
    __syncthreads();
    float value = x[kept[threadIdx.x ^ 1] % n];
    if (bound[0] > 2)
        value = x[0];
    y[threadIdx.x] = value;
}
"""


@pytest.mark.parametrize("gpu", ["h200", "p100-pcie-12gb"])
def test_random_values_that_steer_are_named(gpu: str, tmp_path: Path) -> None:
    """``index`` decides addresses by way of shared memory, ``bound`` a branch; ``x`` is only copied."""

    def notes(*args: Argument) -> list[str]:
        found = analyze(GATHER, kernel="gather", grid=2, block=64, args=[*args, "f32[64]=0", 64], gpu=gpu)
        return [text for text in found.prediction.notes if "random values" in text]

    (text,) = notes("i32[64]=0..63", "f32[64]", "f32[1]")
    assert text.startswith("branches or addresses depend on random values of index (argument 1), bound (argument 3): ")
    assert text.endswith("as i32[]=@index.npy")
    path = tmp_path / "index.npy"
    np.save(path, np.arange(64, dtype=np.int32))
    assert notes(f"i32[]=@{path}", "f32[64]", "f32[1]=0") == []


NORMALISED = """
__global__ void normalised(const float *x, const float *scale, const float *bias, float *y) {
    float v = x[blockIdx.x * 64 + threadIdx.x];
    for (int i = 0; i < bias[0]; i++)
        v += i * v;
    y[blockIdx.x * 64 + threadIdx.x] = v / sqrtf(scale[blockIdx.x]) + 1.0f / (v * v);
}
"""


def test_what_decides_only_how_a_division_is_worked_out_is_not_asked_for() -> None:
    found = analyze(
        NORMALISED,
        kernel="normalised",
        grid=4,
        block=64,
        args=["f32[256]", "f32[4]=2", "f32[1]", "f32[256]"],
        gpu="h200",
    )
    texts = [text for text in found.prediction.notes if "random values" in text]
    assert texts == [
        "branches or addresses depend on random values of bias (argument 3): give real ones, as f32[]=@bias.npy",
        "divisions and roots of zeros and of numbers near the ends of the range take longer than those of the random values of "
        "x (argument 1)",
    ]
    assert found.blocks.executed == 4
    assert found.prediction.exact  # reciprocals and roots are corrected: no rounding of the hardware decides


def test_a_structure_points_to_buffers() -> None:
    source = """
struct Where { const float *from; float *to; int n; const int *index; const float *none; };
extern "C" __global__ void gather(Where w, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < w.n && !w.none) w.to[i] = by * w.from[w.index[i]];
}"""
    fields = "struct=*f32[64]=arange,*f32[64]=0,i32=64,*i32[64]=0..63,null"
    found = analyze(source, kernel="gather", grid=2, block=32, args=[fields, 2], gpu="h200")
    assert set(found.outputs["w.2"]) <= set(2 * np.arange(64, dtype=np.float32))
    assert found.outputs["w.2"].any()
    assert found.prediction.counts.global_store_sectors == 64 * 4 / 32
    assert "random values of w.4 (argument 1): give real ones, as i32[]=@w.4.npy" in " ".join(found.prediction.notes)
    other = analyze(source, kernel="gather", grid=2, block=32, args=[fields.replace("arange", "1"), 2], gpu="h200")
    assert set(other.outputs["w.2"]) == {2}
    with pytest.raises(InputError, match=r"'\*f32=1' is no pointer to a buffer, as \*f32\[64\] is"):
        analyze(source, kernel="gather", grid=2, block=32, args=["struct=*f32=1", 2], gpu="h200")


def test_a_buffer_holds_structures_and_pointers() -> None:
    source = """
struct Edge { short weight; int to; double length; };
extern "C" __global__ void follow(const Edge *edges, float *const *rows, double *out) {
    int i = threadIdx.x;
    out[i] = edges[i].weight * 1000 + rows[edges[i].to][i] + edges[i].length;
}"""
    edges, rows = "struct[32]=i16=2,i32[1]=0..3,f64[1]=arange", "struct[4]=*f32[32]=100"
    found = analyze(source, kernel="follow", grid=1, block=32, args=[edges, rows, "f64[32]=0"], gpu="h200")
    assert found.outputs["out"].tolist() == [2000 + 100 + i for i in range(32)]
    assert found.outputs["rows[3].1"].tolist() == [100] * 32
    assert found.prediction.counts.global_store_sectors == 32 * 8 / 32
    notes = " ".join(found.prediction.notes)
    assert "random values of edges (argument 1): give real ones, as struct[]=@edges.npy" in notes
    with pytest.raises(InputError, match="argument 'struct\\[\\]=i32=1' needs a number of structures"):
        analyze(source, kernel="follow", grid=1, block=32, args=["struct[]=i32=1", rows, "f64[32]=0"], gpu="h200")
    with pytest.raises(InputError, match=r"argument 3 .* is no pointer"):
        analyze(
            "__global__ void one(const int *x, int *y, int n) { y[0] = x[n]; }",
            kernel="one",
            grid=1,
            block=1,
            args=["i32[4]", "i32[1]", "struct[1]=i32=1"],
            gpu="h200",
        )


def test_a_file_holds_the_structures_of_a_buffer(tmp_path: Path) -> None:
    records = np.array([(1, 0.5), (2, 0.25)], np.dtype([("n", "i4"), ("x", "f8")], align=True))
    np.save(tmp_path / "records.npy", records)
    source = """
struct Record { int n; double x; };
extern "C" __global__ void sum(const Record *records, double *out) { out[0] = records[0].n + records[1].x; }"""
    given = f"=@{tmp_path}/records.npy"
    for size in ("", "2"):
        found = analyze(source, kernel="sum", grid=1, block=1, args=[f"struct[{size}]{given}", "f64[1]"], gpu="h200")
        assert found.outputs["out"].tolist() == [1.25]
    with pytest.raises(InputError, match="holds 2 structures, not 3"):
        analyze(source, kernel="sum", grid=1, block=1, args=[f"struct[3]{given}", "f64[1]"], gpu="h200")


def test_a_reference_is_a_pointer_and_numbers_go_to_the_ends_of_their_types() -> None:
    source = """
struct Key { unsigned long long word; };
__global__ void k(const Key &key, unsigned long long *to, unsigned long long mask, double by) {
    *to = (key.word & mask) + (by > 1e29);
}"""
    arguments: list[Argument] = ["u64[1]=12", "u64[1]=0", str(2**64 - 8), "1e30"]
    found = analyze(source, kernel="k", grid=1, block=1, args=arguments, gpu="h200")
    assert found.outputs["to"][0] == 9


SHARES = """
__global__ void shares(const float *x, float *y) {
    float v = expf(x[threadIdx.x]), sum = v;
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    y[threadIdx.x] = v / sum;
}
"""


@pytest.mark.parametrize(("values", "exact"), [("0", True), ("-80", False)])
def test_last_bits_that_decide_only_on_the_long_way_are_open_where_it_is_taken(values: str, exact: bool) -> None:
    """exp(-80) is below 2^-103, the least numerator that is divided the short way."""
    found = analyze(SHARES, kernel="shares", grid=1, block=32, args=[f"f32[32]={values}", "f32[32]"], gpu="h200")
    assert found.prediction.exact == exact
    assert any("rounds an approximate value" in text for text in found.prediction.notes) == (not exact)


def test_fields_of_a_structure_lie_where_the_compiler_puts_them() -> None:
    source = """
struct Mixed { char a; double b; short c[3]; float *none; };
__global__ void read(Mixed m, float4 v, double *y)
{
    y[0] = m.a + m.b * 10 + m.c[2] * 100 + (m.none == nullptr) * 1000 + v.w * 10000;
}
"""
    fields = "struct=i8=1,f64=2,i16[3]=3,u64=0"
    found = analyze(source, kernel="read", grid=1, block=1, args=[fields, "struct=f32[4]=4", "f64[1]"], gpu="h200")
    assert found.outputs["y"].tolist() == [1 + 20 + 300 + 1000 + 40000]
    with pytest.raises(
        InputError, match=r"argument 2 \(float4 v\) is a structure of 16 bytes; give it as .* its fields"
    ):
        analyze(source, kernel="read", grid=1, block=1, args=[fields, 0.5, "f64[1]"], gpu="h200")
    with pytest.raises(InputError, match="field '4' has no type"):
        analyze(source, kernel="read", grid=1, block=1, args=["struct=4", 0.5, "f64[1]"], gpu="h200")


def test_textures_and_surfaces_are_arguments() -> None:
    source = """
__global__ void k(cudaTextureObject_t t, cudaSurfaceObject_t s, float *x)
{
    int i = threadIdx.x;
    surf2Dwrite(tex2D<float>(t, 2 * i + 1, 0.5f), s, 4 * i, blockIdx.x);
    x[i] = tex2D<float>(t, i + 0.5f, 0.5f);
}"""
    arguments = ["texture=f32[1,64]=arange:linear", "surface=f32[2,32]=0", "f32[32]"]
    found = analyze(source, kernel="k", grid=2, block=32, args=arguments, gpu="h200")
    assert found.outputs["x"].tolist() == list(range(32))
    assert found.outputs["s"].tolist() == [2 * i + 0.5 for i in range(32)] * 2  # halfway between texels 2 i and 2 i + 1
    counts = found.prediction.counts
    assert (counts.texture_requests, counts.surface_store_requests) == (2 * 2, 2)
    assert counts.texture_sectors == 2 * (8 * 2 + 8)  # quads read 8 texels of 4 bytes, or 4, of 16 bytes a sector
    assert counts.surface_store_sectors == 2 * 4 * 2  # 8 lanes write 32 bytes
    assert found.prediction.exact
    other = analyze(source, kernel="k", grid=2, block=32, args=arguments, gpu="rtx-4090").prediction
    assert not other.exact
    assert any("how sm_89 tiles CUDA arrays was not counted" in note for note in other.notes)
    with pytest.raises(
        SimulationError, match=r"source.cu:6.* 0x5 is no texture or surface object: give the argument as"
    ):
        analyze(source, kernel="k", grid=2, block=32, args=[5, *arguments[1:]], gpu="h200")
    with pytest.raises(InputError, match=r"argument 3 \(float \*x\) is no texture or surface object"):
        analyze(source, kernel="k", grid=2, block=32, args=[*arguments[:2], "surface=f32[32]"], gpu="h200")


@pytest.mark.compiler
def test_a_block_that_does_far_more_than_the_others_decides_the_time() -> None:
    source = """__global__ void odd(float *x, int long_one) {
        int n = blockIdx.x == long_one ? 8000 : 10;
        float sum = 0;
        for (int i = 0; i < n; i++) sum += x[(threadIdx.x + i) & 1023];
        x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""

    def seconds(long_one: int) -> float:
        x = np.zeros(2000 * 64, np.float32)
        found = analyze(source, kernel="odd", grid=2000, block=64, args=[x, long_one], gpu="h200")
        assert found.prediction.exact
        return found.prediction.time.predicted_s

    assert seconds(1501) > 10 * seconds(-1)
    assert seconds(1501) > 8_000 * 4 / 1.98e9  # four cycles at least for each dependent addition
