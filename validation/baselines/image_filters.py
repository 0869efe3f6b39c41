"""Filters of image libraries on the GPU, for one image and one filter: CuPy's and OpenCV's."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.families.tiled_conv2d import TiledConv2d

from .interface import BaselineRun, BaselineUnavailableError, Inputs, library

OPENCV_LARGEST_FILTER = 32


def cupy_correlate(problem: TiledConv2d, inputs: Inputs) -> BaselineRun:
    """``cupyx.scipy.ndimage.correlate`` over the padded image; the family's outputs are its interior."""
    cupy, ndimage = library("cupy"), library("cupyx.scipy.ndimage")
    image, weights = cupy.asarray(inputs["input"]), cupy.asarray(inputs["filter"])
    result = cupy.empty_like(image)

    def enqueue() -> Any:
        return ndimage.correlate(image, weights, output=result, mode="constant")

    def outputs() -> dict[str, Any]:
        enqueue()
        top, left = problem.filter_height // 2, problem.filter_width // 2
        interior = result[top : top + problem.height, left : left + problem.width]
        return {"output": cupy.asnumpy(interior)}

    return BaselineRun(enqueue=enqueue, outputs=outputs)


def opencv_filter(problem: TiledConv2d, inputs: Inputs) -> BaselineRun:
    """OpenCV's linear filter on the GPU, where OpenCV was built with CUDA."""
    cv2 = library("cv2")
    if not hasattr(cv2, "cuda") or cv2.cuda.getCudaEnabledDeviceCount() == 0:
        raise BaselineUnavailableError("OpenCV was built without CUDA")
    if max(problem.filter_height, problem.filter_width) > OPENCV_LARGEST_FILTER:
        raise BaselineUnavailableError(f"OpenCV filters on the GPU with at most {OPENCV_LARGEST_FILTER} taps a side")
    image = cv2.cuda_GpuMat()
    image.upload(np.ascontiguousarray(inputs["input"]))
    linear = cv2.cuda.createLinearFilter(cv2.CV_32F, cv2.CV_32F, inputs["filter"], borderMode=cv2.BORDER_CONSTANT)
    result = cv2.cuda_GpuMat(image.size(), cv2.CV_32F)

    def outputs() -> dict[str, Any]:
        linear.apply(image, result)
        top, left = problem.filter_height // 2, problem.filter_width // 2
        return {"output": result.download()[top : top + problem.height, left : left + problem.width]}

    return BaselineRun(enqueue=lambda: linear.apply(image, result), outputs=outputs)
