"""Arrays that launches need and that no random numbers give: rows of a sparse matrix, a graph, neighbour lists.

An argument names one as a file, ``u64[65537]=@rows-65536-4-28.npy``; the name says how it is made, always alike.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError
from perfmodel.launch.element_type import ElementType

_NAMED = re.compile(r"^(?P<type>\w+).*=@(?P<name>(?P<kind>[a-z0-9]+)-(?P<numbers>[^/]*))\.npy$")
_NEIGHBOUR = np.dtype([("place", "i4", 3), ("number", "i4"), ("offset", "i8")])
_BOX = np.dtype(
    [("place", "i4", 3), ("number", "i4"), ("offset", "i8"), ("count", "i4"), ("pad", "i4"), ("list", _NEIGHBOUR, 26)]
)


def with_files(spec: str, folder: Path) -> str:
    """The spec with the path of its array, which is made where the folder does not have it; others as they are.

    Raises:
        InputError: nothing is made under such a name.
    """
    match = _NAMED.match(spec)
    if match is None:
        return spec
    element = np.dtype(np.uint8) if match["type"] == "struct" else ElementType(match["type"]).dtype
    path = folder / f"{match['type']}-{match['name']}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, made(match["kind"], match["numbers"], element))
    return spec.replace(f"@{match['name']}.npy", f"@{path}")


def made(kind: str, numbers: str, element: np.dtype[Any]) -> NDArray[Any]:
    """The array of a kind.

    ``rows-N-LOW-HIGH``: N + 1 offsets of rows that have LOW to HIGH elements each. ``pairs-N-LOW-HIGH``: first edge and number
    of edges of N nodes. ``multiples-N-STEP-TOP``: N multiples of STEP up to TOP. ``boxes-SIDE-PARTICLES``: boxes of a cube with
    their neighbours. ``values-a_b``, ``values32-a_b``: these as 32-bit integers or floating-point numbers.

    >>> made("rows", "3-2-2", np.dtype(np.int32)).tolist()
    [0, 2, 4, 6]
    """
    rng = np.random.default_rng(0)
    if kind == "values":
        return np.array([int(text) for text in numbers.split("_")], np.int32)
    if kind == "values32":
        return np.array([float(text) for text in numbers.split("_")], np.float32)
    sizes = [int(text) for text in numbers.split("-")]
    if kind == "rows":
        lengths = rng.integers(sizes[1], sizes[2], sizes[0], endpoint=True)
        return np.concatenate([[0], np.cumsum(lengths)]).astype(element)
    if kind == "pairs":
        edges = rng.integers(sizes[1], sizes[2], sizes[0], endpoint=True)
        return np.stack([np.cumsum(edges) - edges, edges], 1).astype(element).reshape(-1)
    if kind == "multiples":
        return (sizes[1] * rng.integers(0, sizes[2] // sizes[1], sizes[0], endpoint=True)).astype(element)
    if kind == "boxes":
        return _boxes(*sizes).view(np.uint8)
    raise InputError(f"no array of kind {kind!r} is made; known are rows, pairs, multiples, boxes, values, values32")


def _boxes(side: int, particles: int) -> NDArray[Any]:
    """Boxes in a cube, each with the up to 26 that touch it."""
    boxes = np.zeros(side**3, _BOX)
    places = list(product(range(side), repeat=3))
    number = {place: index for index, place in enumerate(places)}
    for index, place in enumerate(places):
        near = (tuple(np.add(place, step)) for step in product((-1, 0, 1), repeat=3) if any(step))
        neighbours = [number[other] for other in near if other in number]
        boxes[index]["place"], boxes[index]["number"], boxes[index]["offset"] = place, index, index * particles
        boxes[index]["count"] = len(neighbours)
        for slot, other in enumerate(neighbours):
            boxes[index]["list"][slot] = (places[other], other, other * particles)
    return boxes
