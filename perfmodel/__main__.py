"""The program, as ``python -m perfmodel`` and as the script ``perfmodel``: Ctrl-C ends it from its first line on."""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps, which takes longer to import
import os

_line = b""
"""What an interrupt says; nothing before the module that holds the text is imported."""


def _end(*_: object) -> None:
    """Until the program's own handling of interrupts begins, one ends the process at once."""
    os.write(2, _line)
    os._exit(128 + _signal.SIGINT)


if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # before anything else is imported
    _signal.signal(_signal.SIGINT, _end)

from .errors import INTERRUPTED  # noqa: E402

_line = f"{INTERRUPTED}\n".encode()


def main() -> None:
    """Run the program."""
    from .cli.app import main as run

    run()


if __name__ == "__main__":
    main()
