"""Memories of a launch of machine code: constant banks with launch dimensions and parameters, variables of the module."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...compiler.resources import PlacedParameter
from ...core.constants import CONSTANT_BANK_BYTES, round_up
from ...errors import SimulationError
from ...ir.instruction import Space
from ...launch.device_heap import HEAP_BYTES, DeviceHeap
from ...launch.launch import GRID_BARRIER_BYTES, Buffer, KernelCall, Launch
from ...machine_code.cubin import Cubin, ModuleVariable
from ...machine_code.operands import Constant
from ...machine_code.program import MachineCode
from ..access import Site
from ..global_memory import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, Bytes, GlobalMemory
from ..initialise import bytes_of, parameter_value, require_declared
from ..machine import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaunchPlaces:
    """Offsets in constant bank 0 of what every launch has, by generation."""

    block: int
    grid: int
    shared_window: int | None
    local_window: int
    stack: int
    parameters: int
    """The generic address of the first parameter."""
    is_cluster: int
    cluster: int
    cluster_reciprocals: int
    clusters: int
    cluster_blocks: int
    grid_barrier: int
    """The address of the grid's barrier, its upper half first (``%envreg1`` and ``%envreg2`` of PTX)."""


_DESCRIPTOR_BYTES = 8
"""Of the descriptor of global memory, which lies before the first parameter."""
_BEFORE_HOPPER = _LaunchPlaces(
    block=0x0,
    grid=0xC,
    shared_window=0x18,
    local_window=0x20,
    stack=0x28,
    parameters=0x198,
    is_cluster=0x140,
    cluster=0x144,
    cluster_reciprocals=0x150,
    clusters=0x15C,
    cluster_blocks=0x188,
    grid_barrier=0x8C,
)
_HOPPER = replace(_BEFORE_HOPPER, grid_barrier=0x44)
_BLACKWELL = _LaunchPlaces(
    block=0x360,
    grid=0x370,
    shared_window=None,
    local_window=0x2F8,
    stack=0x37C,
    parameters=0x348,
    is_cluster=0x36C,
    cluster=0x2A0,
    cluster_reciprocals=0x2B0,
    clusters=0x2C0,
    cluster_blocks=0x2CC,
    grid_barrier=0x254,
)


@dataclass(slots=True)
class MachineEnvironment(Environment):
    """What all batches of a launch share, with the constant banks that machine code reads."""

    banks: dict[int, Bytes] = field(default_factory=dict)
    _read: dict[tuple[int, int, str], NDArray[Any]] = field(default_factory=dict)

    def constant(self, bank: int, offset: int, kind: str) -> NDArray[Any]:
        """A word or pair at a fixed place of a bank, uniform; zeros behind what its contents define.

        Raises:
            SimulationError: nothing is known of the bank.
        """
        key = (bank, offset, kind)
        if key not in self._read:
            types: dict[str, type[np.generic]] = {
                "u32": np.uint32,
                "s32": np.int32,
                "f32": np.float32,
                "u64": np.uint64,
                "s64": np.int64,
                "f64": np.float64,
            }
            dtype = np.dtype(types[kind])
            if bank not in self.banks:
                known = ", ".join(f"{one:#x}" for one in sorted(self.banks))
                raise SimulationError(f"constant bank {bank:#x} is read, of which nothing is known; known are {known}")
            data = self.banks[bank][offset : offset + dtype.itemsize]
            padded = np.zeros(dtype.itemsize, np.uint8)
            padded[: len(data)] = data
            self._read[key] = padded.view(dtype).reshape(1, 1)
        return self._read[key]

    def narrow_constant(self, bank: int, offset: int, kind: str) -> NDArray[np.uint32]:
        """A byte or half word at a fixed place of a bank, extended to a word."""
        types: dict[str, type[np.generic]] = {"U8": np.uint8, "S8": np.int8, "U16": np.uint16, "S16": np.int16}
        dtype = np.dtype(types[kind])
        data = self.banks[bank][offset : offset + dtype.itemsize]
        return data.view(dtype).astype(np.int32).view(np.uint32).reshape(1, 1)

    def bank_offset(self, bank: int, offset: int) -> int:
        """Place of an offset in a bank among all constants."""
        return bank * CONSTANT_BANK_BYTES + offset

    def window(self, space: Space) -> NDArray[np.uint32]:
        """Upper half of the first generic address of shared or local memory."""
        start = SHARED_WINDOW if space is Space.SHARED else LOCAL_WINDOW
        return np.full((1, 1), start >> 32, np.uint32)


def _put(bank: Bytes, offset: int, values: NDArray[Any]) -> None:
    data = bytes_of(values)
    bank[offset : offset + len(data)] = data


def _places(kernel: MachineCode) -> _LaunchPlaces:
    if kernel.properties.launch_words_of_blackwell:
        return _BLACKWELL
    return _HOPPER if kernel.properties.has_clusters else _BEFORE_HOPPER


def is_launch_word(kernel: MachineCode, offset: int) -> bool:
    """Whether what lies at an offset in constant bank 0 is known: a word of the launch, a parameter, or what describes memory."""
    places = _places(kernel)
    words = {places.block: 12, places.grid: 12, places.local_window: 8, places.stack: 4, places.parameters: 8,
             places.is_cluster: 4, places.cluster: 12, places.cluster_reciprocals: 12, places.clusters: 12,
             places.cluster_blocks: 4, places.grid_barrier: 8}  # fmt: skip
    if places.shared_window is not None:
        words[places.shared_window] = 8
    return offset >= kernel.cubin.parameter_offset - _DESCRIPTOR_BYTES or any(
        first <= offset < first + size for first, size in words.items()
    )


def waits_for_grid(kernel: MachineCode) -> bool:
    """Whether a kernel synchronises its grid (``grid.sync()`` of cooperative groups): it reads where the barrier lies."""
    place = _places(kernel).grid_barrier
    operands = (operand for instruction in kernel.instructions for operand in instruction.operands)
    return any(isinstance(operand, Constant) and (operand.bank, operand.offset) == (0, place) for operand in operands)


def _launch_words(kernel: MachineCode, bank: Bytes, launch: Launch, local_bytes: int) -> None:
    places = _places(kernel)
    _put(bank, places.block, np.array(launch.block, np.uint32))
    _put(bank, places.grid, np.array(launch.grid, np.uint32))
    if places.shared_window is not None:
        _put(bank, places.shared_window, np.array([SHARED_WINDOW], np.uint64))
    _put(bank, places.local_window, np.array([LOCAL_WINDOW], np.uint64))
    _put(bank, places.stack, np.array([local_bytes], np.uint32))
    if places.parameters < kernel.cubin.parameter_offset:
        _put(bank, places.parameters, np.array([PARAMETER_WINDOW + kernel.cubin.parameter_offset], np.uint64))
        _cluster_words(bank, places, launch)


def _cluster_words(bank: Bytes, places: _LaunchPlaces, launch: Launch) -> None:
    """What special registers of clusters are made from; reciprocals round up, so that whole quotients stay whole."""
    extents = np.array(launch.cluster, np.uint32)
    reciprocals = (np.float32(1) / extents).astype(np.float32)
    reciprocals = np.where(extents & (extents - 1), np.nextafter(reciprocals, np.float32(2)), reciprocals)
    _put(bank, places.is_cluster, np.array([launch.blocks_per_cluster > 1], np.uint32))
    _put(bank, places.cluster, extents)
    _put(bank, places.cluster_reciprocals, reciprocals.astype(np.float32))
    _put(bank, places.clusters, np.array(launch.grid, np.uint32) // extents)
    _put(bank, places.cluster_blocks, np.array([launch.blocks_per_cluster], np.uint32))


def _put_parameters(kernel: MachineCode, bank: Bytes, values: list[Any]) -> None:
    parameters: tuple[PlacedParameter, ...] = kernel.cubin.parameters
    if len(values) != len(parameters):
        raise SimulationError(f"kernel {kernel.name} has {len(parameters)} parameters, {len(values)} are given")
    for parameter, value in zip(parameters, values, strict=True):
        data = np.frombuffer(np.asarray(value).tobytes(), np.uint8)
        if len(data) != parameter.size_bytes:
            raise SimulationError(
                f"parameter {parameter.index} of kernel {kernel.name} has {parameter.size_bytes} bytes, "
                f"{len(data)} are given"
            )
        _put(bank, kernel.cubin.parameter_offset + parameter.offset, data)


def _contents(variable: ModuleVariable, given: dict[str, Buffer]) -> Bytes | None:
    if variable.name in given:
        data = bytes_of(given[variable.name].array)
        if len(data) > variable.size_bytes:
            raise SimulationError(
                f"{variable.name}: {len(data)} bytes are given, the module's variable has {variable.size_bytes}"
            )
        return data
    return None if variable.contents is None else np.frombuffer(variable.contents, np.uint8)


def _mentioned(cubin: Cubin) -> set[str]:
    """Symbols whose addresses a kernel can get at: in its constant banks, and in variables that it can get at."""
    found = {reference.symbol for reference in cubin.references}
    waiting = list(found)
    while waiting:
        name = waiting.pop()
        further = {pointer.symbol for pointer in cubin.pointers if pointer.variable == name} - found
        found |= further
        waiting += further
    return found


def _address(addresses: Mapping[str, int], symbol: str, addend: int) -> NDArray[np.uint64]:
    return np.array([addresses.get(symbol, 0) + addend], np.uint64)


def make_environment(kernel: MachineCode, launch: Launch, call: KernelCall, sites: list[Site]) -> MachineEnvironment:
    """Memories of a launch, with the buffers and constants of the call in place.

    Raises:
        SimulationError: an argument does not fit its parameter.
    """
    memory, given_memory = GlobalMemory(call.memory), call.memory
    values = [parameter_value(memory, argument) for argument in call.parameters]
    cubin = kernel.cubin
    given = {buffer.name: buffer for buffer in call.constants}
    require_declared(given, [variable.name for variable in cubin.variables])
    banks = _banks(kernel, launch, values)
    addresses = dict(cubin.external_functions)
    mentioned, holding = _mentioned(cubin), {pointer.variable for pointer in cubin.pointers}
    pointed: dict[str, Bytes] = {}
    for variable in cubin.variables:
        contents = _contents(variable, given)
        if given_memory is not None:
            address = given_memory.variables[variable.name]
            contents = given_memory.at(address, variable.size_bytes)
            addresses[variable.name] = address
        if variable.bank is not None:
            if contents is not None:
                _put(banks[variable.bank], variable.offset, contents)
        elif given_memory is None and (variable.name in mentioned or variable.name in given):
            if variable.name in holding and variable.name not in given:
                contents = pointed[variable.name] = np.array(contents, np.uint8)
            addresses[variable.name] = memory.allocate(variable.name, variable.size_bytes, contents)
    for pointer in cubin.pointers:
        if pointer.variable in pointed:  # memory takes the contents when it is first touched
            _put(pointed[pointer.variable], pointer.offset, _address(addresses, pointer.symbol, pointer.addend))
    for reference in cubin.references:
        _put(banks[reference.bank], reference.offset, _address(addresses, reference.symbol, reference.addend))
    if launch.cooperative and waits_for_grid(kernel):
        barrier = (
            memory.allocate("barrier of the grid", GRID_BARRIER_BYTES, None)
            if given_memory is None
            else given_memory.grid_barrier
        )
        _put(banks[0], _places(kernel).grid_barrier, np.array([barrier >> 32, barrier & 0xFFFF_FFFF], np.uint32))
    heap = None if given_memory is None else given_memory.heap
    if heap is None and "malloc" in cubin.external_functions:
        heap = DeviceHeap(memory.allocate("heap of malloc", HEAP_BYTES, None))
    reserved = kernel.properties.shared_bytes_reserved_in_cubin
    return MachineEnvironment(
        launch=launch,
        instructions=kernel.instructions,
        memory=memory,
        constant_bank=_joined(banks),
        parameter_bank=banks[0],
        symbol_addresses={},
        shared_bytes=max(cubin.static_shared_bytes, reserved) + int(launch.dynamic_shared_bytes),
        local_bytes=round_up(cubin.stack_bytes, 16),
        sites=sites,
        banks=banks,
        cluster_blocks=launch.blocks_per_cluster,
        heap=heap,
    )


def _banks(kernel: MachineCode, launch: Launch, values: list[Any]) -> dict[int, Bytes]:
    """Constant banks as the cubin and the launch fill them."""
    banks: dict[int, Bytes] = {}
    for number, data in kernel.cubin.banks.items():
        size = max(len(data), *(v.offset + v.size_bytes for v in kernel.cubin.variables if v.bank == number), 0, 0)
        banks[number] = np.zeros(round_up(max(size, 1), 16), np.uint8)
        banks[number][: len(data)] = np.frombuffer(data, np.uint8)
    banks[0] = np.zeros(CONSTANT_BANK_BYTES, np.uint8)
    _launch_words(kernel, banks[0], launch, round_up(kernel.cubin.stack_bytes, 16))
    _put_parameters(kernel, banks[0], values)
    return banks


def _joined(banks: dict[int, Bytes]) -> Bytes:
    """All banks, one after the other."""
    joined = np.zeros((max(banks) + 1) * CONSTANT_BANK_BYTES, np.uint8)
    for number, data in banks.items():
        joined[number * CONSTANT_BANK_BYTES : number * CONSTANT_BANK_BYTES + len(data)] = data
    return joined
