"""GPUs by name: one TOML file each, in which every value names its source, or the user's own file in the same form."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.documents import nearest, to_builtins
from ..core.value_types import require_type
from ..errors import InputError
from .sheet import FIELD_TYPES, Sheet, architecture_from_sheet, gpu_from_sheet, read_sheet

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from .architecture import Architecture
    from .gpu import Gpu

_GPUS = files("perfmodel.data") / "gpus"
_ARCHITECTURES = _GPUS / "architectures"
_DRIVER_TIMEOUT_S = 30


@functools.cache
def gpu_ids() -> tuple[str, ...]:
    """Ids of the GPUs that come with the package, sorted.

    >>> "h200" in gpu_ids()
    True
    """
    return _stems(_GPUS)


def load_gpu(id_or_path: str) -> Gpu:
    """The GPU of this id or name, of the user's file (a path that ends in ``.toml``), or, for ``auto``, the one present.

    Names are those of the data sheets, of the driver, and the usual short ones; case, blanks and hyphens do not matter, nor do
    ``NVIDIA`` and ``GeForce``.

    Raises:
        InputError: the id is unknown, the file is not as the manual's page on GPUs says, or ``auto`` finds no GPU.

    >>> load_gpu("rtx-3090").sm_count
    82
    >>> load_gpu("NVIDIA GeForce RTX 4090").id, load_gpu("H200").id
    ('rtx-4090', 'h200')
    >>> load_gpu("rtx-309O")
    Traceback (most recent call last):
    perfmodel.errors.InputError: unknown GPU 'rtx-309O'; nearest: rtx-3090, rtx-5090, rtx-4090
    """
    require_type(str, "an id, the path of a file that ends in .toml, or 'auto'", gpu=id_or_path)
    if id_or_path.endswith(".toml"):
        return gpu_from_sheet(Path(id_or_path).stem, _sheet(id_or_path))
    return _shipped_gpu(_gpu_id(id_or_path))


@functools.cache
def load_architecture(name: str) -> Architecture:
    """The architecture of a name such as ``sm_90``, with the sheet of the newest one that is not newer.

    Raises:
        InputError: the name is none of an architecture, or older than all sheets.

    >>> load_architecture("sm_61").decodable_machine_code, load_architecture("sm_87").asynchronous_copies
    (False, True)
    """
    number = re.fullmatch(r"sm_(\d{2,3})[af]?", name)
    numbers = [int(sheet.removeprefix("sm_")) for sheet in _architectures() if sheet.startswith("sm_")]
    earlier = [known for known in numbers if number and known <= int(number[1])]
    if not earlier:
        raise InputError(f"architecture {name!r} is not of the form sm_NN (sm_{min(numbers)} … sm_120)")
    return architecture_from_sheet(name, _shipped_sheet(f"sm_{max(earlier)}"))


@functools.cache
def code_generations() -> tuple[str, ...]:
    """The architectures for which the compiler makes code of their own, the oldest first.

    >>> code_generations()
    ('sm_75', 'sm_80', 'sm_90', 'sm_100', 'sm_120')
    """
    known = {load_architecture(sheet).code_generation for sheet in _architectures() if sheet.startswith("sm_")}
    return tuple(sorted(known, key=lambda name: int(name.removeprefix("sm_"))))


def source_of(id_or_path: str, field: str) -> str:
    """Where the value of a field of this GPU comes from; begins with ``derived:`` where nobody published it.

    Raises:
        InputError: as `load_gpu`, or the field is none that a GPU file gives.

    >>> source_of("v100-pcie-32gb", "dram_latency_cycles")
    'machine_parameters.csv'
    """
    if field not in FIELD_TYPES:
        raise InputError(f"unknown field {field!r} of a GPU; {nearest(field, FIELD_TYPES)}")
    load_gpu(id_or_path)
    return _sheet_of(id_or_path).facts[field].source


def inherited_fields(id_or_path: str) -> dict[str, str]:
    """The fields whose values a GPU takes from another sheet, with the name of that sheet (an architecture, or another GPU).

    Raises:
        InputError: as `load_gpu`.

    >>> inherited_fields("rtx-5090")["max_warps_per_sm"], inherited_fields("rtx-5090").get("sm_count")
    ('sm_120', None)
    """
    load_gpu(id_or_path)
    sheet = _sheet_of(id_or_path)
    return {
        field: sheet.origins[field].removesuffix(".toml")
        for field in FIELD_TYPES
        if sheet.origins[field] != sheet.origin
    }


def _sheet_of(id_or_path: str) -> Sheet:
    return _sheet(id_or_path) if id_or_path.endswith(".toml") else _shipped_sheet(_gpu_id(id_or_path))


def values_of(gpu: Gpu) -> dict[str, Any]:
    """Every value of a GPU as JSON has it, by the names of its sheet's fields, ``id`` and ``name`` before them.

    >>> values_of(load_gpu("h200"))["compute_capability"], values_of(load_gpu("h200"))["integer_ports"]
    ([9, 0], 'half-shared')
    """
    owner = {name: gpu if hasattr(gpu, name) else gpu.architecture for name in ("id", "name", *FIELD_TYPES)}
    values: dict[str, Any] = to_builtins({name: getattr(record, name) for name, record in owner.items()})
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def with_sm_clock(gpu: Gpu, sm_clock_hz: float) -> Gpu:
    """The same GPU with its SMs at another clock; rates of L2 and DRAM stay, as they have clocks of their own.

    Raises:
        InputError: the clock is not a positive number.

    >>> with_sm_clock(load_gpu("h200"), 1.5e9).boost_clock_hz
    1500000000.0
    """
    if not (math.isfinite(sm_clock_hz) and sm_clock_hz > 0):
        raise InputError(f"the SM clock must be a positive number of hertz, not {sm_clock_hz}")
    return dataclasses.replace(gpu, base_clock_hz=min(gpu.base_clock_hz, sm_clock_hz), boost_clock_hz=sm_clock_hz)


def gpu_id_of_device(device_name: str) -> str:
    """Id of the GPU that the driver calls by this name, with or without the leading ``NVIDIA``.

    Raises:
        InputError: no GPU file lists the name.

    >>> gpu_id_of_device("NVIDIA GeForce RTX 3090")
    'rtx-3090'
    """
    found = _names().get(_plain_name(device_name))
    if found is None:
        raise InputError(f"no data for the GPU {device_name!r}; give a file for it, or one of {', '.join(gpu_ids())}")
    return found


@functools.cache
def _names() -> dict[str, str]:
    """The id of every name that a shipped GPU goes by, in its plain form."""
    names: dict[str, str] = {}
    for gpu_id in gpu_ids():
        sheet = _shipped_sheet(gpu_id)
        for name in (gpu_id, sheet.name or gpu_id, *sheet.device_names, *sheet.aliases):
            if names.setdefault(_plain_name(name), gpu_id) != gpu_id:
                raise InputError(f"{gpu_id}.toml: {name!r} is also a name of {names[_plain_name(name)]}")
    return names


def _plain_name(name: str) -> str:
    """A name without case, blanks, hyphens and the maker's words.

    >>> _plain_name("NVIDIA GeForce RTX 4090") == _plain_name("rtx-4090")
    True
    """
    return _hyphenated(name).replace("-", "")


def _hyphenated(name: str) -> str:
    """A name without case and the maker's words, a hyphen between the others, as ids have it.

    >>> _hyphenated("NVIDIA GeForce RTX 4099")
    'rtx-4099'
    """
    return re.sub(r"(?:[^a-z0-9]|\b(?:nvidia|geforce|tesla)\b)+", "-", name.casefold()).strip("-")


def is_another_gpu(name: str, gpu: Gpu) -> bool:
    """Whether a name that a file or a driver gives is that of another GPU; not so where one of the two is unknown.

    >>> is_another_gpu("NVIDIA H200", load_gpu("rtx-4090")), is_another_gpu("NVIDIA H200", load_gpu("h200"))
    (True, False)
    """
    named = _names().get(_plain_name(name))
    own = gpu.id if gpu.id in gpu_ids() else _names().get(_plain_name(gpu.name))
    return None not in (named, own) and named != own


def _gpu_id(name: str) -> str:
    if name == "auto":
        return _present_gpu_id()
    if name in gpu_ids():
        return name
    found = _names().get(_plain_name(name))
    if found is None:
        raise InputError(f"unknown GPU {name!r}; {nearest(_hyphenated(name), gpu_ids())}")
    return found


def _present_gpu_id() -> str:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    choice = f"choose one of {', '.join(gpu_ids())}"
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_DRIVER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(
            f"GPU 'auto': no GPU found: nvidia-smi does not run ({type(error).__name__}); {choice}"
        ) from error
    names = [line for line in run.stdout.splitlines() if line.strip()]
    if run.returncode != 0 or not names:
        raise InputError(
            f"GPU 'auto': no GPU found: nvidia-smi says {' '.join((run.stdout + run.stderr).split())!r}; {choice}"
        )
    present = sorted({gpu_id_of_device(name) for name in names})
    if len(present) > 1:
        raise InputError(f"several kinds of GPU are present; choose one of {', '.join(present)}")
    return present[0]


def _sheet(path: str) -> Sheet:
    return read_sheet(Path(path), path, _base)


def _base(name: str) -> Sheet:
    accepted = (*gpu_ids(), *_architectures())
    if name not in accepted:
        raise InputError(f"unknown base {name!r}; {nearest(name, accepted)}")
    return _shipped_sheet(name)


@functools.cache
def _architectures() -> tuple[str, ...]:
    return _stems(_ARCHITECTURES)


def _stems(folder: Traversable) -> tuple[str, ...]:
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


@functools.cache
def _shipped_sheet(name: str) -> Sheet:
    folder = _GPUS if name in gpu_ids() else _ARCHITECTURES
    return read_sheet(folder / f"{name}.toml", f"{name}.toml", _base)


@functools.cache
def _shipped_gpu(gpu_id: str) -> Gpu:
    return gpu_from_sheet(gpu_id, _shipped_sheet(gpu_id))
