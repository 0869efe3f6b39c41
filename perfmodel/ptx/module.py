"""A parsed PTX module; its kernels are expanded when they are first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import SimulationError
from ..ir.instruction import Variable
from ..ir.kernel import Kernel
from .expand import expand
from .function import Function


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """What a PTX text defines.

    Args:
        target: architecture of the ``.target`` directive.
        entries: entry points by name.
        functions: device functions by name.
        variables: variables of the module by name.
    """

    target: str
    entries: Mapping[str, Function]
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    _kernels: dict[str, Kernel] = field(default_factory=dict, repr=False, compare=False)

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name, the same object each time.

        Raises:
            SimulationError: there is none (the message names those that there are), or a call in it is not supported.
        """
        if name not in self.entries:
            raise SimulationError(f"kernel {name!r} is not in the module, which has {sorted(self.entries)}")
        if name not in self._kernels:
            self._kernels[name] = expand(self.entries[name], self.functions, self.variables)
        return self._kernels[name]
