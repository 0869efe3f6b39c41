"""Compiled code kept on disk: bounded in size, safe under concurrent writers, and never a reason to fail."""

from __future__ import annotations

import os
import sqlite3
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs

from ..core.kept import note_kept
from .workers import in_worker

SIZE_LIMIT_BYTES = 2 * 2**30
"""Where the cache stops growing; the entries stored longest ago go first."""

LOCK_WAIT_S = 60.0
"""How long to wait for another process that writes."""

_FAULTS = (OSError, sqlite3.Error)


def cache_directory() -> Path:
    """``PERFMODEL_CACHE`` if set, else the platform's cache folder."""
    named = os.environ.get("PERFMODEL_CACHE")
    return Path(named) if named else Path(platformdirs.user_cache_dir("perfmodel"))


@cache
def _store(directory: Path) -> Any:
    """The opened store, or None where the folder cannot be used; says so once on standard error."""
    import diskcache

    try:
        return diskcache.Cache(
            str(directory), timeout=LOCK_WAIT_S, size_limit=SIZE_LIMIT_BYTES, eviction_policy="least-recently-stored"
        )
    except _FAULTS as error:
        _note_trouble(str(error))
        return None


def fetch(key: str) -> bytes | None:
    """The stored bytes, or None where nothing (readable) is stored."""
    store = _store(cache_directory())
    if store is None:
        return None
    try:
        packed = store.get(key)
        return zlib.decompress(packed) if isinstance(packed, bytes) else None
    except (*_FAULTS, zlib.error):
        return None


def keep(key: str, value: bytes) -> None:
    """Store bytes under a key; when this returns without trouble they outlive the process, however it ends.

    A folder that is full or turned read-only is no error, only slower next time.
    """
    store = _store(cache_directory())
    if store is not None:
        from diskcache import Timeout

        try:
            store.set(key, zlib.compress(value, 1))
            note_kept()
        except (*_FAULTS, Timeout) as error:
            _note_trouble(str(error) or "another process keeps it locked")


_troubles: list[str] = []
"""Why nothing was kept, the first reason first; a worker's are reported by the process that started it."""


def trouble() -> str:
    """Why this process could not keep something; empty where it could keep all."""
    return _troubles[0] if _troubles else ""


def report_trouble(reason: str) -> None:
    """Say on standard error, once, that nothing is kept; ``reason`` is empty where there is nothing to say."""
    if reason and not _troubles:
        folder = cache_directory()
        print(
            f"perfmodel: nothing is kept in the cache folder {folder} ({reason}); PERFMODEL_CACHE names another",
            file=sys.stderr,
        )
        _troubles.append(reason)


def _note_trouble(reason: str) -> None:
    if in_worker():
        _troubles.append(reason)
    else:
        report_trouble(reason)
