"""The counts store: executed counts and resources of configurations that are expensive to compile, shipped compressed.

A row is found by the hash of everything that decides it: source, macros, options, compiler, architecture, problem. A kernel
that was changed since is therefore not found, and is compiled instead.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler.compiled import content_key
from ..compiler.request import CompileRequest
from ..compiler.resources import Resources
from ..core.counts import COUNT_NAMES, Counts
from ..core.json_values import plain
from ..errors import InputError
from ..launch.launch import Launch
from .kernel_profile import TRAFFIC_COUNTS, KernelProfile

KEY_CHARACTERS = 24
RESOURCE_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Resources))
COPY_READ_COUNTS = ("async_copy_read_requests", "async_copy_read_sectors", "async_copy_read_wavefronts")
"""What asynchronous copies read; closed forms are exact there."""
ABSENT_COUNTS = (
    "bulk_read_sectors",
    "bulk_write_sectors",
    "l2_atomic_sectors",
    "shared_atomic_wavefronts",
    "texture_requests",
    "texture_sectors",
    "texture_pipe_passes",
    "surface_load_requests",
    "surface_load_sectors",
    "surface_store_requests",
    "surface_store_sectors",
    "generic_shared_loads",
    "generic_shared_stores",
)
"""What no stored configuration does."""
UNKNOWN_COUNTS = (*TRAFFIC_COUNTS, *COPY_READ_COUNTS)
"""Counts that a store leaves to closed forms."""
STORED_COUNTS: tuple[str, ...] = tuple(
    name for name in COUNT_NAMES if name not in (*UNKNOWN_COUNTS, *ABSENT_COUNTS, "l2_instruction_sectors")
)
CRITICAL_PATH_NAMES: tuple[str, ...] = ("global_round_trips", "warp_cycles", "longest_warp_instructions")
"""Critical path of a warp, NaN where it is not known."""
_COLUMNS = (*RESOURCE_NAMES, *STORED_COUNTS, "loop_code_bytes", *CRITICAL_PATH_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsStore:
    """Rows by key; ``values`` has shape ``(rows, columns)``, ``exact`` shape ``(rows,)``."""

    compiler: str
    rows: Mapping[str, int]
    values: NDArray[np.float64]
    exact: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.exact)

    def find(self, key: str, launch: Launch) -> KernelProfile | None:
        """The profile stored under a key for a launch, None where there is none."""
        row = self.rows.get(key)
        if row is None:
            return None
        values = dict(zip(_COLUMNS, self.values[row].tolist(), strict=True))
        resources = Resources(**{name: int(values[name]) for name in RESOURCE_NAMES})
        counts = {name: values[name] for name in STORED_COUNTS} | dict.fromkeys(UNKNOWN_COUNTS, math.nan)
        return KernelProfile(
            launch=replace(launch, static_shared_bytes=resources.static_shared_bytes),
            resources=resources,
            counts=Counts(**counts),
            loop_code_bytes=values["loop_code_bytes"],
            read_only_share=math.nan,
            exact=bool(self.exact[row]),
            **{name: values[name] for name in CRITICAL_PATH_NAMES},
        )


def store_key(request: CompileRequest, problem: Any, architecture: str, compiler: str) -> str:
    """Key of one configuration of one problem on one architecture, for a given compiler version."""
    code = content_key(request, architecture, compiler)
    text = json.dumps([code, plain(problem)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_CHARACTERS]


def empty_store(compiler: str) -> CountsStore:
    """A store without rows."""
    return CountsStore(compiler=compiler, rows={}, values=np.zeros((0, len(_COLUMNS))), exact=np.zeros(0, np.bool_))


def with_profiles(store: CountsStore, found: Mapping[str, KernelProfile]) -> CountsStore:
    """The store with further rows; a key that it has already gets the new row."""
    kept = [key for key in store.rows if key not in found]
    old = np.array([store.rows[key] for key in kept], np.int64)
    new = [
        [float(getattr(profile.resources, name)) for name in RESOURCE_NAMES]
        + [float(getattr(profile.counts, name)) for name in STORED_COUNTS]
        + [float(getattr(profile, name)) for name in ("loop_code_bytes", *CRITICAL_PATH_NAMES)]
        for profile in found.values()
    ]
    keys = [*kept, *found]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    values = np.concatenate([store.values[old], np.array(new, np.float64).reshape(-1, len(_COLUMNS))])[order]
    exact = np.concatenate([store.exact[old], np.array([one.exact for one in found.values()], np.bool_)])[order]
    rows = {keys[i]: position for position, i in enumerate(order)}
    return CountsStore(compiler=store.compiler, rows=rows, values=values, exact=exact)


def write_store(store: CountsStore, path: Path) -> None:
    """Write a store atomically; rows are sorted by key, columns are transposed because they compress better."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        compiler=np.array(store.compiler),
        columns=np.array(_COLUMNS),
        keys=np.array(list(store.rows), dtype=f"S{KEY_CHARACTERS}"),
        values=store.values.T,
        exact=store.exact,
    )
    part = path.with_suffix(".part")
    part.write_bytes(buffer.getvalue())
    part.replace(path)


def read_store(data: bytes, origin: str) -> CountsStore:
    """A store from the bytes of its file; ``InputError`` where it is damaged or of another layout."""
    try:
        with np.load(io.BytesIO(data)) as content:
            if tuple(content["columns"].tolist()) != _COLUMNS:
                raise InputError(f"counts store {origin} has other columns than this version; fill it again")
            keys = content["keys"].astype(str).tolist()
            return CountsStore(
                compiler=str(content["compiler"]),
                rows={key: row for row, key in enumerate(keys)},
                values=np.ascontiguousarray(content["values"].T),
                exact=content["exact"],
            )
    except InputError:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"counts store {origin} is damaged: {error}") from error


_SHIPPED = files("perfmodel.data").joinpath("counts")


@functools.cache
def load_store(family_name: str) -> CountsStore:
    """The store shipped for a family, as the compiler of the extra ``compile`` builds it; without rows where none is shipped.

    >>> len(load_store("no such family"))
    0
    """
    shipped = _SHIPPED.joinpath(f"{family_name}.npz")
    return read_store(shipped.read_bytes(), shipped.name) if shipped.is_file() else empty_store("none")


@functools.cache
def load_stores(family_name: str) -> tuple[CountsStore, ...]:
    """That store, then those of other compilers that are shipped for the family."""
    others = (
        path for path in _SHIPPED.iterdir() if path.name.startswith(f"{family_name}.") and path.name.endswith(".npz")
    )
    shipped = sorted((path for path in others if path.name != f"{family_name}.npz"), key=lambda path: path.name)
    return (load_store(family_name), *(read_store(path.read_bytes(), path.name) for path in shipped))
