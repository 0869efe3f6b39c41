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
        print(f"perfmodel: cache folder {directory} cannot be used ({error}); compiling without it", file=sys.stderr)
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
    """Store bytes under a key; a folder that turned read-only is no error, only slower next time."""
    store = _store(cache_directory())
    if store is not None:
        from diskcache import Timeout

        try:
            store.set(key, zlib.compress(value, 1))
        except (*_FAULTS, Timeout) as error:
            _report_once(str(error) or "another process keeps it locked")


@cache
def _report_once(reason: str) -> None:
    print(f"perfmodel: nothing is kept in the cache folder {cache_directory()} ({reason})", file=sys.stderr)
