"""The program, as ``python -m perfmodel`` and as the script ``perfmodel``: Ctrl-C ends it from its first line on."""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, which takes longer to import
import os

from .errors import INTERRUPTED, INTERRUPTED_STATUS


def main() -> None:
    """Run the program; until its own handling of interrupts begins, one ends the process at once, with one line."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _end)
    from .cli.app import main as run

    run()


def _end(*_: object) -> None:
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_STATUS)


if __name__ == "__main__":
    main()
