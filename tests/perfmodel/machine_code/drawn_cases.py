"""Kernels of copies, barriers, matrices, textures and jumps on drawn operands against what NumPy says that they give.

Run as a module for more of them: ``python -m tests.perfmodel.machine_code.drawn_cases --seeds 50``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.profiles.totals import counted_run

from . import drawn_barriers, drawn_bulk_copies, drawn_textures
from .differential import compiled
from .tensor_cases import Case, drawn_wgmma, matrices_case


@dataclass(frozen=True, kw_only=True)
class Group:
    """Drawn cases by seed and architecture, with how far outputs may be from what is expected; and what compiles them."""

    case: Callable[[int, str], tuple[Case, float]]
    architectures: tuple[str, ...]


CONTROL = """
extern "C" __global__ void k(unsigned *out, const unsigned *in)
{
    const unsigned t = threadIdx.x, x = in[t];
    unsigned r = 0;
    switch (x & 7) {
#define CASE(n, what) case n: asm volatile(what : "=r"(r) : "r"(x), "r"(t)); break;
        CASE(0, "add.u32 %0, %1, %2;") CASE(1, "sub.u32 %0, %1, %2;") CASE(2, "mul.lo.u32 %0, %1, %2;")
        CASE(3, "and.b32 %0, %1, %2;") CASE(4, "or.b32 %0, %1, %2;") CASE(5, "xor.b32 %0, %1, %2;")
        CASE(6, "max.u32 %0, %1, %2;") CASE(7, "min.u32 %0, %1, %2;")
    }
    out[t] = r;
#if __CUDA_ARCH__ >= 900
    const unsigned mask = __ballot_sync(~0u, x & 64);
    unsigned leader = 0, is = 0;
    if (x & 64) {
        asm volatile("{ .reg .pred p; elect.sync %0|p, %2; selp.u32 %1, 1, 0, p; }" : "=r"(leader), "=r"(is) : "r"(mask));
        // one lane of those that are there, the same for all
        is = __popc(__ballot_sync(mask, is)) == 1 && __shfl_sync(mask, is, leader) && (mask >> leader & 1);
    }
    out[64 + t] = is;
#endif
}
"""


def _control(seed: int, architecture: str) -> tuple[Case, float]:
    """Jumps through a table and the election of a lane."""
    x = np.random.default_rng(seed).integers(0, 2**32, 64, dtype=np.uint32)
    t = np.arange(64, dtype=np.uint32)
    found = np.choose(x & 7, [x + t, x - t, x * t, x & t, x | t, x ^ t, np.maximum(x, t), np.minimum(x, t)])
    elected = (x >> 6 & 1) * (int(architecture.removeprefix("sm_")) >= 90)
    case = Case(
        name="control",
        source=CONTROL,
        launch=Launch(grid_x=1, block_x=64),
        arguments={"out": np.zeros(128, np.uint32), "in": x},
        expected={"out": np.concatenate([found, elected])},
    )
    return case, 0.0


_EVERY = ("sm_75", "sm_90", "sm_120")
GROUPS: Mapping[str, Group] = {
    "control": Group(case=_control, architectures=_EVERY),
    "matrices": Group(case=lambda seed, name: (matrices_case(name, seed), 0.0), architectures=_EVERY),
    "wgmma": Group(case=lambda seed, _: (drawn_wgmma(seed), 0.0), architectures=("sm_90",)),
    "barriers": Group(
        case=lambda seed, name: (drawn_barriers.case(seed, name), 0.0), architectures=("sm_80", "sm_90", "sm_120")
    ),
    "bytes": Group(case=lambda seed, _: (drawn_bulk_copies.bytes_case(seed), 0.0), architectures=("sm_90",)),
    **{
        f"boxes of {rank} axes": Group(
            case=partial(lambda rank, seed, _: (drawn_bulk_copies.tensors_case(seed, rank), 0.0), rank),
            architectures=("sm_90", "sm_120") if rank == 2 else ("sm_90",),
        )
        for rank in drawn_bulk_copies.RANKS
    },
    **{
        f"texture: {kind}": Group(
            case=partial(lambda kind, seed, _: drawn_textures.case(seed, kind), kind), architectures=("sm_90",)
        )
        for kind in drawn_textures.CALLS
    },
    **{
        f"surface: {kind}": Group(
            case=partial(lambda kind, seed, _: (drawn_textures.surface_case(seed, kind), 0.0), kind),
            architectures=("sm_90",),
        )
        for kind in drawn_textures.SURFACES
    },
}


def check(name: str, architecture: str, seed: int) -> frozenset[str]:
    """Draw a case of a group and compare all its outputs; gives the opcodes of its kernel."""
    case, tolerance = GROUPS[name].case(seed, architecture)
    code = compiled(case.source, architecture)[2]
    run = counted_run(code, case.launch, KernelCall(parameters=case.parameters))
    for key, values in case.expected.items():
        kind = case.arguments[key].dtype if isinstance(case.arguments.get(key), np.ndarray) else values.dtype
        actual = np.ascontiguousarray(run.outputs[key]).reshape(-1).view(kind)
        wanted = np.asarray(values).reshape(-1)
        if tolerance or kind.kind == "f":
            wrong = np.flatnonzero(np.abs(actual.astype(np.float64) - wanted) > tolerance)
        else:
            wrong = np.flatnonzero(
                (actual != wanted) & (wanted != drawn_barriers.ANYTHING if key == "counts" else True)
            )
        shown = [(int(k), actual[k].item(), wanted[k].item()) for k in wrong[:6]]
        assert not len(wrong), f"{case.name} on {architecture}, seed {seed}: {len(wrong)} of {key} are wrong: {shown}"
    return frozenset(i.name for i in code.instructions)


def main() -> None:
    """Draw many cases of every group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=30, help="launches of each group and architecture")
    chosen = parser.parse_args()
    for name, group in GROUPS.items():
        for architecture in group.architectures:
            for seed in range(chosen.seeds):
                check(name, architecture, seed)
        print(f"{name}: {chosen.seeds} launches on {' '.join(group.architectures)} gave what NumPy does")


if __name__ == "__main__":
    main()
