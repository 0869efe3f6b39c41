"""Options that several commands share, and the reading of problem and configuration options, which families name."""

from __future__ import annotations

import inspect
import shlex
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from ..core.choices import one_of
from ..core.json_aliases import second_names
from ..errors import InputError

if TYPE_CHECKING:
    from ..families.base import Family
    from ..prediction.scenario import Scenario


class OnceCommand(TyperCommand):
    """A command that refuses an option which takes one value and is given several times: all but the last would go unseen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look for repeated options first."""
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        given = Counter(option.opts[0] for option in order if option.param_type_name == "option" and _takes_one(option))
        for name, times in given.items():
            if times > 1:
                raise InputError(f"{name} is given {times} times; it takes one value")
        return super().parse_args(ctx, args)


def _takes_one(option: Any) -> bool:
    return not (option.multiple or option.is_flag or option.count)


class FamilyCommand(OnceCommand):
    """A command that takes a family's problem options: ``rank FAMILY --help`` lists those of FAMILY too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember the words, of which the help needs the family's name."""
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The command's own help, then the options of the families that are named."""
        super().format_help(ctx, formatter)
        words = [word for word in ctx.meta.get(_WORDS, []) if not word.startswith("-")]
        for name in words[0].split(",") if words else []:
            _print_family_options(name)


def _print_family_options(name: str) -> None:
    """Problem options of a family with their defaults, and the fields of a configuration; nothing of what is no family."""
    from ..families.registry import family, family_names
    from .output import print_table

    if name not in family_names():
        return
    chosen = family(name)
    default, second = chosen.default_problem(), second_names(chosen.problem_type)
    also = {field: former for former, field in second.items()}
    hints = get_type_hints(chosen.problem_type)
    rows = [
        (
            f"--{field.name.replace('_', '-')}",
            _kind_text(hints[field.name]),
            _value_text(getattr(default, field.name)),
            f"also --{also[field.name].replace('_', '-')}" if field.name in also else "",
        )
        for field in fields(chosen.problem_type)
    ]
    typer.echo(f"options of {name} ({chosen.summary}):")
    print_table("", ("option", "takes", "default", ""), rows, 4)
    kinds = get_type_hints(chosen.configuration_type)
    fields_of = [(field.name, _kind_text(kinds[field.name])) for field in fields(chosen.configuration_type)]
    typer.echo("fields of a configuration, for --set of `predict`:")
    print_table("", ("field", "takes"), fields_of, 2)
    typer.echo(f"\n{_prose(chosen.configuration_type)}")


def _prose(kind: type) -> str:
    """The text of a class's docstring before its examples, for a terminal."""
    text = (inspect.getdoc(kind) or "").partition(">>>")[0].replace("``", "").strip()
    width = shutil.get_terminal_size().columns
    return "\n\n".join(textwrap.fill(" ".join(part.split()), width) for part in text.split("\n\n"))


def _kind_text(hint: Any) -> str:
    """What an option takes, in words.

    >>> _kind_text(int | None), _kind_text(bool)
    ('integer or none', 'true or false')
    """
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return " or ".join(_one_kind_text(kind) for kind in kinds)


def _one_kind_text(kind: Any) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(str(member.value) for member in kind)
    return {int: "integer", bool: "true or false", type(None): "none"}.get(kind, getattr(kind, "__name__", str(kind)))


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)


_WORDS = "words of the command line"
EXTRA_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}
EXTRA_WORDS = {"allow_extra_args": True}
"""Context settings of commands that take a family's problem options."""


def _gpu_names(incomplete: str) -> list[str]:
    """What a shell offers behind ``--gpu``."""
    from ..gpus.catalogue import gpu_ids

    return [name for name in (*gpu_ids(), "auto") if name.startswith(incomplete)]


def family_completion(incomplete: str) -> list[str]:
    """What a shell offers for a family."""
    from ..families.registry import family_names

    return [name for name in family_names() if name.startswith(incomplete)]


def _one_of(*values: str) -> Callable[[str], list[str]]:
    return lambda incomplete: [value for value in values if value.startswith(incomplete)]


SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="FAMILY|FILE.cu|TUNE.py",
        autocompletion=family_completion,
        help="A name of `perfmodel families`, a source of your own with --space, or a script that calls Kernel Tuner.",
    ),
]
SpaceOption = Annotated[
    Path | None,
    typer.Option("--space", metavar="SPACE.toml", help="Tuning space of FILE.cu: its parameters, grid and arguments."),
]
GpuOption = Annotated[
    str,
    typer.Option(
        "--gpu",
        metavar="NAME|FILE.toml|auto",
        help="GPU: a name of `perfmodel gpus`, a sheet file, or auto (this machine's GPU).",
        autocompletion=_gpu_names,
    ),
]
GpusOption = Annotated[
    list[str],
    typer.Option(
        "--gpu",
        metavar="NAME|FILE.toml|auto",
        help="GPU: a name of `perfmodel gpus`, a sheet file, or auto (this machine's GPU). Repeat it to compare.",
        autocompletion=_gpu_names,
    ),
]
ClockOption = Annotated[
    float | None,
    typer.Option("--sm-clock-mhz", min=1.0, max=100_000.0, help="SM clock in MHz; by default the boost clock."),
]
L2Option = Annotated[
    str,
    typer.Option(
        "--l2",
        metavar="cold|warm",
        help="What the L2 holds when the kernel starts.",
        autocompletion=_one_of("cold", "warm"),
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output and nothing else.")]
CsvOption = Annotated[
    bool, typer.Option("--csv", help="A table of comma-separated values on standard output and nothing else.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn at random.")]
FidelityOption = Annotated[
    str,
    typer.Option(
        "--fidelity",
        metavar="analytic|compiled|simulated",
        help="Where counts come from: formulas, one block executed, or the launch executed.",
        autocompletion=_one_of("analytic", "compiled", "simulated"),
    ),
]
IncludeOption = Annotated[
    list[Path] | None,
    typer.Option("--include", "-I", metavar="DIR", exists=True, file_okay=False, help="Folder of your headers."),
]
CalibrationOption = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE.toml", help="Coefficients of your own, made by `perfmodel fit`."),
]

T = TypeVar("T")
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "--where",
        metavar="EXPR",
        help="Only rows for which this holds: comparisons and arithmetic of columns, as in pandas.",
    ),
]


def for_each(option: str, given: Sequence[T], count: int, of: str = "--gpu") -> list[T]:
    """What was given once or once for each of another option, for each of that.

    >>> for_each("--filter", ["a > 1"], 2)
    ['a > 1', 'a > 1']
    """
    if len(given) not in (1, count):
        raise InputError(f"{len(given)} times {option} for {count} times {of}: one, or one for each is needed")
    return list(given) * (count if len(given) == 1 else 1)


def require_one_format(as_json: bool, as_csv: bool) -> None:
    """That not both formats are asked for."""
    if as_json and as_csv:
        raise InputError("--json and --csv exclude each other; give one")


def scenario_from(gpu: str, sm_clock_mhz: float | None, l2: str, calibration: Path | None) -> Scenario:
    """The scenario that the common options describe."""
    from ..launch.launch import L2State
    from ..prediction.scenario import scenario_of

    return scenario_of(
        gpu,
        sm_clock_mhz=sm_clock_mhz,
        l2=one_of(L2State, "--l2", l2),
        calibration=None if calibration is None else str(calibration),
    )


def source_problem(name: str, space: Path | None, arguments: Sequence[str]) -> Any:
    """The problem of a family by its options, that of a user's own file over its tuning space, or of a Kernel Tuner script."""
    from ..families.registry import family

    if name.endswith(".py"):
        from ..families.user.family import script_problem

        if space is not None:
            raise InputError(f"--space {space} is not accepted: {name} has its own space")
        return script_problem(name, arguments)
    if not name.endswith(".cu") and space is None:
        chosen = family(name)
        return problem_from(chosen.problem_type, chosen.default_problem(), arguments)
    from ..families.user.family import user_problem

    _require_own(name, space)
    if space is None:
        raise InputError(f"{name} needs --space SPACE.toml, the file of its tuning space")
    if arguments:
        raise InputError(f"unexpected argument {arguments[0]!r}: the sizes of {name} are in {space}")
    return user_problem(name, space)


def _require_own(name: str, space: Path | None) -> None:
    """That a space is not given for a built-in kernel."""
    from ..families.registry import family_names

    if space is not None and name in family_names():
        raise InputError(f"--space {space} is that of a FILE.cu; the built-in {name} has a space of its own")


def require_one(name: str) -> str:
    """The name of a single family."""
    if "," in name:
        raise InputError(f"{name!r} names several families; one is needed")
    return name


def source_families(names: str, space: Path | None, arguments: Sequence[str] = ()) -> list[Family[Any, Any]]:
    """The families that a command measures or fits, between commas: of the package, or a user's own file or script.

    ``arguments`` are those of the script, the words behind the options.
    """
    from ..families.user.family import source_family

    chosen = names.split(",")
    if len(chosen) == 1:
        _require_own(names, space)
    own = [name for name in chosen if name.endswith(".cu")]
    scripts = [name for name in chosen if name.endswith(".py")]
    if space is not None and len(own) != 1 and len(chosen) != 1:
        raise InputError(f"--space {space} is that of one FILE.cu; {names!r} names {len(own)}")
    if arguments and len(scripts) != 1:
        raise InputError(
            f"unexpected argument {arguments[0]!r}: words after the options are the arguments of one TUNE.py"
        )
    return [
        source_family(name, space if name in own or len(chosen) == 1 else None, arguments if name in scripts else ())
        for name in chosen
    ]


def problem_from(problem_type: type, default: Any, arguments: Sequence[str]) -> Any:
    """The problem that a command line's extra arguments describe, over the family's default.

    ``--filter-height 5`` or ``--filter-height=5``; a truth value may stand without ``true``.
    """
    from ..core.documents import nearest

    values = {f.name: getattr(default, f.name) for f in fields(problem_type)}
    hints, second = get_type_hints(problem_type), second_names(problem_type)
    pending, known = list(arguments), set[str]()
    while pending:
        word = pending.pop(0)
        name, given, text = word.removeprefix("--").partition("=")
        field = name.replace("-", "_")
        field = second.get(field, field)
        if not word.startswith("--") or field not in values:
            accepted = [f"--{own.replace('_', '-')}" for own in values]
            raise InputError(
                f"unexpected argument {word!r} for {problem_type.__name__}; {nearest(f'--{name}', accepted)}"
            )
        if field in known:
            raise InputError(f"--{name} is given several times; it takes one value")
        known.add(field)
        if not given:
            if hints[field] is bool and (not pending or pending[0] not in _TRUTHS):
                text = "true"
            elif not pending:
                raise InputError(f"{word} needs a value")
            else:
                text = pending.pop(0)
        values[field] = parse_value(f"--{name}", hints[field], text)
    return problem_type(**values)


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """Names and texts of repeated ``--set name=value`` options."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, given, text = pair.partition("=")
        if not given or not name:
            raise InputError(f"--set {pair!r} must have the form name=value")
        if name.strip() in found:
            raise InputError(f"--set {name.strip()} is given several times; it takes one value")
        found[name.strip()] = text.strip()
    return found


def configuration_from(configuration_type: type, base: Any, given: Mapping[str, str]) -> Any:
    """The configuration with the given fields set, the others from ``base`` (or their defaults where it is None)."""
    values: dict[str, Any] = {}
    for field in fields(configuration_type):
        if base is not None:
            values[field.name] = getattr(base, field.name)
        elif field.default is not MISSING:
            values[field.name] = field.default
    return configuration_type(**values | field_values(configuration_type, given))


def field_values(configuration_type: type, given: Mapping[str, str]) -> dict[str, Any]:
    """The values of the given fields, read from their texts."""
    hints = get_type_hints(configuration_type)
    for name, text in given.items():
        if name not in hints:
            raise InputError(f"--set {name}={text}: {name!r} is no field; the fields are {', '.join(hints)}")
    return {name: parse_value(f"--set {name}", hints[name], text) for name, text in given.items()}


_TRUTHS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


def parse_value(option: str, hint: Any, text: str) -> Any:
    """A field's value from its text: integers, truth values, Enum members by value, ``none``."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if type(None) in kinds and text.lower() == "none":
        return None
    for kind in kinds:
        if kind is bool:
            if text.lower() not in _TRUTHS:
                raise InputError(f"{option} {text!r} must be true or false")
            return _TRUTHS[text.lower()]
        if isinstance(kind, type) and issubclass(kind, Enum):
            accepted = {str(member.value): member for member in kind}
            if text not in accepted:
                more = ", none" if type(None) in kinds else ""
                raise InputError(f"{option} {text!r} must be one of {', '.join(accepted)}{more}")
            return accepted[text]
        if kind is int:
            try:
                return int(text)
            except ValueError:
                raise InputError(f"{option} {text!r} must be an integer") from None
    raise InputError(f"{option} {text!r} cannot be set")


def command_line(context: typer.Context, without: Sequence[str]) -> str:
    """The command as it was given, but for some parameters; it does the same again."""
    given = [context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in without:
            continue
        value = context.params[name]
        option = [] if parameter.param_type_name == "argument" else [parameter.opts[0]]
        if isinstance(value, bool):
            given += option
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            given += [*option, str(one)]
    return shlex.join(["perfmodel", *given, *context.args])
