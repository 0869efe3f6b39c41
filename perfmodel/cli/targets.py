"""Files that a command writes when its work is done: what cannot be written is said before the work begins."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError


def require_writable(option: str, path: Path, others: Iterable[Path | None] = ()) -> None:
    """That the file which an option names can be written later; its folder is made where it is missing.

    Args:
        option: its name, for messages.
        path: the file.
        others: what the same command reads or writes besides, which the file must not replace.

    Raises:
        InputError: The path is a folder, one of the others, a file that nobody may write, or no file can be made there.
    """
    from ..core.files import require_replaceable

    try:
        require_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except FileExistsError:
        raise InputError(f"{option} {path}: {path.parent} is no folder") from None
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
    if any(other is not None and path.resolve() == other.resolve() for other in others):
        raise InputError(f"{option} {path}: is another file of this command, which it would replace; give another name")


def write_target(option: str, path: Path, text: str) -> None:
    """Write the file in one step, so that no reader sees half of it.

    Raises:
        InputError: The file cannot be written; a full disk, say.
    """
    from ..core.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise InputError(f"{option} {path}: {error.strerror or error}") from error
