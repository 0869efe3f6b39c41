"""Networks as data files: the project's own, and a user's in the same form.

A file has ``title``, ``source`` and a table ``layer`` for each layer: ``name``; ``after``, the names of the layers whose results
it takes (left out: the layer before it; ``[]``: none); ``family`` with ``problem``, the fields of the family's problem without
``batch``; or, where no family covers it, ``operation`` with ``uncovered``, the reason, and where they are known ``kind``, the
``elements`` that it reads and writes and its ``flops``, both for one image.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..core.constants import FLOAT_BYTES
from ..core.documents import converted, nearest, parse_toml
from ..core.files import read_text
from ..errors import InputError
from ..families.problem_list import problem_of_fields
from ..families.registry import family
from .covering import describe
from .graph import Demand, Layer, LayerKind, Network, assemble

Amount = Annotated[int, Meta(ge=0)]


class LayerTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A layer with a family and its problem, or with its operation and why no family covers it."""

    name: str
    after: list[str] | None = None
    family: str | None = None
    problem: dict[str, Any] | None = None
    operation: str | None = None
    uncovered: str | None = None
    kind: LayerKind = LayerKind.OTHER
    elements: Amount = 0
    flops: Amount = 0


class NetworkTables(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A network for `perfmodel network FILE.toml`; ``source`` says where its layers come from."""

    title: str
    layer: list[LayerTable]
    source: str = ""


def network_names() -> tuple[str, ...]:
    """Names of the networks that come with the project, in alphabetical order.

    >>> "mobilenet_v1" in network_names()
    True
    """
    folder = resources.files("perfmodel.data").joinpath("networks")
    return tuple(sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml")))


def load_network(name_or_file: str, batch: int = 1) -> Network:
    """The network of a name, or of a file that ends in ``.toml``, with the batch put into every layer.

    Raises ``InputError`` for an unknown name (with the nearest ones), an unreadable file or a layer that is wrong.

    >>> load_network("mobilenet_v1", batch=32).layers[0].problem.batch
    32
    """
    if name_or_file.endswith(".toml"):
        path = Path(name_or_file)
        return _parse(path.stem, name_or_file, read_text(path), batch)
    if name_or_file not in network_names():
        near = nearest(name_or_file, network_names())
        raise InputError(f"unknown network {name_or_file!r}; {near}, or FILE.toml, FILE.onnx, FILE.py:MODULE")
    text = resources.files("perfmodel.data").joinpath("networks", f"{name_or_file}.toml").read_text(encoding="utf-8")
    return _parse(name_or_file, name_or_file, text, batch)


def _parse(name: str, origin: str, text: str, batch: int) -> Network:
    tables = converted(NetworkTables, parse_toml(text, origin), origin)
    return assemble(name, tables.title, batch, _layers(origin, tables.layer, batch))


def _layers(origin: str, tables: list[LayerTable], batch: int) -> Iterator[tuple[Layer, list[str]]]:
    before: list[str] = []
    for table in tables:
        yield _layer(f"{origin}: layer {table.name!r}", table, batch), before if table.after is None else table.after
        before = [table.name]


def _layer(where: str, table: LayerTable, batch: int) -> Layer:
    covered, uncovered = (table.family, table.problem), (table.operation, table.uncovered)
    if (None in covered) == (None in uncovered) or any(
        part is not None for part in (covered if None in covered else uncovered)
    ):
        raise InputError(f"{where}: needs either family and problem, or operation and uncovered")
    if table.problem is None:
        demand = Demand(dram_bytes=FLOAT_BYTES * batch * table.elements, flops=batch * table.flops)
        return Layer(
            name=table.name,
            operation=str(table.operation),
            uncovered=table.uncovered,
            kind=table.kind,
            demand=demand if table.elements or table.flops else None,
        )
    try:
        problem = problem_of_fields(family(str(table.family)), {"batch": batch, **table.problem})
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    described = describe(problem)
    return Layer(
        name=table.name,
        operation=described or " ".join(f"{name} {value}" for name, value in table.problem.items()),
        problem=problem,
        kind=LayerKind.CONVOLUTION if described else LayerKind.OTHER,
    )
