"""Device code that a program brings: the image for the GPU, its kernels, and its variables placed in device memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..compiler.assembler import assemble
from ..compiler.compiled import CompiledKernel
from ..compiler.device_images import ImageKind, device_images, image_for
from ..compiler.kernel_names import split_name
from ..compiler.resources import PlacedParameter, cubin_parameters, read_resources, required_cluster
from ..core.constants import round_up
from ..gpus.gpu import Gpu
from ..ir.instruction import ExecutedInstruction
from ..machine_code.cubin import ModuleVariables, module_variables
from ..machine_code.program import MachineCode
from ..profiles.executed_profile import executable
from ..simulator.execution import Code

VARIABLE_ALIGNMENT_BYTES = 256
"""What module variables are aligned to; no compiler asks for more."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ProgramKernel:
    """A kernel that the program may launch."""

    number: int
    module: Module
    compiled: CompiledKernel

    @cached_property
    def name(self) -> str:
        """Its name as C++ writes it, without parameter types."""
        return split_name(self.compiled.kernel_name)[0]

    @cached_property
    def parameters(self) -> tuple[PlacedParameter, ...]:
        """Its parameters in order."""
        return cubin_parameters(self.compiled.cubin, self.compiled.kernel_name)

    @cached_property
    def code(self) -> Code:
        """What is executed; SimulationError where an instruction is not, and CompilerMissingError without nvdisasm."""
        return executable(self.compiled)[0]

    @cached_property
    def declared_cluster(self) -> tuple[int, int, int]:
        """Blocks of a cluster along x, y, z that it is declared with; one where it leaves them open."""
        return required_cluster(self.compiled.cubin, self.compiled.kernel_name) or (1, 1, 1)

    @cached_property
    def instructions(self) -> Sequence[ExecutedInstruction]:
        """The instructions of its code by their indices."""
        code = self.code
        if isinstance(code, MachineCode):
            return code.instructions
        return [instruction for block in code.blocks for instruction in block.instructions]

    @cached_property
    def reads_clocks(self) -> bool:
        """Whether it asks for the time, so that equal launches may do different things."""
        return any("CLOCK" in one.text.upper() or "GLOBALTIMER" in one.text.upper() for one in self.instructions)


class Module:
    """One fat binary of the program, as the driver loads it for the GPU."""

    def __init__(self, content: bytes, gpu: Gpu) -> None:
        self.architecture = gpu.architecture.name
        images = device_images(content, "the program")
        names = tuple(dict.fromkeys(name for image in images for name in image.kernels))
        self.names = names
        serving = [image for image in images if image.serves(self.architecture)]
        if names:
            image, text, _ = image_for(images, names[0], self.architecture, "the program")
        else:
            image, text = (serving or list(images))[0], None
        self.ptx = "" if text is None else text.ptx
        if image.kind is ImageKind.PTX:
            assembled = assemble(image.ptx, self.architecture)
            self.cubin, self.log = assembled.cubin, assembled.log
        else:
            self.cubin, self.log, self.architecture = image.content, "", image.architecture
        self.variables: Mapping[str, int] = {}
        self._declared: ModuleVariables = module_variables(self.cubin)
        self._offsets: dict[str, int] = {}
        self.size_bytes = 0
        for variable in self._declared.variables:
            self._offsets[variable.name] = self.size_bytes
            self.size_bytes += round_up(max(variable.size_bytes, 1), VARIABLE_ALIGNMENT_BYTES)

    def place(self, address: int, memory: Callable[[int, int], NDArray[np.uint8]]) -> list[tuple[str, int, int]]:
        """Put the variables at an address with their first contents; their names, addresses and sizes."""
        self.variables = {name: address + offset for name, offset in self._offsets.items()}
        for variable in self._declared.variables:
            if variable.contents:
                there = memory(self.variables[variable.name], variable.size_bytes)
                there[: len(variable.contents)] = np.frombuffer(variable.contents, np.uint8)
        for pointer in self._declared.pointers:
            target = self.variables.get(pointer.symbol)
            if target is not None:
                there = memory(self.variables[pointer.variable] + pointer.offset, 8)
                there[:] = np.array([target + pointer.addend], np.uint64).view(np.uint8)
        return [(v.name, self.variables[v.name], v.size_bytes) for v in self._declared.variables]

    def kernel(self, name: str, number: int) -> ProgramKernel:
        """A kernel by its mangled name; InputError where the module has none of that name."""
        key = hashlib.sha256(self.cubin + name.encode()).hexdigest()
        compiled = CompiledKernel(
            kernel_name=name,
            architecture=self.architecture,
            key=key,
            ptx=self.ptx,
            cubin=self.cubin,
            resources=read_resources(self.cubin, name, self.architecture, self.log),
        )
        return ProgramKernel(number=number, module=self, compiled=compiled)
