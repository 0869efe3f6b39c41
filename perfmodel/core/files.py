"""Files that a user hands in or gets: texts read whole, plain or gzip; all written so that no reader sees half a file."""

from __future__ import annotations

import errno
import gzip
import json
import os
import secrets
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InputError

GZIP_MAGIC = b"\x1f\x8b"


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, unpacked when its first bytes are those of gzip, whatever its name.

    Raises:
        InputError: The file cannot be opened, its gzip stream is damaged or cut short, or it is not UTF-8 text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: damaged gzip file: {error}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start}: not UTF-8 text") from error


def require_regular(path: Path) -> None:
    """That a file stands at the path which can be read more than once, and never waits for a writer as a pipe does.

    Raises:
        OSError: There is none, or a folder, a pipe or a device.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is no regular file: write it to one first", str(path))


def require_replaceable(path: Path) -> None:
    """That nothing stands at the path, or a file that may be replaced, whoever asks: a privileged user may write anything.

    Raises:
        OSError: A folder stands there, a device, or a file that nobody may write; or no file can have this name.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder; a file's name is needed", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is no regular file; give another name", str(path))
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EACCES, "is read-only; give another name", str(path))


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose bytes take the place of the file in one step when the block ends; if it ends by an error, nothing does.

    A file that was there keeps its permissions; a new one has those that the process gives to new files. What must not be
    replaced (`require_replaceable`) raises ``OSError``, as a folder that cannot be written does.
    """
    require_replaceable(path)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with partial.open("xb") as stream:
        try:
            if path.exists():
                partial.chmod(stat.S_IMODE(path.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def write_text(path: Path, text: str) -> None:
    """Replace the file by the text, as `replacing` does; a name that ends in ``.gz`` is packed (without a time stamp inside)."""
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    with replacing(path) as stream:
        stream.write(data)


def parse_json(path: Path, text: str, first_line: int = 1) -> Any:
    """The value that a JSON text holds; ``first_line`` is the line of the file on which the text starts.

    Raises:
        InputError: The text is not JSON; file, line and column are named.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise InputError(f"{path}: line {line}, column {error.colno}: damaged JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {first_line}: damaged JSON: {error}") from error
