"""What the service's tools take, as records with JSON Schemas; what they give is what the commands print with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..cli.json_schema import json_schema
from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity

Size = Annotated[int, Meta(ge=1)]
Sizes = Annotated[list[Size], Meta(min_length=1, max_length=3)]
GpuName = Annotated[str, Meta(min_length=1, description="Name of a GPU, as the tool gpus lists them, or a .toml file.")]
Values = dict[str, str | int | float | bool | None]
L2 = Annotated[L2State, Meta(description="What the L2 holds when the kernel starts.")]
Clock = Annotated[float, Meta(gt=0, description="SM clock in MHz; the boost clock where it is left out.")]


class GpusRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List the GPUs that are known, or give every value of one with its source and what it inherits."""

    name: Annotated[str, Meta(description="One GPU; all in short where it is left out.")] | None = None


class AnalyzeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Compile one kernel, execute one launch on the CPU and predict its time on a GPU: counts, registers, occupancy, faults.

    Files are relative to the folder that the service was started for; nothing outside it is read.
    """

    gpu: GpuName
    arguments: Annotated[
        list[str | int | float],
        Meta(
            description="One for each parameter: f32[1048576], f32[64]=0, i32[1000]=0..999, f32[64]=@file.npy, i32=512, 0.5."
        ),
    ]
    grid: Annotated[Sizes, Meta(description="Blocks along x, y, z.")]
    block: Annotated[Sizes, Meta(description="Threads of a block along x, y, z.")]
    file: Annotated[str, Meta(description="CUDA C++ or PTX file, or a binary; or give source.")] | None = None
    source: Annotated[str, Meta(description="The CUDA C++ source itself, in place of a file.")] | None = None
    kernel: (
        Annotated[
            str, Meta(description="The kernel's name, or a template such as conv<5,2>; a file with one needs none.")
        ]
        | None
    ) = None
    cluster: Sizes | None = None
    shared_bytes: Annotated[int, Meta(ge=0, description="Dynamic shared memory.")] | None = None
    defines: Annotated[dict[str, str | int], Meta(description="Macros.")] = {}
    include: Annotated[list[str], Meta(description="Folders of headers.")] = []
    contents: Annotated[dict[str, str], Meta(description="What module-scope arrays hold, as specs of arguments.")] = {}
    lines: Annotated[bool, Meta(description="List the memory instructions by source line.")] = False
    l2: L2 = L2State.COLD
    sm_clock_mhz: Clock | None = None


class RankRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rank the configurations of a kernel family for a problem, or of a CUDA file over its tuning space, fastest first."""

    gpu: GpuName
    family: Annotated[str, Meta(description="direct_conv2d, tiled_conv2d, pointwise_conv2d, conv1d, ssim …")] | None = (
        None
    )
    problem: Annotated[Values, Meta(description="Sizes of the family's problem by name; defaults for the others.")] = {}
    file: Annotated[str, Meta(description="A CUDA file, with space, in place of a family.")] | None = None
    space: Annotated[str, Meta(description="The TOML file of its tuning space.")] | None = None
    top: Annotated[int, Meta(ge=1, le=1000, description="How many configurations to give.")] = 10
    fidelity: Annotated[Fidelity, Meta(description="Where counts and registers come from.")] = Fidelity.COMPILED
    l2: L2 = L2State.COLD
    sm_clock_mhz: Clock | None = None


class PredictRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Predict one configuration of a kernel family; fields that are not set are those of the analytic best."""

    gpu: GpuName
    family: str
    problem: Annotated[Values, Meta(description="Sizes of the family's problem by name; defaults for the others.")] = {}
    configuration: Annotated[Values, Meta(description="Fields of the configuration by name.")] = {}
    fidelity: Annotated[Fidelity, Meta(description="Where counts and registers come from.")] = Fidelity.COMPILED
    l2: L2 = L2State.COLD
    sm_clock_mhz: Clock | None = None


Request = GpusRequest | AnalyzeRequest | RankRequest | PredictRequest
TOOLS: Mapping[str, type[Struct]] = MappingProxyType(
    {"gpus": GpusRequest, "analyze": AnalyzeRequest, "rank": RankRequest, "predict": PredictRequest}
)
"""The tools by name, with what they take."""
_OUTPUTS = {"analyze": "analyze", "rank": "rank", "predict": "predict"}


def description(tool: str) -> str:
    """What a tool does, in the words of its request."""
    return " ".join((TOOLS[tool].__doc__ or "").split())


def input_schema(tool: str) -> dict[str, Any]:
    """The JSON Schema of what a tool takes.

    >>> input_schema("gpus")["type"], sorted(input_schema("predict")["required"])
    ('object', ['family', 'gpu'])
    """
    return _flat(msgspec.json.schema(TOOLS[tool]))


def output_schema(tool: str) -> dict[str, Any] | None:
    """The JSON Schema of what a tool gives, that of the command with ``--json``; None where it has two forms."""
    return _flat(json_schema(_OUTPUTS[tool])) if tool in _OUTPUTS else None


def _flat(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose root is the object itself and not a reference to it, as the protocol asks for."""
    definitions = dict(schema["$defs"])
    root = definitions.pop(schema["$ref"].rsplit("/", 1)[1])
    return {**root, **({"$defs": definitions} if definitions else {})}
