"""Kernels on the device: the very cubin that was compiled is loaded, its constants set, its buffers uploaded."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, KernelCall, Launch, Structure, TensorMap
from perfmodel.launch.tensor_map import TENSOR_MAP_BYTES, TensorTiling
from perfmodel.records.schema import FailureKind

from .device import import_cupy

STATIC_SHARED_LIMIT_BYTES = 48 * 1024
"""Dynamic shared memory beyond this must be asked for (CUDA C++ Programming Guide, 16.4.3 and later sections)."""


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """A loaded kernel; ``function`` is CuPy's, called with grid, block and arguments."""

    module: Any
    function: Any


_DATA_TYPES = {
    name: number
    for number, names in enumerate(
        (
            ("u8", "i8"),
            ("u16", "i16"),
            ("u32",),
            ("i32",),
            ("u64",),
            ("i64",),
            ("f16",),
            ("f32",),
            ("f64",),
            ("bf16",),
            (),
            ("tf32",),
        )
    )
    for name in names
}
"""``CUtensorMapDataType`` of elements (CUDA driver API)."""
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""``CUtensorMapSwizzle`` of widths in bytes (CUDA driver API)."""


@dataclass(frozen=True, slots=True)
class DeviceTensorMap:
    """An array on the device, its tiling, and what the kernel is handed: the map's bytes, or an array of them on the device."""

    array: Any
    tiling: TensorTiling
    by_pointer: bool
    argument: Any

    @classmethod
    def of(cls, array: Any, tiling: TensorTiling, by_pointer: bool) -> DeviceTensorMap:
        """The map of an array, as the driver encodes it."""
        encoded = encoded_map(int(array.data.ptr), tiling)
        argument = import_cupy().asarray(encoded) if by_pointer else encoded.view(f"V{TENSOR_MAP_BYTES}")
        return cls(array, tiling, by_pointer, argument)

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return int(self.array.nbytes)

    def copy(self) -> DeviceTensorMap:
        """The map of a copy of the array."""
        return DeviceTensorMap.of(self.array.copy(), self.tiling, self.by_pointer)


@dataclass(frozen=True, slots=True)
class DeviceStructure:
    """What pointers of structures point to, by their offsets, and what the kernel is handed: the bytes, or an array of them."""

    arrays: Mapping[int, Any]
    content: NDArray[np.uint8]
    by_pointer: bool
    argument: Any

    @classmethod
    def of(cls, arrays: Mapping[int, Any], content: NDArray[np.uint8], by_pointer: bool) -> DeviceStructure:
        """Structures with the addresses of arrays on the device."""
        content = content.copy()
        for offset, array in arrays.items():
            content[offset : offset + 8] = np.frombuffer(np.uint64(array.data.ptr).tobytes(), np.uint8)
        argument = import_cupy().asarray(content) if by_pointer else content.view(f"V{len(content)}")
        return cls(arrays, content, by_pointer, argument)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(array.nbytes) for array in self.arrays.values())

    def copy(self) -> DeviceStructure:
        """The structures with copies of the arrays."""
        arrays = {offset: array.copy() for offset, array in self.arrays.items()}
        return DeviceStructure.of(arrays, self.content, self.by_pointer)


def encoded_map(address: int, tiling: TensorTiling) -> NDArray[np.uint8]:
    """The map of an array at an address, by the driver's ``cuTensorMapEncodeTiled``, which counts axes from the innermost."""
    rank, room = tiling.rank, np.zeros(2 * TENSOR_MAP_BYTES, np.uint8)
    first = -room.ctypes.data % TENSOR_MAP_BYTES
    encoded = room[first : first + TENSOR_MAP_BYTES]
    no_interleave, no_promotion, zeros_outside = 0, 0, 0
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(encoded.ctypes.data), _DATA_TYPES[tiling.element], rank, ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*tiling.shape[::-1]),
        (ctypes.c_uint64 * rank)(*tiling.strides_bytes[::-1]),
        (ctypes.c_uint32 * rank)(*tiling.box[::-1]),
        (ctypes.c_uint32 * rank)(*tiling.element_strides[::-1]),
        no_interleave, _SWIZZLES[tiling.swizzle_bytes], no_promotion, zeros_outside,
    )  # fmt: skip
    if status:
        raise RuntimeError(f"the driver refuses {tiling}: CUresult {status}")
    return encoded


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """Arguments of one launch on the device, and which of them are outputs by name."""

    arguments: tuple[Any, ...]
    outputs: Mapping[str, Any]

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(argument.nbytes for argument in self.arguments if not isinstance(argument, np.generic))


def load_kernel(cubin: Path, kernel_name: str, dynamic_shared_bytes: int, *, cooperative: bool = False) -> DeviceKernel:
    """Load a cubin file and find its kernel, to be launched cooperatively where its blocks wait for one another."""
    module = import_cupy().RawModule(path=str(cubin), enable_cooperative_groups=cooperative)
    function = module.get_function(kernel_name)
    if dynamic_shared_bytes > STATIC_SHARED_LIMIT_BYTES:
        function.max_dynamic_shared_size_bytes = dynamic_shared_bytes
    return DeviceKernel(module, function)


def upload_constants(kernel: DeviceKernel, call: KernelCall) -> tuple[Any, ...]:
    """Fill the module's constant and global arrays, which are returned."""
    cupy = import_cupy()
    filled = []
    for constant in call.constants:
        target = cupy.ndarray(constant.array.shape, constant.array.dtype, kernel.module.get_global(constant.name))
        target.set(np.ascontiguousarray(constant.array))
        filled.append(target)
    cupy.cuda.runtime.deviceSynchronize()
    return tuple(filled)


def upload(call: KernelCall) -> DeviceCall:
    """A copy of every buffer on the device, outputs with their poison; scalars as they are."""
    cupy = import_cupy()
    arguments: list[Any] = []
    outputs: dict[str, Any] = {}
    for parameter in call.parameters:
        if isinstance(parameter, Structure):
            pointed = {at: cupy.asarray(np.ascontiguousarray(buffer.array)) for at, buffer in parameter.pointers}
            content = np.frombuffer(parameter.content, np.uint8)
            arguments.append(DeviceStructure.of(pointed, content, parameter.by_pointer))
            outputs.update({buffer.name: pointed[at] for at, buffer in parameter.pointers if buffer.output})
            continue
        if not isinstance(parameter, Buffer | TensorMap):
            arguments.append(parameter)
            continue
        buffer = parameter.buffer if isinstance(parameter, TensorMap) else parameter
        array = cupy.asarray(np.ascontiguousarray(buffer.array))
        if isinstance(parameter, TensorMap):
            arguments.append(DeviceTensorMap.of(array, parameter.tiling, parameter.by_pointer))
        else:
            arguments.append(array)
        if buffer.output:
            outputs[buffer.name] = array
    cupy.cuda.runtime.deviceSynchronize()  # the launch may be on another stream than the copies
    return DeviceCall(tuple(arguments), outputs)


def duplicate(call: DeviceCall) -> DeviceCall:
    """The same arguments on copies of the buffers, made on the device."""
    outputs = {id(array): name for name, array in call.outputs.items()}
    copies = tuple(value if isinstance(value, np.generic) else value.copy() for value in call.arguments)
    arrays = ((_arrays(old), _arrays(new)) for old, new in zip(call.arguments, copies, strict=True))
    pairs = (pair for old, new in arrays for pair in zip(old, new, strict=True))
    named = {outputs[id(old)]: new for old, new in pairs if id(old) in outputs}
    import_cupy().cuda.runtime.deviceSynchronize()
    return DeviceCall(copies, named)


def _arrays(argument: Any) -> tuple[Any, ...]:
    if isinstance(argument, DeviceStructure):
        return tuple(argument.arrays.values())
    return (argument.array if isinstance(argument, DeviceTensorMap) else argument,)


def enqueue(kernel: DeviceKernel, launch: Launch, call: DeviceCall) -> None:
    """Put one launch into the current stream."""
    described = (DeviceTensorMap, DeviceStructure)
    handed = tuple(one.argument if isinstance(one, described) else one for one in call.arguments)
    kernel.function(launch.grid, launch.block, handed, shared_mem=int(launch.dynamic_shared_bytes))


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
