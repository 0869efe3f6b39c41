import numpy as np
import pytest

from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version


@pytest.fixture(scope="module")
def batch(gpu):
    return next(FAMILY.space(Ssim(), gpu).chunks())


def test_the_space_is_the_nine_versions(batch):
    assert [batch.configuration(i).version for i in range(len(batch))] == list(Version)


@pytest.mark.parametrize("field", ["batch", "channels", "height", "width"])
def test_sizes_below_one_are_refused_by_name(field):
    with pytest.raises(InputError, match=f"{field}=0 "):
        Ssim(**{field: 0})


def test_gradients_must_be_a_truth_value():
    with pytest.raises(InputError, match="gradients=2 must be true or false"):
        Ssim(gradients=2)


def test_more_images_or_rows_than_a_grid_holds_are_rejected_with_value_and_limit(gpu):
    batch = Batch.of([SsimConfiguration(version=Version.V2), SsimConfiguration(version=Version.V4)])
    rows, images = FAMILY.checks(Ssim(height=65_536 * 8, batch=65_536), batch, gpu)
    assert rows.rejected.tolist() == [True, False]
    assert rows.message(0) == "blocks in y: 65536 exceeds 65535"
    assert images.rejected.all()


@pytest.mark.parametrize("gradients", [False, True])
def test_instruction_classes_and_requests_sum_to_all_instructions(gpu, batch, gradients):
    counts = FAMILY.work(Ssim(height=75, width=131, gradients=gradients), batch, gpu).counts
    requests = (
        counts.global_load_requests
        + counts.global_store_requests
        + counts.shared_load_requests
        + counts.shared_store_requests
        + counts.async_copy_requests
    )
    classes = sum(getattr(counts, name) for name in INSTRUCTION_CLASSES)
    local = counts.warp_instructions - requests - classes
    expected = np.zeros(len(batch))
    # v3_0: 2 · 3 tiles of 3 channels; 55 pairs for each of 32 rows loaded, 10 floats for each of 42 rows stored
    expected[list(Version).index(Version.V3_0)] = 3 * 3 * 3 * (32 * 55 + 42 * 10)
    np.testing.assert_allclose(local, expected, atol=1e-6)


def test_dram_traffic_is_both_images_and_the_maps(gpu, batch):
    for gradients, maps in ((False, 1), (True, 4)):
        counts = FAMILY.work(Ssim(gradients=gradients), batch, gpu).counts
        assert (counts.dram_read_bytes == 2 * 3 * 2160 * 3840 * 4).all()
        assert (counts.dram_write_bytes == maps * 3 * 2160 * 3840 * 4).all()


def test_barriers_are_executed_by_every_warp_for_every_channel(gpu, batch):
    counts = FAMILY.work(Ssim(), batch, gpu).counts
    naive, first = (counts.barriers[list(Version).index(v)] for v in (Version.NAIVE, Version.V1))
    assert naive == 18 * 3 * 32 * 120 * 68
    assert first == 12 * 3 * 32 * 120 * 68


def test_output_buffers_are_poisoned_and_inputs_lie_within_the_unit_range(gpu):
    problem = Ssim(height=5, width=3, gradients=True)
    inputs = FAMILY.inputs(problem, np.random.default_rng(0))
    call = FAMILY.call(problem, SsimConfiguration(), gpu, inputs)
    outputs = [p for p in call.parameters if getattr(p, "output", False)]
    assert [buffer.name for buffer in outputs] == ["map", "dm_dmu1", "dm_dsigma1_sq", "dm_dsigma12"]
    assert all(np.isnan(buffer.array).all() for buffer in outputs)
    assert all((image >= 0).all() and (image <= 1).all() for image in inputs.values())
    assert [int(size) for size in call.parameters[-3:]] == [3, 5, 3]


def notes_of(version, gpu):
    return " | ".join(FAMILY.notes(Ssim(), SsimConfiguration(version=version), gpu))


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        (Version.NAIVE, "18 barriers of 32 warps for each channel, 6 of them needless"),
        (Version.V1, "12 barriers of 32 warps for each channel"),
        (Version.V2, "39.5 % more multiply-adds than naive"),
        (Version.V3_0, "local memory: 440 bytes for each thread"),
        (Version.V3_1, "exceed"),
        (Version.V3_1, "guards: testing every pixel costs"),
        (Version.V3, "exceed"),
        (Version.V4_1, "fit"),
        (Version.V4, "fit"),
        (Version.V4, "guards: testing every pixel costs"),
        (Version.V4_Z4, "fit"),
    ],
)
def test_each_version_names_its_reason(gpu, version, reason):
    assert reason in notes_of(version, gpu)


@pytest.mark.parametrize("version", [Version.V3, Version.V4_1, Version.V4_Z4])
def test_versions_without_guards_do_not_speak_of_them(gpu, version):
    assert "guards" not in notes_of(version, gpu)
