"""How a long computation says that it goes on."""

from collections.abc import Callable

Advance = Callable[[], None]
"""Called as each of a long list of steps ends; what a progress bar hangs on."""


def no_progress() -> None:
    """The ``Advance`` of those who do not show progress."""
