"""Fewer configurations for ``@triton.autotune`` to measure: those that are predicted fastest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.value_types import require_type
from ..errors import InputError, PerfmodelError
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.analyze import analyze
from ..sources.triton_kernel import jit_function, values_of

_ELEMENTS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}
"""Names of floating-point elements in an argument's spec, by Torch's."""


def triton_pruning(
    kernel: Callable[[], Any], *, keep: int = 5, gpu: str | Gpu = "auto", l2: L2State | str = L2State.WARM
) -> dict[str, Any]:
    """What ``prune_configs_by`` of ``@triton.autotune`` takes, so that only the predicted fastest are measured.

    The first call of the kernel with new keys compiles every configuration for the GPU and executes it on the CPU. Where a kernel
    cannot be executed, all configurations stay and a warning says why.

    Args:
        kernel: a function without parameters that returns the decorated kernel, such as ``lambda: add``; the kernel does not yet
            exist where it is decorated.
        keep: how many configurations to measure.
        gpu: id, file or record of the GPU; the one that is there by default.
        l2: what the L2 holds when the kernel starts; Triton measures one launch after the other.

    Raises:
        InputError: ``keep`` is not a positive number.

    >>> sorted(triton_pruning(lambda: None, keep=3, gpu="h200"))
    ['early_config_prune']
    """
    require_type(int, "an integer", keep=keep)
    if keep < 1:
        raise InputError(f"keep={keep} must be at least 1")

    def early_config_prune(configs: Sequence[Any], named_args: Mapping[str, Any], **others: Any) -> list[Any]:
        function = kernel()
        given = {**named_args, **others}
        parameters = jit_function(function).params
        chosen = {name for config in configs for name in config.kwargs}
        names = [one.name for one in parameters if one.name in given and one.name not in chosen]
        constant = {one.name for one in parameters if one.is_constexpr}
        arguments = [_argument(given[name]) for name in names if name not in constant]
        shared = {name: given[name] for name in names if name in constant}
        times: list[tuple[float, int]] = []
        failure: PerfmodelError | None = None
        for place, config in enumerate(configs):
            try:
                values = shared | values_of(config)
                found = analyze(function, args=arguments, grid=given.get("grid"), defines=values, gpu=gpu, l2=l2)
                times.append((found.prediction.time.predicted_s, place))
            except PerfmodelError as error:
                failure = error
        if not times:
            warnings.warn(f"all {len(configs)} configurations are kept: {failure}", stacklevel=2)
            return list(configs)
        return [configs[place] for _, place in sorted(times)[:keep]]

    return {"early_config_prune": early_config_prune}


def _argument(value: Any) -> Any:
    """An argument as `analyze` takes it: of a tensor of floating-point numbers only type and size, whatever device it lies on."""
    if not hasattr(value, "data_ptr"):
        return value
    kind = _ELEMENTS.get(str(value.dtype).removeprefix("torch."))
    if kind is None:
        return value.detach().cpu().numpy().ravel()
    elements = value.untyped_storage().nbytes() // value.element_size() - value.storage_offset()
    return f"{kind}[{elements}]"
