"""What a launch has to do, as the time model sees it: counts plus the serial structure of one warp."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.counts import Counts
from ..launch.launch import Launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Launch, counts and serial structure of one launch or of n candidates (arrays of shape ``(n,)``).

    ``global_round_trips``: groups of global loads that a warp issues together and then waits for, one group after the other
    (the slowest warp of a block). ``loop_code_bytes``: code of the largest loop that a warp walks through more than once;
    code without a loop counts as 0. ``code_bytes``: all of it, 0 where that is not known. ``independent_chains``:
    accumulators of a thread that do not wait for one another. ``warp_cycles``: cycles that the slowest warp of a block
    needs alone where memory behind L1 answers at once, by the machine code's own schedule, and
    ``longest_warp_instructions`` what it executes; NaN where that is not known. ``constant_bytes``: constant memory that
    the launch reads by index, all blocks together. ``read_only_share``: part of the global loads that go by the read-only
    path (``ld.global.nc``; asynchronous copies do not). ``local_bytes_per_thread``: stack and spills whose traffic behind L1
    is not in the counts yet.
    """

    launch: Launch
    counts: Counts
    global_round_trips: Any = 1.0
    independent_chains: Any = 1.0
    loop_code_bytes: Any = 0.0
    code_bytes: Any = 0.0
    local_bytes_per_thread: Any = 0.0
    constant_bytes: Any = 0.0
    warp_cycles: Any = np.nan
    longest_warp_instructions: Any = np.nan
    read_only_share: Any = 0.0
