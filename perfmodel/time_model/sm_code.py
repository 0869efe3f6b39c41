"""How code and constants come to the warps of an SM: through caches of the schedulers, of the SM, and of several SMs.

Parts of `sm_simulation`, compiled with it. What Numba keeps on disk of that file does not notice changes here: it has to change,
too.
"""

from __future__ import annotations

from ..core.numba_functions import compiled
from .sm_records import Code, Floats, Integers, Machine, Paths
from .sm_state import (
    AGE,
    CONSTANT_LINES,
    FAR_CONSTANTS,
    FAR_FETCH,
    FETCH,
    LINE_FETCH,
    CodeCaches,
    ConstantCaches,
)


@compiled
def _keeps(order: Integers, line: int, count: int, capacity: int) -> bool:
    """Whether a cache that keeps the last lines it took has one of them; the element ``count`` says how many it took."""
    return bool(order[line] > 0 and order[line] > order[count] - capacity)


@compiled
def _take(order: Integers, line: int, count: int) -> None:
    """Number a line that a cache takes."""
    order[count] += 1
    order[line] = order[count]


@compiled
def fetched(
    caches: CodeCaches, machine: Machine, servers: Floats, scheduler: int, line: int, time: float, jumped: bool
) -> float:
    """When a line of code is in the scheduler's cache, which keeps the last ones that it took in order.

    What a warp has ``jumped`` to nobody has asked for beforehand.
    """
    lines, inserted = caches.arrivals[scheduler], caches.inserted[scheduler]
    if _keeps(inserted, line, -1, machine.l0_lines):
        return float(lines[line])
    servers[FETCH] = max(servers[FETCH], time) + machine.fetch_cycles
    _bring(caches, machine, servers, line, time, jumped)
    _take(inserted, line, -1)
    lines[line] = max(servers[FETCH], caches.came[line]) + machine.fetch_latency
    return float(lines[line])


@compiled
def _bring(caches: CodeCaches, machine: Machine, servers: Floats, line: int, time: float, jumped: bool) -> None:
    """Bring a line of code into the SM's cache, if it is not there, and into the common one of several SMs likewise."""
    near, held = caches.near, caches.held
    if _keeps(near, line, -1, machine.sm_lines):
        return
    if not _keeps(held, line, -1, machine.l1_lines):
        servers[FAR_FETCH] = max(servers[FAR_FETCH], time) + machine.far_fetch_cycles
        caches.reached[line] = servers[FAR_FETCH] + (machine.l2_latency if jumped else 0.0)
        _take(held, line, -1)
    servers[LINE_FETCH] = max(servers[LINE_FETCH], time) + machine.line_fetch_cycles
    came = servers[LINE_FETCH] + (machine.jump_fetch_cycles if jumped else 0.0)
    caches.came[line] = max(came, caches.reached[line])
    _take(near, line, -1)


@compiled
def constant_line(code: Code, paths: Paths, warp: int, index: int, places: Integers, walked: Integers) -> int:
    """The line of constants that a warp reads next by an instruction, -1 where that is not known."""
    walk = code.constant_walk[index]
    of_block = places[warp, AGE] % ((len(paths.walk_offsets) - 1) // paths.walks) * paths.walks + walk
    first, end = paths.walk_offsets[of_block], paths.walk_offsets[of_block + 1]
    if end == first:
        return -1
    walked[warp, walk] += 1
    return int(paths.walk_lines[first + (walked[warp, walk] - 1) % (end - first)])


@compiled
def fetched_constants(
    caches: ConstantCaches,
    machine: Machine,
    paths: Paths,
    servers: Floats,
    owner: int,
    line: int,
    cycles: float,
    time: float,
) -> float:
    """When a line of constants is in a scheduler's cache, each set of which keeps the last ones that it took in order.

    The SM's cache is the last one (``owner`` -1).
    """
    if line < 0:
        return time
    lines, inserted, reached = caches.arrivals[owner], caches.inserted[owner], caches.reached
    last, far = len(lines) + paths.constant_set[line], paths.constant_far[line]
    if _keeps(inserted, line, last, machine.constant_ways):
        return float(lines[line])
    if reached[far] == 0.0:
        servers[FAR_CONSTANTS] = max(servers[FAR_CONSTANTS], time) + machine.constant_far_latency
        reached[far] = servers[FAR_CONSTANTS]
    start = max(servers[CONSTANT_LINES], time, reached[far])
    servers[CONSTANT_LINES] = start + cycles
    _take(inserted, line, last)
    lines[line] = start + machine.constant_latency
    return float(lines[line])
