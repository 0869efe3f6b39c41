import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConfiguration, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.candidates import candidates
from perfmodel.gpus.catalogue import load_gpu


def test_reference_is_a_product_over_the_channels():
    problem = PointwiseConv2d(batch=2, in_channels=5, out_channels=3, height=4, width=6)
    inputs = FAMILY.inputs(problem, np.random.default_rng(1))
    output = FAMILY.reference(problem, inputs)["output"]
    assert output.dtype == np.float64
    for n, k, h, w in ((0, 0, 0, 0), (1, 2, 3, 5), (1, 0, 2, 4)):
        by_hand = sum(float(inputs["input"][n, c, h, w]) * float(inputs["filter"][k, c]) for c in range(5))
        assert abs(output[n, k, h, w] - by_hand) < 1e-12


def test_outputs_are_poisoned_and_parameters_in_the_kernel_s_order():
    problem = PointwiseConv2d(batch=2, in_channels=5, out_channels=3, height=4, width=6)
    call = FAMILY.call(
        problem, PointwiseConfiguration(), load_gpu("t4"), FAMILY.inputs(problem, np.random.default_rng(0))
    )
    output, image, filters, *sizes = call.parameters
    assert (output.name, image.name, filters.name) == ("output", "input", "filter")
    assert output.output
    assert np.isnan(output.array).all()
    assert [int(size) for size in sizes] == [2, 5, 3, 24]


def test_launch_covers_the_output():
    gpu = load_gpu("h200")
    problem = PointwiseConv2d(batch=3, in_channels=64, out_channels=100, height=9, width=11)
    for batch in FAMILY.space(problem, gpu).chunks():
        launch = FAMILY.launch(problem, batch, gpu)
        assert (launch.blocks >= 1).all()
        assert launch.block_x == 128
    one = FAMILY.launch(problem, Batch.of([PointwiseConfiguration(channel_lanes=32)]), gpu)
    # K wide: T_num = 100 / 2 = 50 columns of one element, two warps: 100 filters; 3·99·100 / 132 / 2 / 100 / 2 = 0.56 → 1 row
    assert (int(one.grid_x[0]), int(one.grid_y[0])) == (-(-297 // 2), 1)


def test_layers_with_the_same_tile_share_a_compiled_kernel():
    gpu = load_gpu("h200")
    requests = [
        FAMILY.compile_request(PointwiseConv2d(in_channels=channels), PointwiseConfiguration(), gpu)
        for channels in (256, 512)
    ]
    assert requests[0] == requests[1]


def test_no_time_is_asked_of_the_compiler_for_many_candidates():
    gpu = load_gpu("v100-sxm2-32gb")
    batch = next(iter(FAMILY.space(PointwiseConv2d(), gpu).chunks()))
    registers = FAMILY.registers(PointwiseConv2d(), batch, gpu)
    assert registers.dtype == np.int32
    assert registers.shape == (len(batch),)
    assert (registers >= 16).all()


def test_round_trips_are_slabs_and_chains_are_sums():
    gpu = load_gpu("h200")
    problem = PointwiseConv2d(in_channels=100)
    work = FAMILY.work(problem, Batch.of([PointwiseConfiguration(block_width_split=2, channel_lanes=8)]), gpu)
    # four slabs of four groups of eight channels, three of which are under way at a time
    assert work.global_round_trips.tolist() == [-(-4 // 3)]
    assert work.independent_chains.tolist() == [16 * 3]
    assert work.loop_code_bytes[0] > 16 * 2 * 48


def test_slabs_that_pass_through_registers_are_waited_for_one_by_one():
    problem, batch = PointwiseConv2d(in_channels=100), Batch.of([PointwiseConfiguration(channel_lanes=8)])
    found = candidates(problem, batch, load_gpu("rtx-2080-ti"))
    slabs = -(-100 // int(found.fetched.slab_channels[0]))
    assert FAMILY.work(problem, batch, load_gpu("rtx-2080-ti")).global_round_trips.tolist() == [slabs]


def test_only_gpus_that_can_are_asked_to_copy_asynchronously():
    problem, configuration = PointwiseConv2d(), PointwiseConfiguration()
    for gpu_id, able in (("v100-sxm2-32gb", 0), ("rtx-2080-ti", 0), ("a100-sxm-80gb", 1), ("h200", 1)):
        defines = dict(FAMILY.compile_request(problem, configuration, load_gpu(gpu_id)).defines)
        assert defines["ASYNC_COPY"] == able
        assert defines["STAGES"] > 2 if able else defines["STAGES"] == 2
