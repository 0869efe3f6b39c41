"""wgmma, mbarrier, bulk copies, tensor maps and clusters: outputs are NumPy's, and tracing counts what executing counts."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import InputError, SimulationError
from perfmodel.launch.launch import Buffer, KernelCall, Launch, TensorMap
from perfmodel.launch.tensor_map import tensor_tiling
from perfmodel.machine_code.program import MachineCode, read_machine_code
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.simulator.faults import FaultError
from perfmodel.simulator.simulation import Mode

from .tensor_cases import Case, cases, plain_case, tensor_case

pytestmark = pytest.mark.compiler
EVERY_CASE = [(architecture, case.name) for architecture in ("sm_90",) for case in cases(architecture)] + [
    ("sm_75", "calls"),
    ("sm_80", "barrier_operations"),
    ("sm_100", "cluster_exchange"),
    ("sm_100", "tensors_f32_128"),
    ("sm_120", "calls"),
]


@cache
def case_of(architecture: str, name: str) -> Case:
    return next(case for case in cases(architecture) if case.name == name)


@cache
def code_of(source: str, kernel: str, defines: tuple[tuple[str, str | int], ...], architecture: str) -> MachineCode:
    request = CompileRequest(
        source=source, kernel=kernel, file_name="k.cu", defines=defines, architecture_specific=True
    )
    return read_machine_code(compile_kernel(request, architecture))


def run(case: Case, architecture: str, mode: Mode = Mode.EXECUTE) -> CountedRun:
    code = code_of(case.source, case.kernel, case.defines, architecture)
    return counted_run(code, case.launch, KernelCall(parameters=case.parameters), mode=mode)


@pytest.mark.parametrize(("architecture", "name"), EVERY_CASE)
def test_outputs_and_counts(architecture: str, name: str) -> None:
    case = case_of(architecture, name)
    executed, traced = run(case, architecture), run(case, architecture, Mode.TRACE)
    for output, expected in case.expected.items():
        np.testing.assert_array_equal(executed.outputs[output], expected, err_msg=output)
    if name != "barrier_operations":  # it polls
        assert traced.visits.tolist() == executed.visits.tolist()
        assert traced.instructions == executed.instructions


def test_a_warpgroup_product_is_one_tensor_instruction_of_each_warp() -> None:
    assert run(case_of("sm_90", "wgmma_0"), "sm_90").counts.tensor == 4


def test_bulk_copies_ask_l2_for_their_sectors_and_nothing_of_the_load_store_units() -> None:
    counts = run(plain_case(), "sm_90").counts
    assert counts.bulk_read_sectors == 5 * 256 / 32
    assert counts.bulk_write_sectors == 5 * 256 / 32 * 2  # stored, and added to the sum
    assert counts.global_load_sectors == counts.global_store_sectors == 0


def test_boxes_read_what_lies_inside_the_tensor_alone() -> None:
    counts = run(case_of("sm_90", "tensors_f32_128"), "sm_90").counts
    # 20 rows from byte 80 on of rows of 160 bytes: they begin and end within sectors every second time
    plane = sum((160 * row + 160 - 1) // 32 - (160 * row + 80) // 32 + 1 for row in range(30, 50))
    volume = 3  # three rows of 16 bytes
    assert counts.bulk_read_sectors == plane + volume


@pytest.mark.parametrize(
    ("column", "row", "reason"),
    [
        (21, 3, "a box must begin at a multiple of 16 bytes along the innermost axis"),
        (20, -3, "a box that is stored must not begin at a negative coordinate"),
    ],
)
def test_what_ends_a_launch_on_an_h200_is_a_fault(column: int, row: int, reason: str) -> None:
    case = tensor_case("fault", tensor_tiling("f32", (50, 40), box=(32, 32), swizzle_bytes=128), column, row)
    with pytest.raises(FaultError, match=reason):
        run(case, "sm_90")


def test_a_missing_tensor_map_is_named_in_one_line() -> None:
    case = case_of("sm_90", "cluster_share")
    arguments = (np.zeros(128, np.uint8), *case.parameters[1:])
    code = code_of(case.source, case.kernel, (), "sm_90")
    with pytest.raises(SimulationError, match=r"give the argument as tensormap=f16\[512,64\]:box=128,64:swizzle=128$"):
        counted_run(code, case.launch, KernelCall(parameters=arguments))


def test_a_phase_that_never_ends_is_a_fault() -> None:
    source = """
    extern "C" __global__ void k() {
        __shared__ alignas(8) unsigned long long barrier;
        const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
        if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 33;" ::"r"(at));
        __syncthreads();
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
        asm volatile("{ .reg .pred p; w: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra w; }" ::"r"(at) : "memory");
    }"""
    with pytest.raises(FaultError, match="the phase of its mbarrier never ends"):
        counted_run(code_of(source, "k", (), "sm_90"), Launch(grid_x=1, block_x=32), KernelCall(parameters=()))


def test_blocks_of_a_sample_bring_their_cluster_and_are_counted_alone() -> None:
    case = case_of("sm_90", "cluster_exchange")
    code = code_of(case.source, case.kernel, (), "sm_90")
    call = KernelCall(parameters=case.parameters)
    everything = counted_run(code, case.launch, call, mode=Mode.TRACE)
    two = counted_run(code, case.launch, call, mode=Mode.TRACE, blocks=np.array([7, 3]))
    assert two.counts.warp_instructions == everything.counts.warp_instructions * 2 / 24
    assert two.counts.shared_load_wavefronts == everything.counts.shared_load_wavefronts * 2 / 24


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"box": (8,)}, "a tensor map of 2 axes needs a box of 2 extents and 1 strides"),
        ({"box": (8, 300)}, r"extents \(8, 300\) of a box must lie in 1 … 256"),
        ({"box": (8, 4)}, "the box's rows of 8 bytes must be a multiple of 16 bytes"),
        ({"box": (8, 64), "swizzle_bytes": 64}, "the box's rows of 128 bytes exceed the swizzle of 64 bytes"),
        ({"box": (8, 64), "strides_bytes": (120,)}, r"strides \(120,\) of a tensor map must be multiples of 16 bytes"),
    ],
)
def test_tilings_that_the_driver_refuses(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tensor_tiling("f16", (64, 64), **arguments)  # type: ignore[arg-type]


def test_a_map_may_be_handed_over_by_pointer() -> None:
    source = """
    struct alignas(64) CUtensorMap { unsigned char bytes[128]; };
    extern "C" __global__ void k(const CUtensorMap *map, unsigned *out) {
        __shared__ alignas(128) unsigned box[32];
        __shared__ alignas(8) unsigned long long barrier;
        const unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" ::"r"(full) : "memory");
            asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"
                         ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(box))), "l"(map), "r"(4), "r"(full) : "memory");
        }
        __syncthreads();
        asm volatile("{ .reg .pred p; w: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra w; }"
                     ::"r"(full) : "memory");
        out[threadIdx.x] = box[threadIdx.x];
    }"""
    x = np.arange(64, dtype=np.uint32)
    map_ = TensorMap(buffer=Buffer(name="x", array=x), tiling=tensor_tiling("u32", (64,), box=(32,)), by_pointer=True)
    parameters = (map_, Buffer(name="out", array=np.zeros(32, np.uint32), output=True))
    found = counted_run(
        code_of(source, "k", (), "sm_90"), Launch(grid_x=1, block_x=32), KernelCall(parameters=parameters)
    )
    np.testing.assert_array_equal(found.outputs["out"], x[4:36])
