"""Whether this process keeps what it has finished, so that a later one goes on from there."""

from __future__ import annotations

import threading

_kept = threading.Event()

note_kept = _kept.set
"""Take note that something finished outlives the process: compiled or executed code, a record, rows of a task."""
anything_kept = _kept.is_set
"""Whether anything was."""
forget_kept = _kept.clear
"""Begin anew: another command runs in the same process."""
