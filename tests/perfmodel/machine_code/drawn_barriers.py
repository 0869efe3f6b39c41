"""``mbarrier`` objects on drawn rounds of operations: the phases and counts that the PTX manual defines.

Four objects have drawn numbers of arrivals. In each round all threads do a drawn operation to one of them; then every thread
asks which parity is over. Operations of a round that come in any order give the same (PTX ISA, ``mbarrier``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.launch.launch import Launch

from .tensor_cases import Case

ROUNDS, OBJECTS, THREADS = 12, 4, 64
_ASYNCHRONOUS = ("expect", "complete", "arrive_expect", "arrive_many", "drop_many")
"""Operations since sm_90."""
OPERATIONS = ("arrive", "drop", "no_complete", "copy", "copy_no_increment", *_ASYNCHRONOUS)
_NOTHING = 99
ANYTHING = 99
"""Stands for a count that depends on the order of threads."""
_CODE = {
    "arrive": "mbarrier.arrive.shared.b64 state, [%2];",
    "drop": "mbarrier.arrive_drop.shared.b64 state, [%2];",
    "no_complete": "mbarrier.arrive.noComplete.shared.b64 state, [%2], %3;",
    "copy": "cp.async.mbarrier.arrive.shared.b64 [%2];",
    "copy_no_increment": "cp.async.mbarrier.arrive.noinc.shared.b64 [%2];",
    "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%2], %3;",
    "complete": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%2], %3;",
    "arrive_expect": "mbarrier.arrive.expect_tx.shared::cta.b64 state, [%2], %3;",
    "arrive_many": "mbarrier.arrive.shared::cta.b64 state, [%2], %3;",
    "drop_many": "mbarrier.arrive_drop.shared::cta.b64 state, [%2], %3;",
}
_GIVES_STATE = frozenset({"arrive", "drop", "no_complete", "arrive_expect", "arrive_many", "drop_many"})


@dataclass(slots=True)
class _Object:
    """An ``mbarrier`` as the manual describes it."""

    expected: int
    pending: int
    owed: int = 0
    phase: int = 0

    def after(self, arrivals: int, owed: int, drops: int) -> None:
        """Arrivals and bytes of a whole round."""
        self.pending -= arrivals
        self.owed += owed
        self.expected -= drops
        if self.pending == 0 and self.owed == 0:
            self.phase ^= 1
            self.pending = self.expected


def source(architecture: str) -> str:
    """The kernel, with the operations that the architecture has."""
    known = _operations(architecture)
    lines = [
        'extern "C" __global__ void k(unsigned *out, unsigned *counts, const unsigned *arrivals, const unsigned *operation,',
        "    const unsigned *object, const unsigned *number)",
        "{",
        f"    __shared__ alignas(8) unsigned long long barriers[{OBJECTS}];",
        "    const unsigned t = threadIdx.x, first = (unsigned)__cvta_generic_to_shared(barriers);",
        f"    if (t < {OBJECTS})",
        '        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(first + 8 * t), "r"(arrivals[t]) : "memory");',
        "    __syncthreads();",
        "    #pragma unroll 1",
        f"    for (unsigned r = 0; r < {ROUNDS}; r++) {{",
        f"        const unsigned i = {THREADS} * r + t, at = first + 8 * object[i], n = number[i];",
        "        unsigned pending = 0;",
        "        unsigned long long state;",
        "        switch (operation[i]) {",
    ]
    for k, name in enumerate(known):
        code = _CODE[name]
        count = "mbarrier.pending_count.b64 %0, state;" if name in _GIVES_STATE else ""
        lines += [
            f'        case {k}: asm volatile("{{ .reg .b64 state; mov.b64 state, 0; {code} {count} mov.b64 %1, state; }}"',
            '            : "+r"(pending), "=l"(state) : "r"(at), "r"(n) : "memory"); break;',
        ]
    test = "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
    lines += [
        "        }",
        "        counts[i] = pending;",
        "        __syncthreads();",
        "        unsigned over = 0, is;",
        f"        for (unsigned k = 0; k < {2 * OBJECTS}; k++) {{",
        f'            asm volatile("{{ .reg .pred p; {test} selp.u32 %0, 1, 0, p; }}" : "=r"(is)',
        '                         : "r"(first + k / 2 * 8), "r"(k & 1) : "memory");',
        "            over |= is << k;",
        "        }",
        "        out[i] = over;",
        "        __syncthreads();",
        "    }",
        "}",
    ]
    return "\n".join(lines)


def _operations(architecture: str) -> tuple[str, ...]:
    new = int(architecture.removeprefix("sm_")) >= 90
    return tuple(name for name in OPERATIONS if new or name not in _ASYNCHRONOUS)


def _parts(random: np.random.Generator, total: int, threads: int) -> list[int]:
    """A drawn number of threads that share a total, each with one or more of it."""
    count = int(random.integers(1, min(total, threads) + 1))
    if random.integers(0, 3) == 0:
        count = 1
    cuts = np.sort(random.choice(np.arange(1, total), count - 1, replace=False)) if count > 1 else np.zeros(0, np.int64)
    return [int(part) for part in np.diff(np.concatenate(([0], cuts, [total])))]


def case(seed: int, architecture: str) -> Case:
    """Rounds of operations and what they must give."""
    random = np.random.default_rng(seed)
    known = _operations(architecture)
    objects = [_Object(expected=n, pending=n) for n in random.integers(2, 60, OBJECTS).tolist()]
    arrivals = np.array([o.expected for o in objects], np.uint32)
    operation = np.full((ROUNDS, THREADS), _NOTHING, np.uint32)
    which, number = np.zeros((2, ROUNDS, THREADS), np.uint32)
    out, counts = np.zeros((2, ROUNDS, THREADS), np.uint32)
    for r in range(ROUNDS):
        threads = random.permutation(THREADS)
        for k, one in enumerate(objects):
            own = threads[k * THREADS // OBJECTS : (k + 1) * THREADS // OBJECTS]
            name = str(random.choice(known))
            if name == "complete" and one.owed == 0:
                name = "expect"
            if name == "copy" and (operation[r] == known.index("copy")).any() and "expect" not in known:
                name = "arrive"  # before sm_90 the compiler makes one addition of those of a warp, for one object
            single = name in ("arrive", "drop", "copy_no_increment", "arrive_expect")
            dropped = name.startswith("drop")
            # who drops out must leave somebody; without completion somebody must be left to arrive
            most = min(one.pending, one.expected - 1 if dropped else one.pending) - (name == "no_complete")
            if name in ("copy", "expect", "complete"):
                most = {"copy": len(own), "expect": 4096, "complete": one.owed}[name]
            if most < 1 or one.pending == 0:
                continue
            total = int(min(most, random.choice([most, int(random.integers(1, most + 1))])))
            total = min(total, len(own)) if single or name == "copy" else total
            parts = [1] * total if single or name == "copy" else _parts(random, total, len(own))
            here = own[: len(parts)]
            operation[r, here], which[r, here], number[r, here] = known.index(name), k, parts
            if len(here) == 1 and name in _GIVES_STATE:
                counts[r, here] = one.pending
            elif name in _GIVES_STATE:
                counts[r, here] = ANYTHING
            owed = 0
            if name == "arrive_expect":
                bytes_ = random.integers(1, 1000, len(here))
                number[r, here], owed = bytes_, int(bytes_.sum())
            elif name in ("expect", "complete"):
                owed = total if name == "expect" else -total
            arrived = 0 if name in ("copy", "expect", "complete") else total
            one.after(arrived, owed, arrived if dropped else 0)
        # the phase that is over has the other parity than the one that goes on
        out[r] = sum(1 << 2 * k + (1 ^ one.phase) for k, one in enumerate(objects))
    return Case(
        name="barriers",
        source=source(architecture),
        launch=Launch(grid_x=1, block_x=THREADS),
        arguments={
            "out": np.zeros_like(out),
            "counts": np.zeros_like(counts),
            "arrivals": arrivals,
            "operation": operation,
            "object": which,
            "number": number,
        },
        expected={"out": out, "counts": counts},
    )
