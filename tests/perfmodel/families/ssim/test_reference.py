import numpy as np
import pytest

from perfmodel.families.ssim import FAMILY, Ssim
from perfmodel.families.ssim.reference import filtered, similarity, window


def test_window_is_the_normalised_gaussian():
    taps = window()
    assert taps.sum() == pytest.approx(1, abs=1e-15)
    assert taps[0] == taps[10]
    assert taps[5] / taps[4] == pytest.approx(np.exp(1 / (2 * 1.5**2)))


def test_map_is_the_definition_at_every_pixel():
    rng = np.random.default_rng(3)
    problem = Ssim(channels=1, height=13, width=7)
    inputs = FAMILY.inputs(problem, rng)
    value = similarity(problem, inputs["image1"], inputs["image2"])["map"][0, 0]
    weights = np.outer(window(), window())
    a, b = (np.pad(inputs[name][0, 0].astype(np.float64), 5) for name in ("image1", "image2"))
    for y, x in [(0, 0), (6, 3), (12, 6), (3, 5)]:
        p, q = a[y : y + 11, x : x + 11], b[y : y + 11, x : x + 11]
        m, n = (weights * p).sum(), (weights * q).sum()
        s, t, c = (weights * p * p).sum() - m * m, (weights * q * q).sum() - n * n, (weights * p * q).sum() - m * n
        expected = (2 * m * n + 1e-4) * (2 * c + 9e-4) / ((m * m + n * n + 1e-4) * (s + t + 9e-4))
        assert value[y, x] == pytest.approx(expected, rel=1e-12)


def test_equal_images_have_a_similarity_of_one():
    image = np.random.default_rng(1).random((2, 3, 9, 11))
    assert similarity(Ssim(batch=2, height=9, width=11), image, image)["map"] == pytest.approx(np.ones(image.shape))


def test_gradient_maps_give_the_derivative_of_the_mean_similarity():
    rng = np.random.default_rng(5)
    problem = Ssim(channels=1, height=12, width=9, gradients=True)
    a, b = rng.random((1, 1, 12, 9)), rng.random((1, 1, 12, 9))
    maps = similarity(problem, a, b)
    backward = filtered(maps["dm_dmu1"]) + 2 * a * filtered(maps["dm_dsigma1_sq"]) + b * filtered(maps["dm_dsigma12"])
    step = 1e-6
    for y, x in [(0, 0), (5, 4), (11, 8)]:
        change = np.zeros_like(a)
        change[0, 0, y, x] = step
        after, before = (similarity(problem, a + s * change, b)["map"].sum() for s in (1, -1))
        assert backward[0, 0, y, x] == pytest.approx((after - before) / (2 * step), rel=1e-6)
