"""A sheet for one's own card from what NVIDIA's tools print of it: ``deviceQuery``, or ``nvidia-smi -q``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InputError
from .catalogue import gpu_id_of_device, gpu_ids, load_gpu
from .gpu import Gpu

_MIB = 2**20
_GEFORCE = "GeForce"
_TRANSFERS_PER_CYCLE = 2
"""Both tools print the clock of a memory that transfers on both edges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardReport:
    """What a tool says of one card; None where it does not."""

    tool: str
    name: str
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    boost_clock_hz: float | None = None
    l2_bytes: int | None = None
    dram_bytes: int | None = None
    dram_bytes_per_s: float | None = None


def read_card(text: str, origin: str) -> CardReport:
    """What the output of a tool says of the first card in it.

    Raises:
        InputError: it is neither an output of ``deviceQuery`` nor of ``nvidia-smi -q``.

    >>> text = 'Device 0: "NVIDIA X"' + chr(10) + "  L2 Cache Size:   4194304 bytes" + chr(10)
    >>> read_card(text, "out.txt").l2_bytes
    4194304
    """
    query = re.search(r'^\s*Device \d+: "(?P<name>[^"]+)"', text, re.MULTILINE)
    if query:
        return _device_query(query["name"].strip(), _first_device(text[query.end() :]))
    name = re.search(r"^\s*Product Name\s*:\s*(?P<name>.+?)\s*$", text, re.MULTILINE)
    if name:
        return _nvidia_smi(name["name"], text[name.end() :].partition("Product Name")[0])
    raise InputError(f"{origin}: is neither an output of deviceQuery nor of nvidia-smi -q; no line names a GPU")


def _first_device(text: str) -> str:
    return re.split(r'^\s*Device \d+: "', text, maxsplit=1, flags=re.MULTILINE)[0]


def _device_query(name: str, text: str) -> CardReport:
    capability = re.search(r"CUDA Capability[^:]*:\s*(\d+)\.(\d+)", text)
    memory_hz = _number(text, r"Memory Clock rate:\s*([\d.]+)\s*Mhz")
    bus_bits = _number(text, r"Memory Bus Width:\s*([\d.]+)-bit")
    bandwidth = None
    if memory_hz and bus_bits:
        bandwidth = memory_hz * 1e6 * _TRANSFERS_PER_CYCLE * bus_bits / 8
    return CardReport(
        tool="deviceQuery",
        name=name,
        compute_capability=(int(capability[1]), int(capability[2])) if capability else None,
        sm_count=_integer(text, r"\(\s*(\d+)\s*\)\s*Multiprocessors"),
        boost_clock_hz=_scaled(_number(text, r"GPU (?:Max )?Clock rate:\s*([\d.]+)\s*MHz"), 1e6),
        l2_bytes=_integer(text, r"L2 Cache Size:\s*(\d+) bytes"),
        dram_bytes=_integer(text, r"Total amount of global memory:.*?\((\d+) bytes\)"),
        dram_bytes_per_s=bandwidth,
    )


def _nvidia_smi(name: str, text: str) -> CardReport:
    memory = re.search(r"FB Memory Usage.*?Total\s*:\s*(\d+) MiB", text, re.DOTALL)
    boost = re.search(r"Max Customer Boost Clocks\s*\n\s*Graphics\s*:\s*(\d+) MHz", text)
    return CardReport(
        tool="nvidia-smi -q",
        name=name,
        boost_clock_hz=float(boost[1]) * 1e6 if boost else None,
        dram_bytes=int(memory[1]) * _MIB if memory else None,
    )


def _number(text: str, pattern: str) -> float | None:
    found = re.search(pattern, text, re.IGNORECASE)
    return float(found[1]) if found else None


def _integer(text: str, pattern: str) -> int | None:
    found = _number(text, pattern)
    return None if found is None else int(found)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def base_of(card: CardReport) -> str:
    """The id of the shipped GPU that a card is most like.

    It is the one of its name, else that of its compute capability and kind (GeForce or not) nearest in SMs.

    Raises:
        InputError: the tool does not say enough; the message says what to give instead.
    """
    try:
        return gpu_id_of_device(card.name)
    except InputError:
        pass
    choice = "name the GPU that it is most like by --base"
    if card.compute_capability is None or card.sm_count is None:
        raise InputError(
            f"no shipped GPU is called {card.name!r}, and {card.tool} does not say how many SMs it has; "
            f"give an output of deviceQuery, or {choice}"
        )
    major, minor = card.compute_capability
    alike = [gpu for gpu in map(load_gpu, gpu_ids()) if gpu.architecture.compute_capability == (major, minor)]
    if not alike:
        known = sorted({gpu.architecture.name for gpu in map(load_gpu, gpu_ids())})
        raise InputError(f"no shipped GPU is of compute capability {major}.{minor} ({', '.join(known)}); {choice}")
    sm_count, is_geforce = card.sm_count, _GEFORCE in card.name
    return min(alike, key=lambda gpu: ((_GEFORCE in gpu.name) != is_geforce, abs(gpu.sm_count - sm_count), gpu.id)).id


def card_sheet(card: CardReport, base_id: str, origin: str) -> str:
    """The text of a sheet for a card above a shipped GPU: what the tool says, and what follows from it.

    The rates of L2 and DRAM that nobody measured on the card are the base's in the ratio of sizes and clocks, and say so.
    """
    base = load_gpu(base_id)
    source = f"{card.tool} on this GPU ({origin})"
    facts: list[tuple[str, str, str]] = []

    def add(field: str, value: float | int | None, text: str = source) -> None:
        if value is not None and value != getattr(base, field):
            facts.append((field, f"{value:_}" if isinstance(value, int) else f"{value:.6g}", text))

    add("sm_count", card.sm_count)
    add("boost_clock_hz", card.boost_clock_hz)
    if card.boost_clock_hz is not None and card.boost_clock_hz < base.base_clock_hz:
        add("base_clock_hz", card.boost_clock_hz, "derived: no more than the boost clock")
    add("l2_bytes", card.l2_bytes)
    if card.l2_bytes is not None:
        add("instruction_cache_l2_bytes", card.l2_bytes, "derived: instructions share the L2 with data")
    add(
        "l2_read_bytes_per_s",
        _scaled_l2_rate(card, base),
        f"derived: {base.id} · the ratios of the L2 sizes and of the clocks",
    )
    add("dram_bytes", card.dram_bytes)
    add("dram_bytes_per_s", card.dram_bytes_per_s)
    if card.dram_bytes_per_s is not None and card.dram_bytes_per_s != base.dram_bytes_per_s:
        reached = base.dram_read_bytes_per_s / base.dram_bytes_per_s
        add(
            "dram_read_bytes_per_s",
            card.dram_bytes_per_s * reached,
            f"derived: the fraction of the peak that {base.id} reaches",
        )
    lines = [f'{field} = {{ value = {value}, source = "{text}" }}' for field, value, text in facts]
    names = [_quoted("base", base.id), _quoted("name", card.name), f"device_names = [{_quoted('', card.name)}]"]
    return "\n".join([*names, "", *lines]) + "\n"


def _scaled_l2_rate(card: CardReport, base: Gpu) -> float | None:
    """What L2 of a card delivers, or None where it is the base's."""
    size = 1.0 if card.l2_bytes is None else card.l2_bytes / base.l2_bytes
    clock = 1.0 if card.boost_clock_hz is None else card.boost_clock_hz / base.boost_clock_hz
    return None if size * clock == 1.0 else base.l2_read_bytes_per_s * size * clock


def _quoted(key: str, text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{key} = "{escaped}"' if key else f'"{escaped}"'
