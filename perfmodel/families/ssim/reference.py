"""Inputs, the kernels' parameters, and structural similarity with its gradients in float64.

Definition: Wang, Bovik, Sheikh, Simoncelli, "Image quality assessment: from error visibility to structural similarity", 2004,
with the usual 11-tap Gaussian window of standard deviation 1.5, K1 = 0.01, K2 = 0.03, range 1 and zeros outside of the image.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import Buffer, KernelCall, poisoned
from .configuration import Design
from .problem import RADIUS, WINDOW, Ssim

Floats64 = NDArray[np.float64]

WINDOW_DEVIATION = 1.5
LUMINANCE_CONSTANT = 0.01**2
CONTRAST_CONSTANT = 0.03**2
OUTPUTS = ("map", "dm_dmu1", "dm_dsigma1_sq", "dm_dsigma12")


def inputs(problem: Ssim, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Two images within [0, 1), the second half the first and half noise, so that the similarity is neither 0 nor 1."""
    shape = (problem.batch, problem.channels, problem.height, problem.width)
    image1 = rng.random(shape, np.float32)
    return {"image1": image1, "image2": (image1 + rng.random(shape, np.float32)) / np.float32(2)}


def call(problem: Ssim, design: Design, given: Mapping[str, NDArray[np.float32]]) -> KernelCall:
    """Parameters: output maps, both images, channels of a block, height, width."""
    shape = given["image1"].shape
    outputs = [Buffer(name=name, array=poisoned(shape), output=True) for name in OUTPUTS[: problem.output_maps]]
    images = [Buffer(name=name, array=given[name]) for name in ("image1", "image2")]
    sizes = [np.int32(size) for size in (design.channels_of_block(problem), problem.height, problem.width)]
    return KernelCall(parameters=(*outputs, *images, *sizes))


def window() -> Floats64:
    """The eleven taps, with a sum of 1.

    >>> window()[5].round(9)
    np.float64(0.266011725)
    """
    taps = np.exp(-((np.arange(WINDOW) - RADIUS) ** 2) / (2 * WINDOW_DEVIATION**2))
    return np.asarray(taps / taps.sum())


def filtered(images: Floats64) -> Floats64:
    """Windowed mean of images of shape ``(…, height, width)``, in both directions, zeros outside."""
    for axis in (-1, -2):
        margins = [(0, 0)] * images.ndim
        margins[axis] = (RADIUS, RADIUS)
        padded = np.moveaxis(np.pad(images, margins), axis, -1)
        length = images.shape[axis]
        total = sum(tap * padded[..., i : i + length] for i, tap in enumerate(window()))
        images = np.moveaxis(np.asarray(total), -1, axis)
    return images


def similarity(problem: Ssim, image1: NDArray[np.floating], image2: NDArray[np.floating]) -> Mapping[str, Floats64]:
    """The map and, where the problem asks for them, the gradient maps; all in the images' shape.

    The map is a function of five filtered maps. ``dm_dmu1``, ``dm_dsigma1_sq``, ``dm_dsigma12`` are its derivatives with respect
    to the filtered image1, image1² and image1·image2, each with the other filtered maps held: filtering them once
    more gives the derivative with respect to the pixels of image1.
    """
    a, b = image1.astype(np.float64), image2.astype(np.float64)
    mu1, mu2 = filtered(a), filtered(b)
    sigma1_sq, sigma2_sq = filtered(a * a) - mu1**2, filtered(b * b) - mu2**2
    sigma12 = filtered(a * b) - mu1 * mu2
    luminance, luminance_norm = 2 * mu1 * mu2 + LUMINANCE_CONSTANT, mu1**2 + mu2**2 + LUMINANCE_CONSTANT
    contrast, contrast_norm = 2 * sigma12 + CONTRAST_CONSTANT, sigma1_sq + sigma2_sq + CONTRAST_CONSTANT
    norm = luminance_norm * contrast_norm
    value = luminance * contrast / norm
    if not problem.gradients:
        return {"map": value}
    by_means = mu2 * (contrast - luminance) / norm
    by_norms = mu1 * value * (1 / contrast_norm - 1 / luminance_norm)
    maps = (value, 2 * (by_means + by_norms), -value / contrast_norm, 2 * luminance / norm)
    return dict(zip(OUTPUTS, maps, strict=True))
