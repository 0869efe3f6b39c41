"""The process that answers one request, which comes on standard input: ``python -m perfmodel.service.child ROOT PRIVATE MIB``.

ROOT is the folder that it may read, PRIVATE an empty one for what it writes, MIB its address space.

Standard output is what the command prints with ``--json``; an error is one line on standard error, as of the program.
"""

from __future__ import annotations

import errno
import resource
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from ..errors import PerfmodelError
from .confinement import confine, end_with_parent

USAGE_STATUS = 2


def main() -> int:
    """Answer the request; the exit status is the command's."""
    root, private, memory_mib = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), int(sys.argv[3])
    end_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * 2**20, memory_mib * 2**20))
    confine([root, private])
    try:
        _answer(sys.stdin.buffer.read(), root, private)
    except PerfmodelError as error:
        message = str(error)
    except PermissionError as error:
        message = f"{error.filename}: is outside the folder that the service may read"
    except (MemoryError, ImportError, OSError, SystemError) as error:
        if not (isinstance(error, MemoryError | SystemError) or _is_want_of_memory(error)):
            raise
        message = (
            f"the request needs more than {memory_mib} MiB of memory; `perfmodel serve --max-memory-mib` allows more"
        )
    print(f"perfmodel: error: {message}", file=sys.stderr)
    return USAGE_STATUS


def _is_want_of_memory(error: Exception) -> bool:
    """Whether a library could not be loaded, or a process not be started, for want of memory.

    Where memory ends within an import, Python itself may report a SystemError.
    """
    return getattr(error, "errno", None) == errno.ENOMEM or "map segment" in str(error) or "llvmlite" in str(error)


def _answer(text: bytes, root: Path, private: Path) -> NoReturn:
    from ..cli.app import leave, run
    from ..core.documents import converted
    from .commands_of import command_of
    from .requests import TOOLS

    tool, arguments = msgspec.json.decode(text, type=tuple[str, dict[str, object]])
    request = converted(TOOLS[tool], arguments, tool)
    leave(run(command_of(request, root, private)))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
