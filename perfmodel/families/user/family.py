"""A user's file and tuning space as a family, so that they are ranked and explained like a kernel of this package."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...compiler.compiled import compile_kernel
from ...compiler.request import CompileRequest
from ...compiler.user_kernel import signature_of, user_request
from ...core.constants import MAX_GRID_X, MAX_GRID_YZ
from ...core.counts import Counts
from ...core.value_types import require_type
from ...errors import CompileError, InputError
from ...gpus.gpu import Gpu
from ...launch.argument_spec import spec_identity
from ...launch.arguments import kernel_call
from ...launch.expression import Value
from ...launch.launch import KernelCall, Launch
from ...profiles.executed_profile import execute
from ...profiles.kernel_profile import KernelProfile, estimated_resources
from ...sources.kernel_source import KernelSource, read_kernel_source
from ..base import Batch, Check, Family, Product, Space
from ..registry import family, family_names
from .configuration import configuration_type, member, plain_values, with_values
from .space_file import MAX_CANDIDATES, SpaceFile, read_space_file
from .tuning_call import TuningCall, write_space
from .tuning_script import record_script

_LEAST_REGISTERS = 16
"""What every kernel needs at least; the compiler says how many it is."""
_LIMITS = (MAX_GRID_X, MAX_GRID_YZ, MAX_GRID_YZ)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProblem:
    """What a user ranks: a CUDA source and the file of its tuning space, or a Kernel Tuner script.

    ``recorded`` is the space file that a script or a call was read into, empty where ``space`` is the file.
    """

    file: str
    space: str
    recorded: str = field(default="", metadata={"shown": False})

    @property
    def family(self) -> Family[Any, Any]:
        """The family that file and space make."""
        return user_family(self)


@dataclass(frozen=True, slots=True)
class _Resolved:
    """One configuration worked out: names, launch, macros of the source, and the first constraint that it breaks."""

    names: Mapping[str, Value]
    broken: int
    sizes: tuple[int, ...] = (1, 1, 1, 1, 1, 1, 0)
    program: tuple[Any, ...] = field(default=())


def _rebuild(problem: UserProblem, values: dict[str, Value]) -> Any:
    """A configuration from its values; how one travels between processes."""
    return with_values(user_family(problem).configuration_type, values)


class UserFamily(Family[UserProblem, Any]):
    """Every configuration is compiled and executed; there are no closed forms and no reference."""

    closed_forms: ClassVar[bool] = False
    problem_type = UserProblem

    def __init__(self, problem: UserProblem, source: KernelSource, space: SpaceFile) -> None:
        self._problem, self._source, self._space = problem, source, space
        words = {word for text in source.texts() for word in re.findall(r"[A-Za-z_]\w*", text)}
        words -= set(re.findall(r"\{(\w+)\}", space.kernel))
        self._macros = [name for name in (*space.sizes, *space.tune, *space.macros) if name in words]
        self._known: dict[Any, _Resolved] = {}
        self._identities = [spec_identity(spec) for spec in (*space.arguments, *space.contents.values())]
        self._require_effects()

    def __reduce__(self) -> tuple[Any, ...]:
        return user_family, (self._problem,)

    def _require_effects(self) -> None:
        """Refuse a tuned macro that neither the source nor an expression of a space file mentions."""
        space = self._space
        if self._problem.recorded:
            return  # functions may look at any
        used = set(self._macros) | set(re.findall(r"\{(\w+)\}", space.kernel))
        for expression in (*space.macros.values(), *space.constraints, *space.grid, *space.block, space.shared_bytes):
            used |= expression.names
        for spec in (*space.arguments, *space.contents.values()):
            used |= set(re.findall(r"[A-Za-z_]\w*", spec.text))
        idle = [name for name in space.tune if name not in used]
        if idle:
            raise InputError(
                f"tune.{idle[0]} has no effect: neither {self._source.file_name} nor an expression names it"
            )

    @property
    def tuned_space(self) -> SpaceFile:
        """The space as it was read."""
        return self._space

    def default_problem(self) -> UserProblem:
        """The only one that there is."""
        return self._problem

    def space(self, problem: UserProblem, gpu: Gpu) -> Space[Any]:
        """All combinations of the values; of very many those that meet the constraints, or a sample of these, always the same."""
        return self._candidates

    @cached_property
    def _candidates(self) -> Space[Any]:
        kind = self.configuration_type
        values = {name: tuple(member(kind, name, v) for v in choices) for name, choices in self._space.tune.items()}
        product = Product(kind, values)
        if len(product) <= MAX_CANDIDATES:
            return Space((product,))
        places = self._space.allowed_places()
        if not len(places):
            raise InputError(f"none of the {len(product):,} combinations meets the constraints")
        if len(places) <= MAX_CANDIDATES:
            return Space((Product(kind, values, places),))
        drawn = np.sort(np.random.default_rng(0).choice(places, MAX_CANDIDATES, replace=False))
        return Space((Product(kind, values, drawn),), drawn_from=len(places))

    def _resolved(self, configuration: Any) -> _Resolved:
        known = self._known.get(configuration)
        if known is None:
            known = self._known[configuration] = self._resolve(configuration)
        return known

    def _resolve(self, configuration: Any) -> _Resolved:
        space = self._space
        names = space.names(plain_values(configuration))
        for index, constraint in enumerate(space.constraints):
            if not constraint.value(names):
                return _Resolved(names, index)
        launch = (*space.grid, *space.block, space.shared_bytes)
        sizes = tuple(expression.integer(names) for expression in launch)
        if min(sizes[3:6]) < 1 or sizes[6] < 0:
            raise InputError(
                f"configuration {plain_values(configuration)}: block {sizes[3:6]} and {sizes[6]} shared bytes"
            )
        specs = (*space.arguments, *space.contents.values())
        arguments = [
            (identity, _spec_numbers(spec.text, names)) for spec, identity in zip(specs, self._identities, strict=True)
        ]
        program = (space.kernel_name(names), self._defines(names), sizes, tuple(arguments))
        return _Resolved(names, -1, sizes, program)

    def _each(self, batch: Batch[Any]) -> list[_Resolved]:
        return [self._resolved(batch.configuration(index)) for index in range(len(batch))]

    def _defines(self, names: Mapping[str, Value]) -> tuple[tuple[str, str | int], ...]:
        return tuple((name, v if isinstance(v := names[name], int) else str(v)) for name in self._macros)

    def checks(self, problem: UserProblem, batch: Batch[Any], gpu: Gpu) -> tuple[Check, ...]:
        """The constraints, and the limits of a grid."""
        found = self._each(batch)
        broken = np.array([one.broken for one in found])
        checks = [
            Check(
                reason=f"constraint {constraint.text}",
                rejected=broken == index,
                value="it",
                limit="this configuration",
                relation="does not hold for",
            )
            for index, constraint in enumerate(self._space.constraints)
        ]
        for axis, limit in enumerate(_LIMITS):
            sizes = np.array([one.sizes[axis] for one in found])
            name = f"grid {'xyz'[axis]}"
            outside = (sizes < 1) | (sizes > limit)
            checks.append(Check(reason=name, rejected=outside, value=sizes, limit=f"1 … {limit}", relation="is not in"))
        return tuple(checks)

    def launch(self, problem: UserProblem, batch: Batch[Any], gpu: Gpu) -> Launch:
        """Grid, block and dynamic shared bytes by the expressions; static shared memory is the compiler's to say."""
        sizes = np.array([one.sizes for one in self._each(batch)], np.int64).T
        grid = np.maximum(sizes[:3], 1)  # what has no blocks is rejected by `checks`
        return Launch.of(grid, sizes[3:6], dynamic_shared_bytes=sizes[6])

    def profile(self, problem: UserProblem, batch: Batch[Any], gpu: Gpu) -> KernelProfile:
        """The launch, and the least registers that any kernel needs: more is not known before the compiler has spoken."""
        launch = self.launch(problem, batch, gpu)
        least = np.full(len(batch), _LEAST_REGISTERS, np.int32)
        return KernelProfile(launch=launch, resources=estimated_resources(launch, least), counts=Counts())

    def redundant(self, problem: UserProblem, batch: Batch[Any], gpu: Gpu) -> NDArray[np.bool_]:
        """Configurations that give the same kernel, macros, launch and arguments as an earlier one."""
        seen: set[tuple[Any, ...]] = set()
        found = np.zeros(len(batch), np.bool_)
        for index, one in enumerate(self._each(batch)):
            found[index] = one.broken < 0 and one.program in seen
            seen.add(one.program)
        return found

    def compile_request(self, problem: UserProblem, configuration: Any, gpu: Gpu) -> CompileRequest:
        """The user's source under the macros of a configuration."""
        names = self._space.names(plain_values(configuration))
        return user_request(
            self._source, self._space.kernel_name(names), dict(self._defines(names)), self._space.options
        )

    def inputs(self, problem: UserProblem, rng: np.random.Generator) -> Mapping[str, NDArray[np.float32]]:
        """None by name: the arguments of the space say what buffers hold."""
        return {}

    def call(
        self, problem: UserProblem, configuration: Any, gpu: Gpu, inputs: Mapping[str, NDArray[np.float32]]
    ) -> KernelCall:
        """Arguments and contents as the space states them, random ones always the same."""
        names = self._space.names(plain_values(configuration))
        compiled = compile_kernel(self.compile_request(problem, configuration, gpu), gpu.architecture.name)
        contents = {name: spec.text for name, spec in self._space.contents.items()}
        texts = [spec.text for spec in self._space.arguments]
        return kernel_call(signature_of(compiled), texts, contents, np.random.default_rng(0), names)

    def executed_profile(self, problem: UserProblem, configuration: Any, gpu: Gpu) -> KernelProfile:
        """Compile and execute one configuration with its caches; machine code that several have in common once."""
        request = self.compile_request(problem, configuration, gpu)
        compiled = compile_kernel(request, gpu.architecture.name)
        sizes = self._resolved(configuration).sizes
        static_bytes = compiled.resources.static_shared_bytes
        launch = Launch.of(sizes[:3], sizes[3:6], static_shared_bytes=static_bytes, dynamic_shared_bytes=sizes[6])
        call = self.call(problem, configuration, gpu, {})
        return execute(compiled, launch, call, gpu, remember=True).profile

    def executed_identity(self, problem: UserProblem, configuration: Any, gpu: Gpu) -> Hashable | None:
        """Machine code, launch and arguments."""
        try:
            compiled = compile_kernel(self.compile_request(problem, configuration, gpu), gpu.architecture.name)
        except CompileError:
            return None
        _, _, sizes, arguments = self._resolved(configuration).program
        return compiled.kernel_name, compiled.cubin, sizes, arguments

    def profile_identity(self, problem: UserProblem, configuration: Any) -> tuple[Any, ...]:
        """Launch and arguments as the space works them out: what its file is called says nothing of what it holds."""
        contents = tuple((name, spec_identity(spec)) for name, spec in self._space.contents.items())
        return (*self._resolved(configuration).program, contents)

    def reference(
        self, problem: UserProblem, inputs: Mapping[str, NDArray[np.float32]]
    ) -> Mapping[str, NDArray[np.float64]]:
        """Nothing is known of what a user's kernel should compute."""
        raise InputError(f"{self._source.file_name} has no reference to compare its results with")

    def tolerance(self, problem: UserProblem) -> float:
        """See ``reference``."""
        raise InputError(f"{self._source.file_name} has no reference to compare its results with")


def _spec_numbers(text: str, names: Mapping[str, Value]) -> tuple[Value, ...]:
    """Values of the names that an argument's text mentions."""
    return tuple(names[word] for word in re.findall(r"[A-Za-z_]\w*", text) if word in names)


def user_problem(file: str | Path, space: str | Path) -> UserProblem:
    """The problem of ranking a user's file over a space; both files are read and checked at once.

    Raises:
        InputError: a file cannot be read, or the space is not as the manual's page says; the message names the key.

    >>> user_problem("examples/blur.cu", "examples/blur.toml").file
    'examples/blur.cu'
    """
    return _checked(UserProblem(file=str(file), space=str(space)))


def script_problem(script: str | Path, arguments: Sequence[str] = ()) -> UserProblem:
    """The problem of a Kernel Tuner script: what it calls ``tune_kernel`` with.

    The script runs in a process of its own up to that call; neither a GPU nor Kernel Tuner is needed.

    Args:
        script: the script's path.
        arguments: what it finds in ``sys.argv``.

    Raises:
        InputError: the script does not get as far as ``tune_kernel``, or calls it with what is not read.

    >>> script_problem("examples/tune_blur.py").file
    'examples/tune_blur.py'
    """
    recorded = record_script(Path(script), _new_folder(), arguments)
    return _checked(UserProblem(file=str(script), space="tune_kernel", recorded=str(recorded)))


def source_family(name: str, space: str | Path | None = None, arguments: Sequence[str] = ()) -> Family[Any, Any]:
    """The family of a name, of a CUDA file with its space, or of a Kernel Tuner script with its arguments."""
    accepted = f"the name of one ({', '.join(family_names())}), FILE.cu with its space, or a Kernel Tuner script"
    require_type(str, accepted, family=name)
    if name.endswith(".py"):
        if space is not None:
            raise InputError(f"--space {space} is not accepted: {name} has its own space")
        return script_problem(name, arguments).family
    return (
        family(name) if space is None and not name.endswith(".cu") else user_problem(name, _stated(name, space)).family
    )


def _stated(name: str, space: str | Path | None) -> str | Path:
    if space is None:
        raise InputError(f"{name} needs --space SPACE.toml, the file of its tuning space")
    return space


def call_problem(call: TuningCall) -> UserProblem:
    """The problem of a call of Kernel Tuner's ``tune_kernel``, whose arguments are not to be changed afterwards."""
    recorded = write_space(call, _new_folder())
    return _checked(UserProblem(file=call.kernel_name, space="tune_params", recorded=str(recorded)))


def _checked(problem: UserProblem) -> UserProblem:
    user_family(problem)
    return problem


def _new_folder() -> Path:
    """A folder for as long as this process runs; workers, which read it, leave it."""
    folder = Path(tempfile.mkdtemp(prefix="perfmodel-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def user_family(problem: UserProblem) -> UserFamily:
    """The family that a file and a space make; read again where either has changed."""
    files = (problem.recorded,) if problem.recorded else (problem.file, problem.space)
    return _family(problem, tuple(map(_stamp, files)))


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return found.st_mtime_ns, found.st_size


@cache
def _family(problem: UserProblem, stamps: tuple[tuple[int, int], ...]) -> UserFamily:
    described = read_space_file(Path(problem.recorded or problem.space))
    if described.source is not None and not problem.recorded:
        raise InputError(f"space {problem.space}: key 'source' is not accepted: the source is {problem.file}")
    source = read_kernel_source(described.source or Path(problem.file), described.include)
    name = Path(problem.file).stem
    origin = (
        f"{Path(problem.file).name}" if problem.recorded else f"{Path(problem.space).name} of {Path(problem.file).name}"
    )
    kind: type[UserFamily] = type(
        "UserFamily",
        (UserFamily,),
        {
            "name": name,
            "summary": f"tuning space {origin}",
            "measurement_defaults": {f.name: getattr(problem, f.name) for f in fields(problem)},
            "configuration_type": configuration_type(
                f"{name}_configuration", described.tune, partial(_rebuild, problem)
            ),
        },
    )
    return kind(problem, source, described)
