"""Kernels on the device: the very cubin that was compiled is loaded, its constants set, its buffers uploaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.records.schema import FailureKind

from .device import import_cupy

STATIC_SHARED_LIMIT_BYTES = 48 * 1024
"""Dynamic shared memory beyond this must be asked for (CUDA C++ Programming Guide, 16.4.3 and later sections)."""


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A loaded kernel; ``function`` is CuPy's, called with grid, block and arguments."""

    module: Any
    function: Any


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """Arguments of one launch on the device, and which of them are outputs by name."""

    arguments: tuple[Any, ...]
    outputs: Mapping[str, Any]

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(argument.nbytes for argument in self.arguments if not isinstance(argument, np.generic))


def load_kernel(cubin: Path, kernel_name: str, dynamic_shared_bytes: int) -> DeviceKernel:
    """Load a cubin file and find its kernel."""
    module = import_cupy().RawModule(path=str(cubin))
    function = module.get_function(kernel_name)
    if dynamic_shared_bytes > STATIC_SHARED_LIMIT_BYTES:
        function.max_dynamic_shared_size_bytes = dynamic_shared_bytes
    return DeviceKernel(module, function)


def upload_constants(kernel: DeviceKernel, call: KernelCall) -> None:
    """Fill the module's constant and global arrays."""
    cupy = import_cupy()
    for constant in call.constants:
        target = cupy.ndarray(constant.array.shape, constant.array.dtype, kernel.module.get_global(constant.name))
        target.set(np.ascontiguousarray(constant.array))
    cupy.cuda.runtime.deviceSynchronize()


def upload(call: KernelCall) -> DeviceCall:
    """A copy of every buffer on the device, outputs with their poison; scalars as they are."""
    cupy = import_cupy()
    arguments: list[Any] = []
    outputs: dict[str, Any] = {}
    for parameter in call.parameters:
        if not isinstance(parameter, Buffer):
            arguments.append(parameter)
            continue
        array = cupy.asarray(np.ascontiguousarray(parameter.array))
        arguments.append(array)
        if parameter.output:
            outputs[parameter.name] = array
    cupy.cuda.runtime.deviceSynchronize()  # the launch may be on another stream than the copies
    return DeviceCall(tuple(arguments), outputs)


def duplicate(call: DeviceCall) -> DeviceCall:
    """The same arguments on copies of the buffers, made on the device."""
    outputs = {id(array): name for name, array in call.outputs.items()}
    copies = tuple(value if isinstance(value, np.generic) else value.copy() for value in call.arguments)
    named = {outputs[id(old)]: new for old, new in zip(call.arguments, copies, strict=True) if id(old) in outputs}
    import_cupy().cuda.runtime.deviceSynchronize()
    return DeviceCall(copies, named)


def enqueue(kernel: DeviceKernel, launch: Launch, call: DeviceCall) -> None:
    """Put one launch into the current stream."""
    kernel.function(launch.grid, launch.block, call.arguments, shared_mem=int(launch.dynamic_shared_bytes))


def run_once(kernel: DeviceKernel, launch: Launch, call: DeviceCall) -> dict[str, NDArray[Any]]:
    """Launch, wait, and bring the outputs back."""
    cupy = import_cupy()
    enqueue(kernel, launch, call)
    cupy.cuda.runtime.deviceSynchronize()
    return {name: cupy.asnumpy(array) for name, array in call.outputs.items()}


def cuda_errors() -> tuple[type[Exception], ...]:
    """What CuPy raises when the driver refuses or a kernel faults."""
    cuda = import_cupy().cuda
    return (cuda.driver.CUDADriverError, cuda.runtime.CUDARuntimeError, cuda.memory.OutOfMemoryError)


def failure_kind(error: Exception) -> FailureKind:
    """Out of memory, or any other fault of a launch."""
    out_of_memory = isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error) or "MemoryAllocation" in str(error)
    return FailureKind.OUT_OF_MEMORY if out_of_memory else FailureKind.LAUNCH
