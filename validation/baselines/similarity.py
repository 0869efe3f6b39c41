"""Structural similarity: as it is written with PyTorch, in three ways, and by fused-ssim's kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from perfmodel.families.ssim import Ssim
from perfmodel.families.ssim.problem import RADIUS
from perfmodel.families.ssim.reference import CONTRAST_CONSTANT, LUMINANCE_CONSTANT, OUTPUTS, window

from .interface import Inputs, Operation, library


def separate(torch: Any, problem: Ssim, inputs: Inputs) -> Operation:
    """Five maps, each filtered by two depthwise convolutions."""

    def means(maps: tuple[Any, ...], across: Any, along: Any) -> tuple[Any, ...]:
        return tuple(_filtered(torch, one, across, along, problem.channels) for one in maps)

    return _operation(torch, problem, inputs, means, problem.channels)


def stacked(torch: Any, problem: Ssim, inputs: Inputs) -> Operation:
    """The five maps as one batch, filtered by two depthwise convolutions."""

    def means(maps: tuple[Any, ...], across: Any, along: Any) -> tuple[Any, ...]:
        found = _filtered(torch, torch.cat(maps), across, along, problem.channels)
        return tuple(found.split(problem.batch))

    return _operation(torch, problem, inputs, means, problem.channels)


def planes(torch: Any, problem: Ssim, inputs: Inputs) -> Operation:
    """The five maps as one batch of images of one channel, filtered by two dense convolutions."""
    shape = (problem.batch, problem.channels, problem.height, problem.width)

    def means(maps: tuple[Any, ...], across: Any, along: Any) -> tuple[Any, ...]:
        images = torch.cat(maps).view(len(maps) * problem.planes, 1, problem.height, problem.width)
        found = _filtered(torch, images, across, along, 1)
        return tuple(one.view(shape) for one in found.split(problem.planes))

    return _operation(torch, problem, inputs, means, 1)


def _filtered(torch: Any, maps: Any, across: Any, along: Any, groups: int) -> Any:
    wide = torch.nn.functional.conv2d(maps, across, padding=(0, RADIUS), groups=groups)
    return torch.nn.functional.conv2d(wide, along, padding=(RADIUS, 0), groups=groups)


def _operation(
    torch: Any, problem: Ssim, inputs: Inputs, means: Callable[..., tuple[Any, ...]], filters: int
) -> Operation:
    def similarity(first: Any, second: Any, across: Any, along: Any) -> tuple[Any, ...]:
        maps = (first, second, first * first, second * second, first * second)
        mu1, mu2, square1, square2, product = means(maps, across, along)
        luminance, luminance_norm = 2 * mu1 * mu2 + LUMINANCE_CONSTANT, mu1 * mu1 + mu2 * mu2 + LUMINANCE_CONSTANT
        contrast = 2 * (product - mu1 * mu2) + CONTRAST_CONSTANT
        contrast_norm = (square1 - mu1 * mu1) + (square2 - mu2 * mu2) + CONTRAST_CONSTANT
        norm = luminance_norm * contrast_norm
        value = luminance * contrast / norm
        if not problem.gradients:
            return (value,)
        by_means = mu2 * (contrast - luminance) / norm
        by_norms = mu1 * value * (1 / contrast_norm - 1 / luminance_norm)
        return value, 2 * (by_means + by_norms), -value / contrast_norm, 2 * luminance / norm

    taps = np.tile(window().astype(np.float32), (filters, 1))
    arrays = (inputs["image1"], inputs["image2"], taps[:, None, None, :], taps[:, None, :, None])
    tensors = tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
    return Operation(function=similarity, tensors=tensors, outputs=OUTPUTS[: problem.output_maps])


def fused(torch: Any, problem: Ssim, inputs: Inputs) -> Operation:
    """The kernel of the package fused-ssim, which computes the map and the three gradient maps at once."""
    extension = library("fused_ssim_cuda")

    def similarity(first: Any, second: Any) -> tuple[Any, ...]:
        found = extension.fusedssim(LUMINANCE_CONSTANT, CONTRAST_CONSTANT, first, second, problem.gradients)
        return tuple(found[: problem.output_maps])

    tensors = tuple(torch.from_numpy(np.ascontiguousarray(inputs[name])) for name in ("image1", "image2"))
    return Operation(function=similarity, tensors=tensors, outputs=OUTPUTS[: problem.output_maps])
