"""How often Python looks for objects that hold nothing but each other."""

from __future__ import annotations

import gc


def collect_rarely() -> None:
    """Let this process look after every 50,000 new objects, where Python does after 700.

    It takes a twelfth of the time of an analysis otherwise, and finds next to nothing: what a prediction makes is held until its
    end, or by nobody.

    >>> before = gc.get_threshold()
    >>> collect_rarely()
    >>> gc.get_threshold()
    (50000, 20, 20)
    >>> gc.set_threshold(*before)
    """
    gc.set_threshold(50_000, 20, 20)
