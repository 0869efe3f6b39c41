"""Calls of functions that no cubin holds, because the driver brings them: printing, assertions, the heap.

Their arguments lie where the CUDA ABI puts them, from register R4 on in order; a result is given back there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.types import ScalarType
from ..block_classes.classes import NotFollowedError
from ..faults import FaultKind
from ..machine import Lanes
from ..plan import Mask, both
from ..printed_text import Conversion, PrintedText, conversions_of
from ..transfer import UNCOUNTED, load_generic

Values = NDArray[Any]
FIRST_ARGUMENT = 4
"""Register of the first argument and of the result."""
_UNCOUNTED = (UNCOUNTED, UNCOUNTED, UNCOUNTED, UNCOUNTED)
_LONGEST_TEXT = 4096


def call_outside(
    lanes: Lanes,
    instruction: int,
    target: Values,
    guard: Mask | None,
    functions: Mapping[int, str],
    first: Values,
    second: Values,
) -> Values:
    """Do what the functions at some addresses do; gives what the first argument's registers hold then.

    Text is printed where the environment collects it. A failed assertion ends the simulation.
    """
    effective = both(lanes.active, guard)
    here = np.ones((1, 1), np.bool_) if effective is None else effective
    result = first
    for address in np.unique(np.broadcast_to(target, lanes.shape)[np.broadcast_to(here, lanes.shape)]):
        calling = here & (target == address)
        name = functions.get(int(address))
        if name == "vprintf":
            printed = lanes.environment.printed
            if printed is not None:
                _print(lanes, instruction, calling, first, second, printed)
        elif name == "__assertfail":
            text = _text_at(lanes, int(_of_lanes(lanes, calling, first)[0]))
            lanes.fault(FaultKind.ASSERTION, instruction, calling, f"assert({text})" if text else "a failed assertion")
        elif name in ("malloc", "free"):
            if lanes.batch.classes is not None:
                raise NotFollowedError("addresses of the heap")
            result = _of_heap(lanes, name, calling, first, result)
        else:
            calls = name or "a function pointer"
            raise lanes.environment.instructions[instruction].error(f"calls {calls}, which has no code here")
    return result


def _of_lanes(lanes: Lanes, here: Mask, values: Any) -> Values:
    """Values of some lanes, flat, in the order block, thread."""
    plain = getattr(values, "lanes", values)
    chosen: Values = np.broadcast_to(plain, lanes.shape)[np.broadcast_to(here, lanes.shape)]
    return chosen


def _of_heap(lanes: Lanes, name: str, here: Mask, first: Values, before: Values) -> Values:
    """``malloc`` or ``free`` of each lane, one after the other."""
    heap = lanes.environment.heap
    assert heap is not None
    given = [int(value) for value in _of_lanes(lanes, here, first)]
    if name == "free":
        for address in given:
            heap.free(address)
        return before
    after: Values = np.array(np.broadcast_to(before, lanes.shape))
    after[np.broadcast_to(here, lanes.shape)] = np.array([heap.allocate(size) for size in given], np.uint64)
    return after


def _print(lanes: Lanes, instruction: int, here: Mask, form: Values, arguments: Values, printed: PrintedText) -> None:
    """``vprintf`` of each lane: its format, and where its arguments lie on its stack."""
    full = np.broadcast_to(here, lanes.shape)
    for address in np.unique(_of_lanes(lanes, here, form)):
        calling: Mask = full & (form == address)
        blocks = lanes.block_ids[np.nonzero(calling)[0]].tolist()
        if printed.is_full:
            printed.dropped += len(blocks)
            continue
        texts, conversions = conversions_of(_text_at(lanes, int(address)))
        columns = [_argument(lanes, instruction, calling, arguments, one) for one in conversions]
        strings: dict[int, str] = {}

        def string(at: int, known: dict[int, str] = strings) -> str:
            if at not in known:
                known[at] = _text_at(lanes, at)
            return known[at]

        for position, block in enumerate(blocks):
            if printed.is_full:
                printed.dropped += len(blocks) - position
                break
            parts = [texts[0]]
            for one, column, text in zip(conversions, columns, texts[1:], strict=True):
                parts += [one.text(column[position], string), text]
            printed.add(block, "".join(parts))


def _argument(lanes: Lanes, instruction: int, here: Mask, arguments: Values, conversion: Conversion) -> list[int]:
    """The bits of one argument of each lane."""
    kind: ScalarType = np.uint64 if conversion.size_bytes == 8 else np.uint32
    (values,) = load_generic(lanes, _UNCOUNTED, instruction, arguments, conversion.offset, kind, 1, here)
    found: list[int] = _of_lanes(lanes, here, values).tolist()
    return found


def _text_at(lanes: Lanes, address: int) -> str:
    """The text that ends with a zero byte at an address of global memory; empty where there is none."""
    memory = lanes.environment.memory
    segment = memory.segment_at(address)
    if segment is None:
        return ""
    stop = min(address + _LONGEST_TEXT, segment.start + segment.size_bytes)
    memory.touch(address, stop)
    data = memory.view(np.uint8)[address - memory.base : stop - memory.base].tobytes()
    return data.partition(b"\0")[0].decode("latin-1")
