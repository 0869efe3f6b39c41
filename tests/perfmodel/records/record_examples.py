"""A record with every field filled, for tests of writing and reading."""

from perfmodel.launch.launch import L2State
from perfmodel.records.schema import (
    Correctness,
    Environment,
    KernelResources,
    Mark,
    Record,
    RecordKind,
    Timing,
    TimingMethod,
)

ENVIRONMENT = Environment(
    gpu_name="NVIDIA H200",
    compute_capability="9.0",
    driver_version="580.1",
    cuda_version="13.0",
    compiler_version="NVRTC 12.9",
    commit="0123abc",
    sm_clock_max_hz=1.98e9,
)


def tiled_record(block_size_x: int = 32, cold_s: float = 3e-4) -> Record:
    return Record(
        kind=RecordKind.KERNEL,
        name="tiled_conv2d",
        problem={"height": 64, "width": 128, "filter_height": 3, "filter_width": 5},
        configuration={
            "block_size_x": block_size_x,
            "block_size_y": 4,
            "tile_size_x": 2,
            "tile_size_y": 1,
            "use_padding": 0,
            "read_only": 1,
            "use_shmem": 1,
        },
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="2026-01-01T00:00:00+00:00",
        timings=(
            Timing(l2=L2State.COLD, method=TimingMethod.EVENTS, samples_s=(cold_s, 2 * cold_s, cold_s), marks=()),
            Timing(l2=L2State.WARM, method=TimingMethod.GRAPH, samples_s=(1e-4,), marks=(Mark.NOISY,)),
        ),
        resources=KernelResources(
            registers_per_thread=40,
            static_shared_bytes=1024,
            dynamic_shared_bytes=0,
            stack_bytes_per_thread=0,
            code_bytes=4096,
            cubin_sha256="ab" * 32,
        ),
        correctness=Correctness(max_relative_error=1e-7, tolerance=1e-5),
        counters={"smsp__inst_executed.sum": 12345.0},
    )
