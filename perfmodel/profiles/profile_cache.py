"""Profiles of executed launches kept in the disk cache, so that a ranking that was interrupted goes on where it stopped."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from ..compiler import disk_cache
from ..compiler.compiled import content_key
from ..compiler.request import CompileRequest
from ..compiler.resources import Resources
from ..core.counts import Counts
from ..gpus.gpu import Gpu
from ..launch.contents import Computed, Contents, Repeated
from ..launch.launch import Buffer, KernelCall, Launch, Structure, TensorMap, TextureObject
from ..memory.cache_record import CacheRecord
from .kernel_profile import KernelProfile
from .warp_traces import WarpTraces

_Kept = TypeVar("_Kept")


def launch_key(*parts: Any) -> str:
    """Key of an execution from all that decides what it gives: code, launch, arguments, effort, and the code that counts."""
    return "execution-" + content_digest(counting_version(), *parts)


def content_digest(*parts: Any) -> str:
    """Hash of values, of arrays and buffers by what they hold.

    >>> content_digest(np.arange(3)) == content_digest(np.array([0, 1, 2]))
    True
    """
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        _add(digest, part)
    return digest.hexdigest()


def _add(digest: Any, part: Any) -> None:
    """Hash a value; arrays and buffers by what they hold."""
    if isinstance(part, KernelCall):
        for value in (*part.parameters, None, *part.constants):
            _add(digest, value)
    elif isinstance(part, Buffer):
        digest.update(f"{part.name} {part.output}".encode())
        _add(digest, part.array)
    elif isinstance(part, TensorMap | TextureObject):
        digest.update(repr(part.tiling if isinstance(part, TensorMap) else part.texture).encode())
        digest.update(repr(isinstance(part, TensorMap) and part.by_pointer).encode())
        _add(digest, part.buffer)
    elif isinstance(part, Structure):
        digest.update(part.content)
        digest.update(repr(part.by_pointer).encode())
        for offset, buffer in part.pointers:
            digest.update(repr(offset).encode())
            _add(digest, buffer)
    elif isinstance(part, Contents):
        digest.update(f"{type(part).__name__} {part.dtype.str} {part.size}".encode())
        if isinstance(part, Repeated):
            digest.update(part.period.view(np.uint8))
        elif isinstance(part, Computed):
            digest.update(part.name.encode())
    elif isinstance(part, np.ndarray | np.generic):
        digest.update(f"{part.dtype.str} {part.shape}".encode())
        digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8))
    else:
        digest.update(repr(part).encode())
    digest.update(b"\0")


def fetch(key: str | None, kind: type[_Kept]) -> _Kept | None:
    """The record kept under a key; None where there is none that can be read."""
    stored = None if key is None else disk_cache.fetch(key)
    if stored is None:
        return None
    try:
        return msgspec.msgpack.decode(stored, type=kind)
    except msgspec.MsgspecError:
        return None


def keep(key: str | None, record: object) -> None:
    """Keep a record of numbers, texts and enumerations under a key."""
    if key is not None and record is not None:
        disk_cache.keep(key, msgspec.msgpack.encode(record, enc_hook=lambda value: value.item()))


def fetch_caches(key: str | None) -> CacheRecord | None:
    """What the caches were asked, kept under a key; None where there is none that can be read."""
    stored = None if key is None else disk_cache.fetch(key)
    try:
        return None if stored is None else CacheRecord.from_bytes(stored)
    except (ValueError, KeyError, OSError):
        return None


def keep_caches(key: str | None, record: CacheRecord | None) -> None:
    """Keep what the caches were asked under a key."""
    if key is not None and record is not None:
        disk_cache.keep(key, record.to_bytes())


COUNTING_FOLDERS = (
    "core",
    "launch",
    "ir",
    "sources",
    "compiler",
    "machine_code",
    "ptx",
    "simulator",
    "memory",
    "profiles",
)
"""Folders whose code decides what an execution gives."""


@functools.cache
def counting_version() -> str:
    """Hash of the code that counts and its fitted shares, so that profiles by an older simulator are never taken."""
    digest = hashlib.sha256()
    root = Path(str(files("perfmodel")))
    for name in ("caches", "warp_latencies"):
        digest.update((root / "data" / "calibrations" / f"{name}.toml").read_bytes())
    for folder in COUNTING_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def profile_key(request: CompileRequest, gpu: Gpu, launch: tuple[Any, ...]) -> str:
    """Key of one launch: code, GPU, launch and arguments, the code that counts."""
    parts = [content_key(request, gpu.architecture.name), repr(gpu), repr(launch), counting_version()]
    return "profile-" + hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def fetch_profile(key: str) -> KernelProfile | None:
    """The profile kept under a key, None where there is none that can be read."""
    stored = disk_cache.fetch(key)
    if stored is None:
        return None
    text, _, traces = stored.partition(b"\n")
    try:
        return decoded_profile(json.loads(text), traces)
    except (ValueError, TypeError, KeyError):
        return None


def keep_profile(key: str, profile: KernelProfile) -> None:
    """Keep the profile of a single launch under a key."""
    values, traces = encoded_profile(profile)
    disk_cache.keep(key, json.dumps(values).encode() + b"\n" + traces)


def encoded_profile(profile: KernelProfile) -> tuple[dict[str, Any], bytes]:
    """The profile of a single launch as a JSON object, where what it does not know (NaN) is null, and its traces as bytes.

    >>> from perfmodel.profiles.kernel_profile import estimated_resources
    >>> launch = Launch(grid_x=2, block_x=64)
    >>> profile = KernelProfile(launch=launch, resources=estimated_resources(launch, 32), counts=Counts(fp64=7))
    >>> decoded_profile(*encoded_profile(profile)).counts.fp64
    7
    """
    values: dict[str, Any] = _without_nan(asdict(replace(profile, traces=None)))
    return values, b"" if profile.traces is None else profile.traces.to_bytes()


def decoded_profile(values: Mapping[str, Any], traces: bytes = b"") -> KernelProfile:
    """The profile of what `encoded_profile` made.

    Raises:
        TypeError: a field is not known, as in an object made by another version.
    """
    known: dict[str, Any] = _with_nan(values)
    parts = {"launch": Launch, "resources": Resources, "counts": Counts}
    inner: dict[str, Any] = {name: kind(**_with_nan(values[name])) for name, kind in parts.items()}
    known["traces"] = WarpTraces.from_bytes(traces) if traces else None
    return KernelProfile(**known | inner)


def _with_nan(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: math.nan if value is None else value for name, value in values.items()}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(one) for name, one in value.items()}
    plain = value.item() if hasattr(value, "item") else value
    return None if isinstance(plain, float) and math.isnan(plain) else plain
