"""A job for worker processes whose disk is full."""

from __future__ import annotations

import resource

from perfmodel.compiler import disk_cache


def kept(number: int) -> int:
    """Keep half a megabyte where no file may grow beyond 64 KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, resource.RLIM_INFINITY))
    disk_cache.keep(f"key-{number}", bytes(range(256)) * 2048 * (number + 1))
    return number
