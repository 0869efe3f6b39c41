"""The process that answers one request: ``python -m perfmodel.service.child ROOT MEMORY_MIB``, the request on standard input.

Standard output is what the command prints with ``--json``; an error is one line on standard error, as of the program.
"""

from __future__ import annotations

import errno
import resource
import sys
import tempfile
from pathlib import Path

import msgspec

from ..errors import PerfmodelError

USAGE_STATUS = 2


def main() -> int:
    """Answer the request; the exit status is the command's."""
    root, memory_mib = Path(sys.argv[1]).resolve(), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory_mib * 2**20, memory_mib * 2**20))
    try:
        return _answer(sys.stdin.buffer.read(), root)
    except PerfmodelError as error:
        message = str(error)
    except PermissionError as error:
        message = f"{error.filename}: {error.strerror}"
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


def _answer(text: bytes, root: Path) -> int:
    from ..cli.app import run
    from ..core.documents import converted
    from .commands_of import command_of
    from .confinement import confine
    from .requests import TOOLS

    tool, arguments = msgspec.json.decode(text, type=tuple[str, dict[str, object]])
    request = converted(TOOLS[tool], arguments, tool)
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as private:
        confine(root)
        return run(command_of(request, root, Path(private)))  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
