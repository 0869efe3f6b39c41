"""What a request may read: files of one folder, and what Python and the compilers consist of. Linux sees to it (Landlock)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import platformdirs

from ..compiler.disk_cache import cache_directory
from ..errors import InputError, PerfmodelError

_OF_THE_SYSTEM = (
    *("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/proc", "/sys"),
    *("/dev/null", "/dev/zero", "/dev/shm", "/dev/random", "/dev/urandom"),
)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls, on all architectures: https://docs.kernel.org/userspace-api/landlock.html."""
_ASK_VERSION, _BENEATH_A_PATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_NO_NEW_PRIVILEGES, _SIGNAL_OF_PARENTS_END = 38, 1
"""Of ``prctl``: what may start programs with more rights cannot restrict itself."""


class _Ruleset(ctypes.Structure):
    """``landlock_ruleset_attr``: what is forbidden but where a rule allows it."""

    _fields_ = (("handled", ctypes.c_uint64),)


class _Rule(ctypes.Structure):
    """``landlock_path_beneath_attr``: what is allowed beneath an open file or folder."""

    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("file", ctypes.c_int32))


def inside(root: Path, name: str) -> Path:
    """The path of a file of the folder.

    Raises:
        InputError: the name leads out of the folder, by itself or by a link.
    """
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"{name!r} is outside the folder that the service may read")
    return path


def require_confinement() -> None:
    """That this system can keep a process to some folders.

    Raises:
        PerfmodelError: it cannot.
    """
    if sys.platform != "linux" or _libc().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION) < 1:
        raise PerfmodelError(
            "a service that reads one folder only needs Landlock: Linux 5.13 or newer, with it enabled"
        )


def confine(folders: Iterable[Path]) -> None:
    """From now on this thread, and whatever it starts, reads and lists only these folders, Python, the compilers and the caches.

    It cannot be taken back. Files that are open already stay so.

    Raises:
        OSError: Landlock is missing; `require_confinement` says so beforehand.
    """
    caches = (cache_directory(), Path(os.environ.get("NUMBA_CACHE_DIR") or platformdirs.user_cache_dir("numba")))
    for cache in caches:
        with suppress(OSError):  # a read-only file system
            cache.mkdir(parents=True, exist_ok=True)
    of_python = (Path(__file__).parents[2], *map(Path, (sys.prefix, sys.base_prefix, *filter(None, sys.path))))
    places = {place.resolve() for place in (*folders, *caches, *of_python, *map(Path, _OF_THE_SYSTEM))}
    libc, ruleset = _libc(), _Ruleset(_READ_FILE | _READ_FOLDER)
    rules = _checked(libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(ctypes.sizeof(ruleset)), 0))
    for place in filter(Path.exists, places):
        file = os.open(place, os.O_PATH | os.O_CLOEXEC)
        rule = _Rule(_READ_FILE | (_READ_FOLDER if place.is_dir() else 0), file)
        _checked(libc.syscall(_ADD_RULE, rules, _BENEATH_A_PATH, ctypes.byref(rule), 0))
        os.close(file)
    _checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def end_with_parent() -> None:
    """Have this process killed when the one that started it ends, however it does."""
    _checked(_libc().prctl(_SIGNAL_OF_PARENTS_END, signal.SIGKILL, 0, 0, 0))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
