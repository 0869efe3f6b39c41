"""Contents of variables and parameters before a launch: initialisers of the module, arguments of the call."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.constants import CONSTANT_BANK_BYTES
from ..errors import SimulationError
from ..ir.instruction import Space, Variable
from ..ir.kernel import Kernel
from ..ir.types import VALUE_TYPES, width_bytes
from ..launch.launch import Buffer, Buffered, KernelCall, Parameter, Structure, TensorMap, TextureObject
from ..ptx.operands import literal
from .global_memory import Bytes, GlobalMemory
from .program import Layout, Program, lay_out

_ELEMENT = re.compile(r"[{}\s]+")


@dataclass(slots=True)
class Contents:
    """Memories of a launch before its first instruction."""

    memory: GlobalMemory
    constant_bank: Bytes
    parameter_bank: Bytes
    symbol_addresses: dict[str, int]


def _padded(layout: Layout) -> Bytes:
    return np.zeros(-(-max(1, layout.size_bytes) // 16) * 16, np.uint8)


def initial_bytes(variable: Variable) -> Bytes:
    """Bytes of a variable as its initialiser states them; zeros beyond it.

    Raises:
        SimulationError: the initialiser is not a list of literals that fits.
    """
    result = np.zeros(variable.size_bytes, np.uint8)
    if variable.initialiser is None:
        return result
    scalar_type = VALUE_TYPES[variable.type_name]
    elements = [text for text in _ELEMENT.sub("", variable.initialiser).split(",") if text]
    if len(elements) * width_bytes(scalar_type) > variable.size_bytes:
        raise SimulationError(f"PTX line {variable.line}: initialiser of {variable.name} is longer than the variable")
    for position, text in enumerate(elements):
        value: Any = literal(text, scalar_type)
        if value is None:
            raise SimulationError(f"PTX line {variable.line}: initialiser {text!r} of {variable.name} is not supported")
        width = width_bytes(scalar_type)
        result[position * width : (position + 1) * width] = np.frombuffer(value.tobytes(), np.uint8)
    return result


def bytes_of(array: Buffered) -> Bytes:
    """The bytes of an array, in order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _filled(variable: Variable, given: dict[str, Buffer]) -> Bytes:
    if variable.name not in given:
        return initial_bytes(variable)
    contents = bytes_of(given[variable.name].array)
    if len(contents) > variable.size_bytes:
        raise SimulationError(
            f"{variable.name}: {len(contents)} bytes are given, the module's variable has {variable.size_bytes}"
        )
    return np.concatenate((contents, np.zeros(variable.size_bytes - len(contents), np.uint8)))


def parameter_bytes(kernel: Kernel, layout: Layout, values: list[Any]) -> Bytes:
    """The parameter bank: every argument's bytes at its parameter's offset.

    Raises:
        SimulationError: the number of arguments or the size of one is wrong.
    """
    if len(values) != len(kernel.parameters):
        raise SimulationError(f"kernel {kernel.name} has {len(kernel.parameters)} parameters, {len(values)} are given")
    bank = _padded(layout)
    for position, (parameter, value) in enumerate(zip(kernel.parameters, values, strict=True)):
        data = np.frombuffer(np.asarray(value).tobytes(), np.uint8)
        if len(data) != parameter.size_bytes:
            raise SimulationError(
                f"parameter {position} of kernel {kernel.name} has {parameter.size_bytes} bytes, {len(data)} are given"
            )
        offset = layout.offsets[parameter.name]
        bank[offset : offset + len(data)] = data
    return bank


def parameter_value(memory: GlobalMemory, argument: Parameter) -> Any:
    """What a parameter holds: a scalar, the address of a buffer placed in memory, bytes of a map or structure, a handle."""
    if isinstance(argument, TextureObject):
        size_bytes = argument.texture.allocated_bytes
        address = memory.allocate(argument.buffer.name, size_bytes, argument.buffer.array)
        return np.uint64(memory.bind(argument.texture, address))
    if isinstance(argument, TensorMap):
        address = int(parameter_value(memory, argument.buffer))
        data = np.frombuffer(argument.tiling.encoded(address), np.uint8)
        if argument.by_pointer:
            return np.uint64(memory.allocate(f"map of {argument.buffer.name}", len(data), data))
        return data
    if isinstance(argument, Structure):
        content = np.frombuffer(argument.content, np.uint8).copy()
        for offset, buffer in argument.pointers:
            content[offset : offset + 8] = np.frombuffer(parameter_value(memory, buffer).tobytes(), np.uint8)
        if argument.by_pointer:
            return np.uint64(memory.allocate(argument.name, len(content), content))
        return content
    if isinstance(argument, Buffer):
        return np.uint64(memory.allocate(argument.name, argument.array.nbytes, argument.array))
    return argument


def require_declared(given: Iterable[str], declared: Iterable[str]) -> None:
    """That the module declares what constants are given for; ``SimulationError`` names what it declares."""
    own = {name for name in declared if "$" not in name}
    unknown = sorted({*given} - own)
    if unknown:
        listed = ", ".join(sorted(own)) or "none"
        raise SimulationError(f"constant {unknown[0]!r} is not a variable of the module, which has: {listed}")


def initialise(program: Program, call: KernelCall) -> Contents:
    """Memories of a launch, with the buffers and constants of the call in place.

    Raises:
        SimulationError: an argument does not fit its parameter, or an initialiser is not supported.
    """
    memory = GlobalMemory(call.memory)
    values = [parameter_value(memory, argument) for argument in call.parameters]
    given = {buffer.name: buffer for buffer in call.constants}
    require_declared(given, program.kernel.variables)
    addresses: dict[str, int] = {}
    for variable in program.variables(Space.GLOBAL):
        addresses[variable.name] = (
            memory.allocate(variable.name, variable.size_bytes, _filled(variable, given))
            if call.memory is None
            else call.memory.variables[variable.name]
        )
    constants = program.variables(Space.CONSTANT)
    constant_layout = lay_out(constants)
    if constant_layout.size_bytes > CONSTANT_BANK_BYTES:
        raise SimulationError(f"constant memory of {constant_layout.size_bytes} bytes exceeds {CONSTANT_BANK_BYTES}")
    bank = _padded(constant_layout)
    for variable in constants:
        offset = constant_layout.offsets[variable.name]
        bank[offset : offset + variable.size_bytes] = (
            _filled(variable, given)
            if call.memory is None
            else call.memory.at(call.memory.variables[variable.name], variable.size_bytes)
        )
    for layout in (constant_layout, program.shared, program.local, program.parameters):
        addresses.update(layout.offsets)
    return Contents(memory, bank, parameter_bytes(program.kernel, program.parameters, values), addresses)
