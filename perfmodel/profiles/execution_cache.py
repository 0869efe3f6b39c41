"""What executions of launches gave, kept in the disk cache by the content of what was executed."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import msgspec
import numpy as np

from ..compiler import disk_cache
from ..launch.contents import Computed, Contents, Repeated
from ..launch.launch import Buffer, KernelCall
from ..memory.cache_record import CacheRecord
from .profile_cache import counting_version

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
