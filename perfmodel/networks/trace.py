"""A network's layers over time as a trace: the Trace Event Format, which Perfetto and Chrome's ``about:tracing`` open."""

from __future__ import annotations

from typing import Any

from ..core.json_values import plain
from ..core.units import interval_us, microseconds
from .estimate import KERNELS, LayerReport, NetworkReport, TimeBasis

_PROCESS = 1


def trace_of(report: NetworkReport) -> dict[str, Any]:
    """The layers one after the other, as a single stream runs them, on one track for each limiter.

    A layer without a time is an instant on a track of its own. Times are in microseconds.

    Source: Google, "Trace Event Format": complete events (``X``), instant events (``i``), metadata (``M``).

    >>> from perfmodel import network
    >>> report = network("ssim_4k_video", gpu="h200")
    >>> trace = trace_of(report)
    >>> [(event["ph"], event["name"]) for event in trace["traceEvents"]][-1]
    ('X', 'ssim')
    """
    tracks = {name: number for number, name in enumerate(dict.fromkeys(map(_track, report.layers)), 1)}
    events: list[dict[str, Any]] = [_named("process_name", 0, f"{report.title} on {report.gpu}")]
    for name, number in tracks.items():
        events += [_named("thread_name", number, name), _sorted_as(number)]
    now = 0.0
    for layer in report.layers:
        place = {"pid": _PROCESS, "tid": tracks[_track(layer)], "ts": microseconds(now)}
        event = {"name": layer.layer.name, "cat": layer.layer.kind.value, "args": _arguments(layer), **place}
        if layer.basis is TimeBasis.NONE:
            events.append(event | {"ph": "i", "s": "t"})
        else:
            events.append(event | {"ph": "X", "dur": microseconds(layer.seconds)})
        now += layer.seconds
    return {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"kernels": KERNELS, "fidelity": report.fidelity.value, "batch": report.batch},
    }


def _track(layer: LayerReport) -> str:
    return layer.limiter or TimeBasis.NONE.value


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": _PROCESS, "tid": track, "args": {"name": name}}


def _sorted_as(track: int) -> dict[str, Any]:
    return {"ph": "M", "name": "thread_sort_index", "pid": _PROCESS, "tid": track, "args": {"sort_index": track}}


def _arguments(layer: LayerReport) -> dict[str, Any]:
    """What a viewer shows of a layer that is clicked on."""
    found: dict[str, Any] = {"operation": layer.layer.operation, "basis": layer.basis.value}
    if layer.reason is not None:
        found["uncovered"] = layer.reason
    if layer.floors is not None:
        found |= {
            "dram_floor_us": microseconds(layer.floors.dram_s),
            "fp32_floor_us": microseconds(layer.floors.fp32_s),
        }
    if layer.best is not None:
        found |= {
            "kernel": layer.best.kernel,
            "config": plain(layer.best.configuration),
            "interval_us": interval_us(layer.best.time.interval_s),
        }
    return found
