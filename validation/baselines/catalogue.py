"""Which baselines each family has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perfmodel.core.json_values import plain
from perfmodel.errors import InputError

from . import convolutions, similarity
from .interface import Baseline, Describe, Precision, Settings

FASTEST = Settings()
FIRST = Settings(benchmark=False)
TF32 = Settings(precision=Precision.TF32)
NATIVE = Settings(cudnn=False)
COMPILED = Settings(compiled=True)
CUBLASLT = Settings(blas="cublaslt")


def _by_cudnn(describe: Describe, layout: str) -> tuple[Baseline, ...]:
    """A convolution by cuDNN: its heuristic's first plan, its fastest one, and its fastest with tensor cores."""
    return (
        Baseline(name=f"cuDNN heuristic, {layout}", describe=describe, settings=FIRST),
        Baseline(name=f"cuDNN fastest, {layout}", describe=describe, settings=FASTEST),
        Baseline(name=f"cuDNN fastest TF32, {layout}", describe=describe, settings=TF32),
    )


def _dense(problem: Any) -> bool:
    return not problem.depthwise


_direct = convolutions.direct(channels_last=False)
_pointwise = convolutions.pointwise(channels_last=False)

BASELINES: Mapping[str, tuple[Baseline, ...]] = {
    "direct_conv2d": (
        *_by_cudnn(_direct, "NCHW"),
        *_by_cudnn(convolutions.direct(channels_last=True), "NHWC"),
        Baseline(name="PyTorch native, NCHW", describe=_direct, settings=NATIVE),
        Baseline(name="torch.compile, NCHW", describe=_direct, settings=COMPILED),
        Baseline(name="torch.compile, NHWC", describe=convolutions.direct(channels_last=True), settings=COMPILED),
        Baseline(name="im2col + cuBLAS", describe=convolutions.direct_by_columns, takes=_dense),
        Baseline(name="im2col + cuBLASLt", describe=convolutions.direct_by_columns, settings=CUBLASLT, takes=_dense),
    ),
    "tiled_conv2d": (
        *_by_cudnn(convolutions.tiled, "NCHW"),
        Baseline(name="PyTorch native", describe=convolutions.tiled, settings=NATIVE),
        Baseline(name="torch.compile", describe=convolutions.tiled, settings=COMPILED),
        Baseline(name="CuPy correlate", describe=convolutions.tiled_by_cupy),
    ),
    "pointwise_conv2d": (
        *_by_cudnn(_pointwise, "NCHW"),
        *_by_cudnn(convolutions.pointwise(channels_last=True), "NHWC"),
        Baseline(name="PyTorch native, NCHW", describe=_pointwise, settings=NATIVE),
        Baseline(name="torch.compile, NCHW", describe=_pointwise, settings=COMPILED),
        *(
            Baseline(
                name=f"{name}, {layout}",
                describe=convolutions.pointwise_product(channels_last=layout == "NHWC"),
                settings=settings,
            )
            for layout in ("NCHW", "NHWC")
            for name, settings in (("cuBLAS", FASTEST), ("cuBLASLt heuristic", CUBLASLT), ("cuBLAS TF32", TF32))
        ),
        *(
            Baseline(
                name=f"{name}, {layout}",
                describe=convolutions.pointwise_cublaslt(channels_last=layout == "NHWC", precision=settings.precision),
                settings=settings,
            )
            for layout in ("NCHW", "NHWC")
            for name, settings in (("cuBLASLt fastest", FASTEST), ("cuBLASLt fastest TF32", TF32))
        ),
    ),
    "conv1d": (
        *_by_cudnn(convolutions.row, "NCL"),
        *_by_cudnn(convolutions.row_channels_last, "NLC"),
        Baseline(name="PyTorch native, NCL", describe=convolutions.row, settings=NATIVE),
        Baseline(name="torch.compile, NCL", describe=convolutions.row, settings=COMPILED),
        Baseline(name="im2col + cuBLAS", describe=convolutions.row_by_columns),
        Baseline(name="im2col + cuBLASLt", describe=convolutions.row_by_columns, settings=CUBLASLT),
    ),
    "ssim": (
        Baseline(name="PyTorch, five maps", describe=similarity.separate),
        Baseline(name="PyTorch, maps stacked", describe=similarity.stacked),
        Baseline(name="PyTorch, planes stacked", describe=similarity.planes),
        Baseline(name="PyTorch TF32, planes stacked", describe=similarity.planes, settings=TF32),
        Baseline(name="torch.compile, five maps", describe=similarity.separate, settings=COMPILED),
        Baseline(name="torch.compile, maps stacked", describe=similarity.stacked, settings=COMPILED),
        Baseline(name="fused-ssim", describe=similarity.fused),
    ),
}


def baselines_of(family: str, problem: Any) -> tuple[Baseline, ...]:
    """The family's baselines that compute this problem; none where the family has none.

    Where products may be those of TF32, libraries that form such; in half precision those without; else all, of which those with
    TF32 are compared with nothing.
    """
    left_out = {Precision.TF32: Precision.FP32, Precision.FP16: Precision.TF32}.get(
        Precision.of_problem(plain(problem))
    )
    return tuple(
        baseline
        for baseline in BASELINES.get(family, ())
        if baseline.takes(problem) and baseline.settings.precision is not left_out
    )


def find_baseline(family: str, name: str) -> Baseline:
    """A family's baseline by name.

    Raises:
        InputError: The family has none of this name.
    """
    for baseline in BASELINES.get(family, ()):
        if baseline.name == name:
            return baseline
    known = ", ".join(baseline.name for baseline in BASELINES.get(family, ()))
    raise InputError(f"{family} has no baseline {name!r}; it has {known or 'none'}")
