"""Memory, atomics, warps, barriers and copies on drawn operands: what PTX defines, in plain Python, against machine code.

Each group is a kernel of one block of 64 threads with inputs drawn from a seed, and the bits of all its outputs.
Run as a module for more seeds: ``python -m tests.perfmodel.machine_code.drawn_memory --seeds 50``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.totals import counted_run

from .differential import compiled
from .operations import LONG, WORD, signed

Array = NDArray[Any]
Arrays = Mapping[str, Array]
THREADS, WARP = 64, 32
SLOT = 64
"""Bytes that belong to one thread."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Drawn cases of some opcodes: source by compute capability (times ten), inputs by a generator, and what they give.

    The outputs' names come first among the kernel's parameters.
    """

    source: Callable[[int], str]
    inputs: Callable[[np.random.Generator], dict[str, Array]]
    expected: Callable[[Arrays, int], dict[str, Array]]
    since: int = 75


def _kernel(parameters: str, body: str) -> str:
    return f'extern "C" __global__ void k({parameters})\n{{\n    const unsigned t = threadIdx.x, lane = t & 31;\n{body}\n}}\n'


def _asm(code: str, outputs: Sequence[str], inputs: Sequence[str]) -> str:
    return f'asm volatile("{code}" : {", ".join(outputs)} : {", ".join(inputs)} : "memory");'


def _guarded(code: str, guard: int) -> str:
    """PTX under a predicate that the operand of this number gives."""
    return f"{{ .reg .pred p; setp.ne.u32 p, %{guard}, 0; @p {code} }}"


# ---- loads and stores


@dataclass(frozen=True)
class _Form:
    """A type of access: its place in a thread's slot, its bytes, and the registers of its value."""

    name: str
    place: int
    width: int
    registers: str


FORMS = (
    _Form("u8", 1, 1, "r"),
    _Form("s8", 1, 1, "r"),
    _Form("u16", 2, 2, "r"),
    _Form("s16", 2, 2, "r"),
    _Form("b32", 4, 4, "r"),
    _Form("b64", 8, 8, "l"),
    _Form("v2.b32", 16, 8, "rr"),
    _Form("v4.b32", 32, 16, "rrrr"),
    _Form("v2.b64", 48, 16, "ll"),
)
SPACES = ("global", "shared", "generic", "mixed", "local")
"""Where loads and stores go; generic ones to global memory, or (``mixed``) to shared memory for some lanes."""
_UNTOUCHED = 0x5A5A5A5A


def _operand(count: int, first: int) -> str:
    names = [f"%{first + k}" for k in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def _load(form: _Form, space: str, number: int) -> str:
    count = len(form.registers)
    code = f"ld{'' if space in ('generic', 'mixed') else f'.{space}'}.{form.name} {_operand(count, 0)}, "
    code += f"[%{count} + {form.place}];"
    outputs = [f'"+{kind}"({"vw"[kind == "l"]}[{k}])' for k, kind in enumerate(form.registers)]
    address = f'"{"r" if space in ("shared", "local") else "l"}"({space}_at)'
    lines = ["unsigned v[4]; unsigned long long w[2];"]
    lines += [f"for (int i = 0; i < 4; i++) v[i] = w[i & 1] = {_UNTOUCHED}u;"]
    lines += [_asm(_guarded(code, count + 1), outputs, [address, '"r"(guard[t])'])]
    words = [f"{'vw'[kind == 'l']}[{k}]" for k, kind in enumerate(form.registers)]
    lines += [f"loaded[({4 * number} + {k}) * {THREADS} + t] = {word};" for k, word in enumerate(words)]
    return "    { " + " ".join(lines) + " }"


def _store(form: _Form, space: str) -> str:
    count = len(form.registers)
    code = f"st{'' if space in ('generic', 'mixed') else f'.{space}'}.{form.name} "
    code += f"[%{count} + {form.place}], {_operand(count, 0)};"
    values = [
        f'"{kind}"({"values" if kind == "l" else "(unsigned)values"}[{2 * k} * {THREADS} + t])'
        for k, kind in enumerate(form.registers)
    ]
    address = f'"{"r" if space in ("shared", "local") else "l"}"({space}_to)'
    return "    " + _asm(_guarded(code, count + 1), [], [*values, address, '"r"(guard[t])'])


def _accesses_source(_: int) -> str:
    size = THREADS * SLOT
    lines = [
        f"    __shared__ alignas(16) unsigned char from[{size}], to[2][{size}];",
        f"    alignas(16) unsigned char own[{2 * SLOT}];",
        f"    for (unsigned i = t; i < {size}; i += {THREADS}) {{ from[i] = in[i]; to[0][i] = to[1][i] = 0; }}",
        f"    for (unsigned i = 0; i < {2 * SLOT}; i++) own[i] = i < {SLOT} ? in[{SLOT} * slot[t] + i] : 0;",
        "    __syncthreads();",
        f"    const unsigned at = {SLOT} * slot[t];",
        "    const bool here = guard[t] & 2;",
        "    const unsigned char *global_at = in + at, *generic_at = in + at, *mixed_at = here ? from + at : in + at;",
        f"    unsigned char *global_to = stored + at, *generic_to = stored + {size} + at;",
        f"    unsigned char *mixed_to = here ? to[1] + at : stored + {3 * size} + at;",
        "    const unsigned shared_at = __cvta_generic_to_shared(from + at), shared_to = __cvta_generic_to_shared(to[0] + at);",
        f"    const unsigned local_at = __cvta_generic_to_local(own), local_to = local_at + {SLOT};",
        '    unsigned is; asm("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(is) : "l"(mixed_at));',
        "    spaces[t] = is;",
    ]
    lines += [_load(form, s, len(FORMS) * n + k) for n, s in enumerate(SPACES) for k, form in enumerate(FORMS)]
    lines += [_store(form, space) for space in SPACES for form in FORMS if form.name[0] != "s"]
    lines += [
        "    __syncthreads();",
        f"    for (unsigned i = t; i < {size}; i += {THREADS}) {{",
        f"        stored[{2 * size} + i] = to[0][i];",
        f"        stored[{4 * size} + i] = to[1][i];",
        "    }",
        f"    for (unsigned i = 0; i < {SLOT}; i++) stored[{5 * size} + at + i] = own[{SLOT} + i];",
    ]
    parameters = "unsigned long long *loaded, unsigned char *stored, unsigned *spaces, const unsigned char *in, "
    parameters += "const unsigned long long *values, const unsigned *slot, const unsigned *guard"
    return _kernel(parameters, "\n".join(lines))


def _accesses_inputs(random: np.random.Generator) -> dict[str, Array]:
    return {
        "in": random.integers(0, 256, THREADS * SLOT, dtype=np.uint8),
        "values": random.integers(0, 2**64, 8 * THREADS, dtype=np.uint64),
        "slot": random.permutation(THREADS).astype(np.uint32),
        "guard": random.integers(0, 4, THREADS, dtype=np.uint32),
    }


def _accesses_expected(given: Arrays, _: int) -> dict[str, Array]:
    size, data = THREADS * SLOT, given["in"]
    loaded = np.zeros((len(SPACES) * len(FORMS), 4, THREADS), np.uint64)
    stored = np.zeros((6, size), np.uint8)
    place = {"global": 0, "generic": 1, "shared": 2, "local": 5}
    for t in range(THREADS):
        at, held = SLOT * int(given["slot"][t]), int(given["guard"][t])
        for n, space in enumerate(SPACES):
            for k, form in enumerate(FORMS):
                each = form.width // len(form.registers)
                words = data[at + form.place : at + form.place + form.width].reshape(-1, each)
                numbers = [int.from_bytes(word.tobytes(), "little", signed=form.name[0] == "s") for word in words]
                for register, number in enumerate(numbers):
                    value = number % 2**32 if form.registers[0] == "r" else number
                    loaded[len(FORMS) * n + k, register, t] = value if held else _UNTOUCHED
                if held and form.name[0] != "s":
                    target = stored[4 if held & 2 else 3] if space == "mixed" else stored[place[space]]
                    for register in range(len(words)):
                        bits = int(given["values"][2 * register * THREADS + t]).to_bytes(8, "little")[:each]
                        start = at + form.place + each * register
                        target[start : start + each] = np.frombuffer(bits, np.uint8)
    return {
        "loaded": loaded.reshape(-1),
        "stored": stored.reshape(-1),
        "spaces": (given["guard"] >> 1).astype(np.uint32),
    }


# ---- atomics

Step = Callable[[int, int, int], int]
"""New contents of a cell by its contents and two operands."""


def _whole(bits: int) -> Callable[[int], float]:
    kind = {32: np.float32, 64: np.float64}[bits]
    return lambda x: float(np.array([x], f"u{bits // 8}").view(kind)[0])


def _bits(value: float, bits: int) -> int:
    kind = {32: np.float32, 64: np.float64}[bits]
    return int(np.array([value], kind).view(f"u{bits // 8}")[0])


def _halves_added(a: int, b: int) -> int:
    one, other = (np.array([x], np.uint32).view(np.float16) for x in (a, b))
    return int((one + other).view(np.uint32)[0])


def _atomics() -> list[tuple[str, str, int, Step]]:
    """Operation, type, bits and step of each atomic."""
    found: list[tuple[str, str, int, Step]] = []
    for bits in (32, 64):
        for name, step in (
            ("and", lambda c, x, y: c & x),
            ("or", lambda c, x, y: c | x),
            ("xor", lambda c, x, y: c ^ x),
            ("exch", lambda c, x, y: x),
            ("cas", lambda c, x, y: y if c == x else c),
        ):
            found.append((name, f"b{bits}", bits, step))
        found.append(("add", f"u{bits}", bits, lambda c, x, y: c + x))
        for kind in "us":
            value = (lambda v, b=bits: signed(v, b)) if kind == "s" else int
            found.append(("min", f"{kind}{bits}", bits, lambda c, x, y, v=value: min(c, x, key=v)))
            found.append(("max", f"{kind}{bits}", bits, lambda c, x, y, v=value: max(c, x, key=v)))
        add: Step = lambda c, x, y, b=bits: _bits(_whole(b)(c) + _whole(b)(x), b)  # type: ignore[misc]  # noqa: E731
        found.append(("add", f"f{bits}", bits, add))
    found.append(("inc", "u32", 32, lambda c, x, y: 0 if c >= x else c + 1))
    found.append(("dec", "u32", 32, lambda c, x, y: x if c == 0 or c > x else c - 1))
    found.append(("add.noftz", "f16x2", 32, lambda c, x, y: _halves_added(c, x)))
    return found


ATOMICS = _atomics()
CELLS = 4


def _returns(space: str, operation: str, bits: int) -> bool:
    """Whether a lane's result is that of all lanes in order: compilers make loops of others, which some lanes leave at once."""
    return space == "global" or bits == 32 or operation not in ("min", "max")


def _atomic(space: str, number: int) -> list[str]:
    operation, kind, bits, _ = ATOMICS[number]
    register, name = ("r", "unsigned") if bits == 32 else ("l", "unsigned long long")
    address = f'"{"r" if space == "shared" else "l"}"({space}_cells + 8 * ({CELLS * number} + cell[t]))'
    operands = [f'"{register}"(({name})a[{number} * {THREADS} + t])']
    operands += [f'"{register}"(({name})b[{number} * {THREADS} + t])'] if operation == "cas" else []
    values = ", ".join(f"%{2 + k}" for k in range(len(operands)))
    last = 2 + len(operands)
    atom = f"atom.{space}.{operation}.{kind} %0, [%1], {values};"
    if not _returns(space, operation, bits):
        atom = f"red.{space}.{operation}.{kind} [%1], {values};"
    lines = [
        f"    {{ {name} old = {_UNTOUCHED}u; "
        + _asm(_guarded(atom, last), [f'"+{register}"(old)'], [address, *operands, '"r"(guard[t])'])
        + f" before[{number} * {THREADS} + t] = old; }}"
    ]
    if operation not in ("exch", "cas") and space == "global":  # once more, without what was there before
        values = f"%{1}"
        red = f"red.global.{operation}.{kind} [%0], {values};"
        lines += ["    __syncthreads();", "    " + _asm(_guarded(red, 2), [], [address, operands[0], '"r"(guard[t])'])]
    return lines


def _atomics_source(_: int) -> str:
    count = len(ATOMICS) * CELLS
    lines = [
        f"    __shared__ unsigned long long cells[{count}];",
        f"    for (unsigned i = t; i < {count}; i += {THREADS}) {{ cells[i] = in[i]; on_global[i] = in[i]; }}",
        "    __syncthreads();",
        "    const unsigned shared_cells = __cvta_generic_to_shared(cells);",
        "    unsigned char *global_cells = (unsigned char *)on_global;",
        "    unsigned long long *before = from_global;",
        *(line for n in range(len(ATOMICS)) for line in _atomic("global", n)),
        "    before = from_shared;",
        *(line for n in range(len(ATOMICS)) for line in _atomic("shared", n)),
        "    __syncthreads();",
        f"    for (unsigned i = t; i < {count}; i += {THREADS}) on_shared[i] = cells[i];",
    ]
    outputs = ", ".join(f"unsigned long long *{n}" for n in ("on_global", "on_shared", "from_global", "from_shared"))
    inputs = ", ".join(f"const unsigned long long *{name}" for name in ("in", "a", "b"))
    return _kernel(f"{outputs}, {inputs}, const unsigned *cell, const unsigned *guard", "\n".join(lines))


def _atomics_inputs(random: np.random.Generator) -> dict[str, Array]:
    def numbers(count: int) -> Array:
        rows = []
        for _, kind, bits, _step in ATOMICS:
            small = random.integers(-8, 9, count)
            if kind == "f16x2":
                rows.append(small.astype(np.float16).repeat(2).view(np.uint32).astype(np.uint64))
            elif kind[0] == "f":
                rows.append(small.astype(f"f{bits // 8}").view(f"u{bits // 8}").astype(np.uint64))
            elif random.random() < 0.5:
                rows.append((small & 3).astype(np.uint64))  # comparisons hold, counters wrap around
            else:
                rows.append(random.integers(0, 2**bits, count, dtype=np.uint64))
        return np.concatenate(rows)

    return {
        "in": numbers(CELLS),
        "a": numbers(THREADS),
        "b": numbers(THREADS),
        "cell": random.integers(0, CELLS, THREADS, dtype=np.uint32),
        "guard": (random.random(THREADS) < 0.8).astype(np.uint32),
    }


def _atomics_expected(given: Arrays, _: int) -> dict[str, Array]:
    """Lanes one after the other, which is the order that the simulator takes."""
    cells = {space: [int(v) for v in given["in"]] for space in ("global", "shared")}
    before = {space: np.full(len(ATOMICS) * THREADS, _UNTOUCHED, np.uint64) for space in cells}
    for number, (operation, _kind, bits, step) in enumerate(ATOMICS):
        again = operation not in ("exch", "cas")
        rounds = [("global", True), ("shared", _returns("shared", operation, bits))]
        for space, returns in (*rounds, *([("global", False)] if again else [])):
            for t in np.flatnonzero(given["guard"]):
                place, k = CELLS * number + int(given["cell"][t]), number * THREADS + t
                mask = (1 << bits) - 1
                old = cells[space][place] & mask
                if returns:
                    before[space][k] = old
                new = step(old, int(given["a"][k]) & mask, int(given["b"][k]) & mask) & mask
                cells[space][place] = cells[space][place] & ~mask & LONG | new
    named = {f"on_{space}": np.array(held, np.uint64) for space, held in cells.items()}
    return named | {f"from_{space}": held for space, held in before.items()}


# ---- exchanges within a warp, and barriers

SHUFFLES = ("up", "down", "bfly", "idx")
VOTES = ("all", "any", "uni")
REDUCTIONS = ("add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32")
CLAMPS = (0x1F, 0, 0x181F, 0x1C03, 0x1007)
"""Third operands of shuffles: segments and where they end."""


def _exchanges(architecture: int) -> list[str]:
    """Statements that give ``r`` of ``x``, ``y`` and ``z`` of the thread, under the member mask ``m``."""
    found = []
    for mode in SHUFFLES:
        for clamp in CLAMPS:
            code = (
                f"{{ .reg .pred p; .reg .b32 s; shfl.sync.{mode}.b32 %0|p, %1, %2, {clamp}, %3; selp.u32 s, 1, 0, p; "
            )
            code += "shl.b32 s, s, 31; xor.b32 %0, %0, s; }"
            found.append(_asm(code, ['"=r"(r)'], ['"r"(x)', '"r"(y)', '"r"(m)']))
    vote = "{ .reg .pred p, q; setp.ne.u32 p, %1, 0; vote.sync.MODE.pred q, p, %2; selp.u32 %0, 1, 0, q; }"
    found += [_asm(vote.replace("MODE", mode), ['"=r"(r)'], ['"r"(z & 1)', '"r"(m)']) for mode in VOTES]
    ballot = "{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
    found.append(_asm(ballot, ['"=r"(r)'], ['"r"(z & 1)', '"r"(m)']))
    found.append(_asm("match.any.sync.b32 %0, %1, %2;", ['"=r"(r)'], ['"r"(z)', '"r"(m)']))
    wide = '"l"((unsigned long long)z << 40)'
    found.append(_asm("match.any.sync.b64 %0, %1, %2;", ['"=r"(r)'], [wide, '"r"(m)']))
    every = "{ .reg .pred p; .reg .b32 s; match.all.sync.b32 s|p, %1, %2; selp.u32 %0, s, 7, p; }"
    found.append(_asm(every, ['"=r"(r)'], ['"r"(z & 4)', '"r"(m)']))
    found.append(_asm("activemask.b32 %0;", ['"=r"(r)'], []))
    if architecture >= 80:
        found += [_asm(f"redux.sync.{name} %0, %1, %2;", ['"=r"(r)'], ['"r"(x)', '"r"(m)']) for name in REDUCTIONS]
    return found


def _shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Source lane and predicate (PTX ISA, ``shfl.sync``)."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    last, first = (lane & segment) | (clamp & ~segment & 31), lane & segment
    place = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | (b & ~segment & 31)}[mode]
    inside = place >= last if mode == "up" else place <= last
    return (place if inside else lane), inside


def _warps_source(architecture: int) -> str:
    statements = _exchanges(architecture)
    lines = ["    const unsigned x = xs[t], y = ys[t], z = zs[t], g = guard[t];", "    unsigned r, m = ~0u;"]
    for n, statement in enumerate(statements):
        lines.append(f"    {statement} out[{n} * {THREADS} + t] = r;")
    lines.append("    m = __ballot_sync(~0u, g); if (g) {")
    for n, statement in enumerate(statements, len(statements)):
        lines.append(f"        {statement} out[{n} * {THREADS} + t] = r;")
    lines += [
        "    }",
        "    reduced[t] = __syncthreads_count(z & 1);",
        f"    reduced[{THREADS} + t] = __syncthreads_and(z & 1);",
        f"    reduced[{2 * THREADS} + t] = __syncthreads_or((z & 3) == 3);",
    ]
    parameters = ", ".join(f"const unsigned *{name}" for name in ("xs", "ys", "zs", "guard"))
    return _kernel(f"unsigned *out, unsigned *reduced, {parameters}", "\n".join(lines))


def _warps_inputs(random: np.random.Generator) -> dict[str, Array]:
    few = random.integers(0, 3) == 0
    return {
        "xs": random.integers(0, 2**32, THREADS, dtype=np.uint32),
        "ys": random.integers(0, 64, THREADS, dtype=np.uint32),
        "zs": random.integers(0, 2 if few else 8, THREADS, dtype=np.uint32) | np.uint32(random.integers(0, 2)),
        "guard": (random.random(THREADS) < random.choice([0.2, 0.5, 0.9])).astype(np.uint32),
    }


def _warps_expected(given: Arrays, architecture: int) -> dict[str, Array]:
    rows: list[Array] = []
    for guarded in (False, True):
        part: list[dict[int, int]] = [{} for _ in _exchanges(architecture)]
        for start in range(0, THREADS, WARP):
            lanes = [lane for lane in range(WARP) if not guarded or given["guard"][start + lane]]
            x, y, z = ({lane: int(given[name][start + lane]) for lane in lanes} for name in ("xs", "ys", "zs"))
            for lane in lanes:
                for row, value in zip(part, _of_lane(lane, lanes, x, y, z, architecture), strict=True):
                    if value is not None:
                        row[start + lane] = value
        rows += [np.array([row.get(t, _ANYTHING) for t in range(THREADS)], np.int64) for row in part]
        if guarded:
            for row in rows[len(part) :]:
                row[given["guard"] == 0] = 0  # nothing was written
    odd, three = given["zs"] & 1, (given["zs"] & 3) == 3
    reduced = [[int(odd.sum())], [int(odd.all())], [int(three.any())]]
    return {"out": np.concatenate(rows), "reduced": np.repeat(np.array(reduced, np.uint32), THREADS)}


_ANYTHING = -1
"""Stands for a result that PTX does not define: a shuffle from a lane that takes no part."""


def _of_lane(
    lane: int, lanes: list[int], x: dict[int, int], y: dict[int, int], z: dict[int, int], architecture: int
) -> list[int | None]:
    """What each exchange gives a lane."""
    found: list[int | None] = []
    for mode in SHUFFLES:
        for clamp in CLAMPS:
            source, inside = _shuffled(mode, lane, y[lane], clamp)
            found.append((x[source] ^ inside << 31) if source in x else None)
    votes = [z[other] & 1 for other in lanes]
    found += [int(all(votes)), int(any(votes)), int(len(set(votes)) == 1)]
    members = sum(1 << other for other in lanes)
    found.append(sum(1 << other for other in lanes if z[other] & 1))
    same = sum(1 << other for other in lanes if z[other] == z[lane])
    found += [same, same, members if len({z[other] & 4 for other in lanes}) == 1 else 7, members]
    if architecture >= 80:
        values = [x[other] for other in lanes]
        both = {"u32": int, "s32": lambda v: signed(v, 32)}
        for name in REDUCTIONS:
            operation, kind = name.split(".")
            if operation == "add":
                found.append(sum(values) & WORD)
            elif operation in ("min", "max"):
                found.append((min if operation == "min" else max)(values, key=both[kind]))
            else:
                ufunc = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[operation]
                found.append(int(ufunc.reduce(np.array(values, np.uint32))))
    return found


# ---- asynchronous copies

COPIES = (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16))


def _copies_source(_: int) -> str:
    lines = [f"    __shared__ alignas(16) unsigned char s[{len(COPIES)}][{THREADS * 16}];"]
    lines.append(f"    for (unsigned i = t; i < sizeof s; i += {THREADS}) s[0][i] = 0x5a;")
    lines.append("    __syncthreads();")
    for n, (way, size) in enumerate(COPIES):
        copy = f"cp.async.{way}.shared.global [%0], [%1], {size}, %2;"
        target = f'"r"((unsigned)__cvta_generic_to_shared(s[{n}] + {size} * to[t]))'
        inputs = [target, f'"l"(in + {size} * slot[t])', f'"r"(size[t] % {size + 1})', '"r"(guard[t])']
        lines.append("    " + _asm(_guarded(copy, 3), [], inputs))
    lines.append('    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");')
    lines.append("    __syncthreads();")
    lines.append(f"    for (unsigned i = t; i < sizeof s; i += {THREADS}) out[i] = s[0][i];")
    parameters = "unsigned char *out, const unsigned char *in, const unsigned *slot, const unsigned *to, "
    return _kernel(parameters + "const unsigned *size, const unsigned *guard", "\n".join(lines))


def _copies_inputs(random: np.random.Generator) -> dict[str, Array]:
    return {
        "in": random.integers(0, 256, 16 * THREADS, dtype=np.uint8),
        "slot": random.integers(0, THREADS, THREADS, dtype=np.uint32),
        "to": random.permutation(THREADS).astype(np.uint32),
        "size": random.integers(0, 17 * 9 * 5, THREADS, dtype=np.uint32),
        "guard": (random.random(THREADS) < 0.8).astype(np.uint32),
    }


def _copies_expected(given: Arrays, _: int) -> dict[str, Array]:
    out = np.full((len(COPIES), 16 * THREADS), 0x5A, np.uint8)
    for n, (_way, size) in enumerate(COPIES):
        for t in np.flatnonzero(given["guard"]):
            source, target = size * int(given["slot"][t]), size * int(given["to"][t])
            kept = int(given["size"][t]) % (size + 1)
            out[n, target : target + size] = 0  # what is not copied
            out[n, target : target + kept] = given["in"][source : source + kept]
    return {"out": out.reshape(-1)}


GROUPS = {
    "accesses": Group(source=_accesses_source, inputs=_accesses_inputs, expected=_accesses_expected),
    "atomics": Group(source=_atomics_source, inputs=_atomics_inputs, expected=_atomics_expected),
    "warps": Group(source=_warps_source, inputs=_warps_inputs, expected=_warps_expected),
    "copies": Group(source=_copies_source, inputs=_copies_inputs, expected=_copies_expected, since=80),
}


ARCHITECTURES = {"sm_75": 75, "sm_90": 90, "sm_120": 120}
"""What tests compile for, and its compute capability, times ten."""


def check(name: str, architecture: str, seed: int) -> None:
    """Draw the inputs of a group and compare all its outputs."""
    group, capability = GROUPS[name], int(architecture.removeprefix("sm_"))
    given = group.inputs(np.random.default_rng(seed))
    expected = group.expected(given, capability)
    types = {"out": np.uint8 if name == "copies" else np.uint32, "loaded": np.uint64}
    outputs = [
        Buffer(name=key, array=np.zeros(len(values), types.get(key, values.dtype)), output=True)
        for key, values in expected.items()
    ]
    inputs = [Buffer(name=key, array=values) for key, values in given.items()]
    code = compiled(group.source(capability), architecture)[2]
    run = counted_run(code, Launch(grid_x=1, block_x=THREADS), KernelCall(parameters=(*outputs, *inputs)))
    for key, values in expected.items():
        actual = run.outputs[key]
        defined = values != _ANYTHING if values.dtype == np.int64 else np.ones(len(values), np.bool_)
        wrong = np.flatnonzero(defined & (actual != values.astype(actual.dtype)))
        places = [(int(k), hex(int(actual[k])), hex(int(values[k]))) for k in wrong[:8]]
        assert not len(wrong), f"{name} on {architecture}, seed {seed}: {len(wrong)} of {key} are wrong: {places}"


def main() -> None:
    """Draw many inputs for every architecture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="launches of each group and architecture")
    chosen = parser.parse_args()
    for architecture in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"):
        for name, group in GROUPS.items():
            if int(architecture.removeprefix("sm_")) >= group.since:
                for seed in range(chosen.seeds):
                    check(name, architecture, seed)
        print(f"{architecture}: loads, stores, atomics, exchanges, barriers and copies gave what PTX defines")


if __name__ == "__main__":
    main()
