"""A user's Python file on a machine without its GPU and its libraries: what defines kernels is run, what fails is left out."""

from __future__ import annotations

import ast
import copy
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass, field
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError
from .includes import read_text
from .project_headers import folders_above

_NAMED = 4
"""Failures that a note names."""
_VERSION = "99.0"
"""Of a library that is not there: scripts that ask want it to be new enough."""


class AbsentType(type):
    """The type of stand-ins for what a library that is not installed would give: each is a class that allows everything.

    A call with one function gives it back, as a decorator that changes nothing.

    >>> library = AbsentType("library", (), {})
    >>> library.nn.Module.apply(3)[0] + 1
    <absent library.nn.Module.apply>
    >>> library.no_grad()(len) is len, bool(library.is_available())
    (True, False)
    """

    def __getattr__(cls, name: str) -> Any:
        if name == "__version__":
            return _VERSION
        if name.startswith("__"):
            raise AttributeError(name)
        found = AbsentType(f"{cls.__name__}.{name}", (), {})
        setattr(cls, name, found)
        return found

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        """The function that is decorated, or another stand-in."""
        one = arguments[0] if len(arguments) == 1 and not keywords else None
        return one if callable(one) and not isinstance(one, AbsentType) else AbsentType(cls.__name__, (), {})

    def __repr__(cls) -> str:
        return f"<absent {cls.__name__}>"

    def __bool__(cls) -> bool:
        return False

    def __int__(cls) -> int:
        return 0

    __index__ = __int__

    def __float__(cls) -> float:
        return 0.0

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *_: object) -> None:
        """Let what is raised inside go on."""

    def _same(cls, *_: object) -> Any:
        return cls

    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _same
    __floordiv__ = __rfloordiv__ = __mod__ = __pow__ = __neg__ = __and__ = __matmul__ = _same

    def _false(cls, _: object) -> bool:
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _false


class _AbsentModule(ModuleType):
    """A module of a library that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        found = getattr(AbsentType(self.__name__, (), {}), name)
        setattr(self, name, found)
        return found


class _SurroundingPackage(_AbsentModule):
    """A package around the user's file: its modules, what its ``__init__`` defines if that is asked for, and stand-ins."""

    def __init__(self, name: str, folder: Path, libraries: AbsentLibraries) -> None:
        super().__init__(name)
        vars(self).update({"__path__": [str(folder)], "__package__": name})
        self._libraries: AbsentLibraries | None = libraries

    def __getattr__(self, name: str) -> Any:
        path = Path(self.__path__[0]) / "__init__.py"
        libraries = vars(self).get("_libraries")
        if libraries is not None and re.search(rf"\b{re.escape(name)}\b", read_text(path)):
            self._libraries = None
            _run_file(ast.parse(read_text(path), str(path)), path, vars(self), libraries)
            if name in vars(self):
                return vars(self)[name]
        if not name.startswith("_"):
            try:
                return import_module(f"{self.__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{self.__name__}.{name}":
                    raise
        return super().__getattr__(name)


class _OwnModule(SourceFileLoader):
    """Runs a module of the project as the user's file is run: what needs a GPU is left out."""

    def __init__(self, name: str, path: str, libraries: AbsentLibraries) -> None:
        super().__init__(name, path)
        self._libraries = libraries

    def exec_module(self, module: ModuleType) -> None:
        """Statement by statement."""
        path = Path(self.path)
        _run_file(ast.parse(read_text(path), self.path), path, vars(module), self._libraries)


@dataclass(slots=True)
class _OwnModules:
    """Finds the modules of the project."""

    libraries: AbsentLibraries

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """What the import system asks for a module before it looks elsewhere."""
        if name.partition(".")[0] not in self.libraries.own:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _OwnModule(name, spec.origin, self.libraries)
        return spec


@dataclass(slots=True)
class AbsentLibraries:
    """Finds the modules of libraries that turned out not to be installed, and folders of the project with those that are.

    ``own`` are packages and modules of the project.
    """

    folders: Sequence[Path]
    names: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)

    def provide(self, library: str) -> bool:
        """Let a library be imported that was not found; False where that does not help."""
        if not library or library in (*self.names, *self.own, *sys.modules) or find_spec(library) is not None:
            return False
        for folder in self.folders:
            if (folder / f"{library}.py").is_file() or any((folder / library).glob("*.py")):
                sys.path.insert(0, str(folder))
                self.own.append(library)
                return True
        self.names.append(library)
        return True

    def run(self, statement: Callable[[], object]) -> None:
        """Run something of the user's, again for each library that it lacks; what else it raises comes through."""
        while True:
            try:
                statement()
            except ModuleNotFoundError as error:
                if not self.provide((error.name or "").partition(".")[0]):
                    raise
            else:
                return

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """What the import system asks for a module that it does not find elsewhere."""
        absent = name.partition(".")[0] in self.names
        return ModuleSpec(name, self, is_package=True) if absent else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The stand-in."""
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@dataclass(frozen=True, slots=True)
class UserModule:
    """What a file defines; libraries that stand-ins took the place of, and what failed, by line."""

    path: Path
    names: dict[str, Any]
    tree: ast.Module
    absent: tuple[str, ...]
    failures: tuple[tuple[int, str], ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    """Values of parameters of its functions."""

    @property
    def note(self) -> str:
        """What users should know; empty where all of the file ran."""
        lines = ", ".join(str(line) for line, _ in self.failures[:_NAMED]) + (
            ", …" if len(self.failures) > _NAMED else ""
        )
        absent = f"not installed, and not needed by the kernel: {', '.join(self.absent)}" if self.absent else ""
        left_out = (
            f"left out of {self.path.name}, because it fails without a GPU: line {lines}" if self.failures else ""
        )
        return "; ".join(filter(None, (absent, left_out)))

    @property
    def reason(self) -> str:
        """Why a kernel may be missing; empty where all of the file ran."""
        named = [f"{name} (pip install {_WHEELS[name]})" if name in _WHEELS else name for name in self.absent]
        absent = [f"not installed: {', '.join(named)}"] if named else []
        failed = [f"line {line}: {text}" for line, text in self.failures[:1]]
        return "; ".join([*absent, *failed])


def user_module(path: Path, text: str, architecture: str, given: Mapping[str, Any] | None = None) -> UserModule:
    """Run a Python file statement by statement; those that fail, as all do that need a GPU, are left out.

    A library that is not installed is replaced by a stand-in where nothing in the file handles its absence. What the file
    prints goes to standard error.

    Raises:
        InputError: the file is no Python.
    """
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        raise InputError(f"{path} line {error.lineno}: {error.msg}") from error
    package = _package(path)
    module = ModuleType(path.stem)
    vars(module).update({"__file__": str(path), "__package__": ".".join(package)})
    libraries = AbsentLibraries((path.absolute().parent, *folders_above(path.absolute().parent)), own=package[:1])
    with ExitStack() as stack:
        stack.enter_context(redirect_stdout(sys.stderr))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(_importing(path, package, libraries))
        for library in _READY:
            if library in text:
                stack.enter_context(_READY[library](architecture))
        stack.enter_context(_registered(module))
        failures = _run_file(tree, path, vars(module), libraries)
    return UserModule(path, vars(module), tree, tuple(libraries.names), tuple(failures), given or {})


@contextmanager
def _registered(module: ModuleType) -> Iterator[None]:
    """Let a module be found by its name, as decorators of classes do (``dataclass``)."""
    own = sys.modules.setdefault(module.__name__, module) is module
    try:
        yield
    finally:
        if own:
            sys.modules.pop(module.__name__, None)


def _run_file(tree: ast.Module, path: Path, names: dict[str, Any], libraries: AbsentLibraries) -> list[tuple[int, str]]:
    """Run a file statement by statement; lines and errors of those that fail."""
    flags, future = 0, import_module("__future__")
    failures: list[tuple[int, str]] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            flags |= sum(getattr(future, alias.name).compiler_flag for alias in node.names)
        error = None
        for way in _ways(node):
            code = compile(ast.Module([way], []), str(path), "exec", flags=flags, dont_inherit=True)
            failed = _run(lambda code=code: exec(code, names), libraries)  # type: ignore[misc]
            error = error or failed
            if failed is None:
                break
        if error is not None:
            failures.append((node.lineno, f"{type(error).__name__}: {' '.join(str(error).split())}"))
    return failures


def _ways(node: ast.stmt) -> Iterator[ast.stmt]:
    """A statement, and a kernel without its outer decorators: a project's own autotuner may need the GPU."""
    yield node
    if isinstance(node, ast.FunctionDef):
        inner = [ast.unparse(one) for one in node.decorator_list]
        last = max((number for number, text in enumerate(inner) if re.search(r"\bjit\b", text)), default=0)
        for number in range(1, last + 1):
            bare = copy.copy(node)
            bare.decorator_list = node.decorator_list[number:]
            yield bare


def _run(statement: Callable[[], None], libraries: AbsentLibraries) -> BaseException | None:
    """Run a statement with stand-ins; the error that it ends with."""
    try:
        libraries.run(statement)
    except (Exception, SystemExit) as error:  # whatever the user's file raises
        return error
    return None


def _package(path: Path) -> list[str]:
    """Names of the packages that a file belongs to, outer ones first."""
    found: list[str] = []
    folder = path.absolute().parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        found.insert(0, folder.name)
        folder = folder.parent
    return found


@contextmanager
def _importing(path: Path, package: Sequence[str], libraries: AbsentLibraries) -> Iterator[None]:
    """Let a file import what lies beside it, its packages, and stand-ins; they are gone afterwards."""
    folder = path.absolute().parents[len(package)]
    before, paths = set(sys.modules), list(sys.path)
    for depth in range(len(package)):
        name = ".".join(package[: depth + 1])
        if name not in sys.modules:
            sys.modules[name] = _SurroundingPackage(name, folder.joinpath(*package[: depth + 1]), libraries)
    sys.path.insert(0, str(folder))
    modules = _OwnModules(libraries)
    sys.meta_path.insert(0, modules)
    sys.meta_path.append(libraries)
    try:
        yield
    finally:
        sys.meta_path.remove(modules)
        sys.meta_path.remove(libraries)
        sys.path[:] = paths
        passing = {*libraries.names, *libraries.own}
        for name in set(sys.modules) - before:
            if name.partition(".")[0] in passing:
                del sys.modules[name]


def _ready(module: str) -> Callable[[str], AbstractContextManager[None]]:
    """What a library needs that is imported without a GPU; nothing where it is not installed."""

    def enter(architecture: str) -> AbstractContextManager[None]:
        if find_spec(module.partition("_")[0]) is None:
            return nullcontext()
        found: AbstractContextManager[None] = import_module(f".{module}", __package__).without_gpu(architecture)
        return found

    return enter


_WHEELS = {"triton": "triton", "numba": "numba-cuda", "cupy": "cupy-cuda13x", "cuda": "cuda-core"}
"""Libraries with kernels of their own, by what installs them."""
_READY = {library: _ready(f"{library}_kernel") for library in ("triton", "numba")}
"""By the library that a file mentions."""
