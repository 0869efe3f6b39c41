"""PTX instructions with what they compute: the programs and the oracle of `test_opcodes`.

Each operation is some PTX on operands ``A``, ``B``, ``C`` of 64 bits, whose lower halves are ``a``, ``b``, ``c``, and gives ``d``
of 32 bits or ``D`` of 64. Its oracle gives the bits of the result, `NAN` for any NaN, or None where PTX defines none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from .arithmetic import (
    BF16,
    F16,
    F32,
    F64,
    NAN,
    Format,
    Number,
    add,
    clamp,
    compare,
    div,
    float_to_integer,
    flushed,
    fma,
    is_nan,
    minimum,
    mul,
    number,
    rounded,
    saturated,
    signed,
    sqrt,
    to_integer,
)

Result = int | str | None
Oracle = Callable[[int, int, int], Result]
"""Of three numbers of 64 bits the bits of the result."""
WORD = 2**32 - 1
LONG = 2**64 - 1
MODES = {"rn": "n", "rz": "z", "rm": "m", "rp": "p"}
E4M3, E5M2 = Format(8, 3), Format(8, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    Attributes:
        code: PTX.
        oracle: What it computes.
        bits: Of the result; 64 where it is ``D``.
        forms: Formats of the floats that the result holds from its low end on; integers where there are none.
        since: First compute capability, times ten.
        tolerance: Of a float, relative and absolute, where PTX only bounds its error.
    """

    code: str
    oracle: Oracle
    bits: int = 32
    forms: tuple[Format, ...] = ()
    since: int = 75
    tolerance: float = 0.0


def _words(oracle: Oracle) -> Oracle:
    return lambda x, y, z: oracle(x & WORD, y & WORD, z & WORD)


def _int(code: str, oracle: Oracle, *, since: int = 75, bits: int = 32) -> Operation:
    """An operation on integers of 32 bits."""
    return Operation(code=code, oracle=_words(oracle), since=since, bits=bits)


def _long(code: str, oracle: Oracle, *, bits: int = 64) -> Operation:
    return Operation(code=code, oracle=oracle, bits=bits)


def _s(value: int, bits: int = 32) -> int:
    return signed(value, bits)


# ---- integers


def _bfe(a: int, b: int, c: int, bits: int, is_signed: bool) -> int:
    position, length = b & 255, c & 255
    top = bits - 1
    sign = 0 if not is_signed or length == 0 else a >> min(position + length - 1, top) & 1
    field = 0
    for k in range(bits):
        bit = a >> (position + k) & 1 if k < length and position + k <= top else sign
        field |= bit << k
    return field


def _bfi(a: int, b: int, position: int, length: int, bits: int) -> int:
    found = b
    for k in range(length & 255):
        at = (position & 255) + k
        if at < bits:
            found = found & ~(1 << at) | (a >> k & 1) << at
    return found


def _bfind(a: int, bits: int, is_signed: bool, shift: bool) -> int:
    value = ~_s(a, bits) if is_signed and _s(a, bits) < 0 else a
    place = value.bit_length() - 1
    return WORD if place < 0 else bits - 1 - place if shift else place


def _prmt(a: int, b: int, selector: int, mode: str) -> int:
    data = [(a | b << 32) >> 8 * k & 255 for k in range(8)]
    s = selector & 3
    ways = {
        "f4e": [s, s + 1, s + 2, s + 3],
        "b4e": [s, (s + 7) % 8, (s + 6) % 8, (s + 5) % 8],
        "rc8": [s] * 4,
        "ecl": [max(k, s) for k in range(4)],
        "ecr": [min(k, s) for k in range(4)],
        "rc16": [s % 2 * 2, s % 2 * 2 + 1] * 2,
    }
    if mode:
        return sum(data[place] << 8 * k for k, place in enumerate(ways[mode]))
    found = 0
    for k in range(4):
        choice = selector >> 4 * k & 15
        byte = data[choice & 7]
        found |= (255 * (byte >> 7) if choice & 8 else byte) << 8 * k
    return found


def _shf(a: int, b: int, c: int, left: bool, clamped: bool) -> int:
    amount = min(c, 32) if clamped else c & 31
    both = a | b << 32
    return both << amount >> 32 & WORD if left else both >> amount & WORD


def _dp(a: int, b: int, c: int, sa: bool, sb: bool, bytes_of_b: tuple[int, ...], wide: int) -> int:
    total = c
    for k, place in enumerate(bytes_of_b):
        x = a >> wide * k & ((1 << wide) - 1)
        y = b >> 8 * place & 255
        total += (_s(x, wide) if sa else x) * (_s(y, 8) if sb else y)
    return total


def _lop3(table: int, a: int, b: int, c: int) -> int:
    return sum((table >> ((a >> k & 1) * 4 + (b >> k & 1) * 2 + (c >> k & 1)) & 1) << k for k in range(32))


def _halves(f: Callable[[int, int], int], is_signed: bool) -> Oracle:
    def both(x: int, y: int, _: int) -> int:
        found = 0
        for shift in (0, 16):
            a, b = x >> shift & 0xFFFF, y >> shift & 0xFFFF
            found |= (f(_s(a, 16), _s(b, 16)) if is_signed else f(a, b)) % 2**16 << shift
        return found

    return both


def _set(code: str, holds: Callable[[int, int, int], bool], true: int) -> Operation:
    return _int(code, lambda x, y, z: true if holds(x, y, z) else 0)


def integers() -> Iterator[Operation]:
    """Operations on integers of 32 bits."""
    yield _int("add.u32 d,a,b;", lambda x, y, z: x + y)
    yield _int("sub.u32 d,a,b;", lambda x, y, z: x - y)
    yield _int("add.sat.s32 d,a,b;", lambda x, y, z: clamp(_s(x) + _s(y), 32, True))
    yield _int("sub.sat.s32 d,a,b;", lambda x, y, z: clamp(_s(x) - _s(y), 32, True))
    yield _int("mul.lo.u32 d,a,b;", lambda x, y, z: x * y)
    yield _int("mad.lo.u32 d,a,b,c;", lambda x, y, z: x * y + z)
    for kind in "us":
        value = _s if kind == "s" else int
        yield _int(f"mul.hi.{kind}32 d,a,b;", lambda x, y, z, v=value: v(x) * v(y) >> 32)
        yield _int(f"mad.hi.{kind}32 d,a,b,c;", lambda x, y, z, v=value: (v(x) * v(y) >> 32) + z)
        yield _int(f"mul.wide.{kind}32 D,a,b;", lambda x, y, z, v=value: v(x) * v(y), bits=64)
        yield _long(f"mad.wide.{kind}32 D,a,b,C;", lambda x, y, z, v=value: v(x & WORD) * v(y & WORD) + z)
        low = (lambda x: _s(x, 24)) if kind == "s" else (lambda x: x & 0xFFFFFF)
        yield _int(f"mul24.lo.{kind}32 d,a,b;", lambda x, y, z, v=low: v(x) * v(y))
        yield _int(f"mul24.hi.{kind}32 d,a,b;", lambda x, y, z, v=low: v(x) * v(y) >> 16)
        yield _int(f"mad24.lo.{kind}32 d,a,b,c;", lambda x, y, z, v=low: v(x) * v(y) + z)
        yield _int(f"sad.{kind}32 d,a,b,c;", lambda x, y, z, v=value: abs(v(x) - v(y)) + z)
        yield _int(f"min.{kind}32 d,a,b;", lambda x, y, z, v=value: min(v(x), v(y)))
        yield _int(f"max.{kind}32 d,a,b;", lambda x, y, z, v=value: max(v(x), v(y)))
        yield _int(f"max.{kind}32 d,a,b; min.{kind}32 d,d,c;", lambda x, y, z, v=value: min(max(v(x), v(y)), v(z)))
        yield _int(f"add.{kind}32 d,a,b; max.{kind}32 d,d,c;", lambda x, y, z, v=value: max(v((x + y) & WORD), v(z)))
        yield _int(f"bfe.{kind}32 d,a,b,c;", lambda x, y, z, k=kind: _bfe(x, y, z, 32, k == "s"))
        yield _int(f"shr.{kind}32 d,a,b;", lambda x, y, z, v=value: v(x) >> min(y, 32))
        for mode in ("clamp", "wrap"):
            yield _int(
                f"szext.{mode}.{kind}32 d,a,b;",
                lambda x, y, z, k=kind, m=mode: _szext(x, y & 31 if m == "wrap" else min(y, 32), k == "s"),
            )
        for shift in ("", ".shiftamt"):
            yield _int(f"bfind{shift}.{kind}32 d,a;", lambda x, y, z, k=kind, h=shift: _bfind(x, 32, k == "s", bool(h)))
        for other in "us":
            flags = (kind == "s", other == "s")
            yield _int(f"dp4a.{kind}32.{other}32 d,a,b,c;", lambda x, y, z, f=flags: _dp(x, y, z, *f, (0, 1, 2, 3), 8))
            yield _int(f"dp2a.lo.{kind}32.{other}32 d,a,b,c;", lambda x, y, z, f=flags: _dp(x, y, z, *f, (0, 1), 16))
            yield _int(f"dp2a.hi.{kind}32.{other}32 d,a,b,c;", lambda x, y, z, f=flags: _dp(x, y, z, *f, (2, 3), 16))
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            holds = lambda x, y, z, n=name, v=value: compare(n, v(x), v(y))  # noqa: E731
            yield _set(f"set.{name}.u32.{kind}32 d,a,b;", holds, WORD)
            yield _int(
                f"{{.reg .pred p; setp.{name}.{kind}32 p,a,b; selp.u32 d,c,7,p;}}",
                lambda x, y, z, h=holds: z if h(x, y, z) else 7,
            )
        for boolean in ("and", "or", "xor"):
            yield _int(
                "{.reg .pred p,q,r; .reg .b32 t; and.b32 t,c,1; setp.ne.u32 r,t,0; "
                f"setp.lt.{boolean}.{kind}32 p|q,a,b,r; selp.u32 d,1,0,p; selp.u32 t,2,0,q; or.b32 d,d,t;}}",
                lambda x, y, z, o=boolean, v=value: sum(
                    _boolean(o, holds, bool(z & 1)) << k for k, holds in enumerate((v(x) < v(y), v(x) >= v(y)))
                ),
            )
    yield _set("{.reg .f32 f; set.lt.f32.s32 f,a,b; mov.b32 d,f;}", lambda x, y, z: _s(x) < _s(y), 0x3F800000)
    yield _int("{.reg .b32 t; or.b32 t,b,1; div.u32 d,a,t;}", lambda x, y, z: x // (y | 1))
    yield _int("{.reg .b32 t; or.b32 t,b,1; rem.u32 d,a,t;}", lambda x, y, z: x % (y | 1))
    yield _int("{.reg .b32 t; or.b32 t,b,1; div.s32 d,a,t;}", lambda x, y, z: _quotient(_s(x), _s(y | 1), 32)[0])
    yield _int("{.reg .b32 t; or.b32 t,b,1; rem.s32 d,a,t;}", lambda x, y, z: _quotient(_s(x), _s(y | 1), 32)[1])
    yield _int("div.u32 d,a,7;", lambda x, y, z: x // 7)
    yield _int("div.s32 d,a,-13;", lambda x, y, z: _quotient(_s(x), -13, 32)[0])
    yield _int("abs.s32 d,a;", lambda x, y, z: abs(_s(x)))
    yield _int("neg.s32 d,a;", lambda x, y, z: -x)
    yield _int("not.b32 d,a;", lambda x, y, z: ~x)
    yield _int("cnot.b32 d,a;", lambda x, y, z: int(x == 0))
    yield _int("popc.b32 d,a;", lambda x, y, z: x.bit_count())
    yield _int("clz.b32 d,a;", lambda x, y, z: 32 - x.bit_length())
    yield _int("brev.b32 d,a;", lambda x, y, z: int(f"{x:032b}"[::-1], 2))
    yield _int("bfi.b32 d,a,b,c,9;", lambda x, y, z: _bfi(x, y, z, 9, 32))
    yield _int("{.reg .b32 t; shr.u32 t,c,8; bfi.b32 d,a,b,c,t;}", lambda x, y, z: _bfi(x, y, z, z >> 8, 32))
    for mode in ("clamp", "wrap"):
        yield _int(
            f"bmsk.{mode}.b32 d,a,b;",
            lambda x, y, z, m=mode: _bmsk(x & 31, y & 31) if m == "wrap" else _bmsk(min(x, 32), min(y, 32)),
        )
        for way in "lr":
            yield _int(
                f"shf.{way}.{mode}.b32 d,a,b,c;", lambda x, y, z, w=way, m=mode: _shf(x, y, z, w == "l", m == "clamp")
            )
            for amount in (0, 1, 17, 32, 45):
                yield _int(
                    f"shf.{way}.{mode}.b32 d,a,b,{amount};",
                    lambda x, y, z, w=way, m=mode, n=amount: _shf(x, y, n, w == "l", m == "clamp"),
                )
    yield _int("shl.b32 d,a,b;", lambda x, y, z: x << min(y, 32))
    for mode in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield _int(f"prmt.b32{'.' * bool(mode)}{mode} d,a,b,c;", lambda x, y, z, m=mode: _prmt(x, y, z, m))
    for selector in (0x5410, 0x0123, 0x7632, 0xBA98, 0x6F3C):
        yield _int(f"prmt.b32 d,a,b,{selector};", lambda x, y, z, s=selector: _prmt(x, y, s, ""))
    for table in LOP3_TABLES:
        yield _int(f"lop3.b32 d,a,b,c,{table};", lambda x, y, z, t=table: _lop3(t, x, y, z))
    yield _int("slct.u32.s32 d,a,b,c;", lambda x, y, z: x if _s(z) >= 0 else y)
    yield _int(
        "{.reg .b32 t; add.cc.u32 d,a,b; addc.cc.u32 t,b,c; addc.u32 t,t,a; xor.b32 d,d,t;}",
        lambda x, y, z: (x + y) ^ (y + z + (x + y >> 32) + x + (y + z + (x + y >> 32) >> 32)),
    )
    yield _int(
        "{.reg .b32 t; add.cc.u32 t,a,b; addc.u32 d,c,t;}",
        lambda x, y, z: z + (x + y & WORD) + (x + y >> 32),
    )
    yield _int(
        "{.reg .b32 t; sub.cc.u32 d,a,b; subc.cc.u32 t,b,c; subc.u32 t,t,a; xor.b32 d,d,t;}",
        lambda x, y, z: (x - y) ^ (y - z - (x < y) - x - (y - z - (x < y) < 0)),
    )
    yield _long("{.reg .b32 s,t; mad.lo.cc.u32 s,a,b,c; madc.hi.u32 t,a,b,a; mov.b64 D,{s,t};}", _mad_long)
    for source in ("u8", "s8", "u16", "s16"):
        width, is_signed = int(source[1:]), source[0] == "s"
        yield _int(
            f"cvt.{source[0]}32.{source} d,a;", lambda x, y, z, w=width, g=is_signed: _s(x, w) if g else x % 2**w
        )
        for of in ("u32", "s32"):
            yield _int(
                f"cvt.sat.{source}.{of} d,a;",
                lambda x, y, z, w=width, g=is_signed, o=of: clamp(_s(x) if o == "s32" else x, w, g),
            )
    yield _int("cvt.sat.u32.s32 d,a;", lambda x, y, z: max(_s(x), 0))
    yield _int("cvt.sat.s32.u32 d,a;", lambda x, y, z: min(x, 2**31 - 1))
    for kind in "us":
        for name, f in (("add", lambda a, b: a + b), ("min", min), ("max", max)):
            yield _int(f"{name}.{kind}16x2 d,a,b;", _halves(f, kind == "s"), since=90)
    for name, f in (("min", min), ("max", max)):
        yield _int(f"{name}.relu.s32 d,a,b;", lambda x, y, z, f=f: max(f(_s(x), _s(y)), 0), since=90)
        yield _int(f"{name}.relu.s16x2 d,a,b;", _halves(lambda a, b, f=f: max(f(a, b), 0), True), since=90)


LOP3_TABLES = tuple(
    sorted({0x00, 0xFF, *(0x1D * k % 256 for k in range(36)), 0xC0, 0xFC, 0x3C, 0x30, 0x0C, 0xF3, 0x33, 0x96, 0xF8})
)


def _szext(value: int, width: int, is_signed: bool) -> int:
    field = value & ((1 << width) - 1)
    return _s(field, width) if is_signed and width else field


def _bmsk(position: int, width: int) -> int:
    return ((1 << width) - 1) << position


def _boolean(operator: str, one: bool, other: bool) -> bool:
    return {"and": one and other, "or": one or other, "xor": one != other}[operator]


def _quotient(a: int, b: int, bits: int) -> tuple[int | None, int | None]:
    """Quotient and remainder toward zero; nothing is defined where they overflow."""
    if a == -(1 << (bits - 1)) and b == -1:
        return None, None
    whole = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return whole, a - whole * b


def _mad_long(x: int, y: int, z: int) -> int:
    x, y, z = x & WORD, y & WORD, z & WORD
    low = (x * y & WORD) + z
    return low & WORD | (((x * y >> 32) + x + (low >> 32)) & WORD) << 32


def long_integers() -> Iterator[Operation]:
    """Operations on integers of 64 bits."""
    yield _long("add.u64 D,A,B;", lambda x, y, z: x + y)
    yield _long("sub.u64 D,A,B;", lambda x, y, z: x - y)
    yield _long("mul.lo.u64 D,A,B;", lambda x, y, z: x * y)
    yield _long("mad.lo.u64 D,A,B,C;", lambda x, y, z: x * y + z)
    for kind in "us":
        value = (lambda x: _s(x, 64)) if kind == "s" else int
        yield _long(f"mul.hi.{kind}64 D,A,B;", lambda x, y, z, v=value: v(x) * v(y) >> 64)
        yield _long(f"min.{kind}64 D,A,B;", lambda x, y, z, v=value: min(v(x), v(y)))
        yield _long(f"max.{kind}64 D,A,B;", lambda x, y, z, v=value: max(v(x), v(y)))
        yield _long(f"shr.{kind}64 D,A,b;", lambda x, y, z, v=value: v(x) >> min(y & WORD, 64))
        yield _long(
            f"{{.reg .b32 s,t; and.b32 s,b,255; and.b32 t,c,255; bfe.{kind}64 D,A,s,t;}}",
            lambda x, y, z, k=kind: _bfe(x, y, z, 64, k == "s"),
        )
        yield _long(f"bfind.{kind}64 d,A;", lambda x, y, z, k=kind: _bfind(x, 64, k == "s", False), bits=32)
        yield _long(
            f"{{.reg .b64 t; or.b64 t,B,1; div.{kind}64 D,A,t;}}",
            lambda x, y, z, v=value: _quotient(v(x), v(y | 1), 64)[0],
        )
        yield _long(
            f"{{.reg .b64 t; or.b64 t,B,1; rem.{kind}64 D,A,t;}}",
            lambda x, y, z, v=value: _quotient(v(x), v(y | 1), 64)[1],
        )
        for name in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield _long(
                f"{{.reg .pred p; setp.{name}.{kind}64 p,A,B; selp.b64 D,C,A,p;}}",
                lambda x, y, z, n=name, v=value: z if compare(n, v(x), v(y)) else x,
            )
    yield _long("shl.b64 D,A,b;", lambda x, y, z: x << min(y & WORD, 64))
    for amount in (0, 5, 31, 32, 33, 63):
        yield _long(f"shl.b64 D,A,{amount};", lambda x, y, z, n=amount: x << n)
        yield _long(f"shr.s64 D,A,{amount};", lambda x, y, z, n=amount: _s(x, 64) >> n)
        yield _long(f"{{.reg .b64 t; shl.b64 t,A,{amount}; add.u64 D,t,B;}}", lambda x, y, z, n=amount: (x << n) + y)
        yield _long(f"{{.reg .b64 t; shl.b64 t,A,{amount}; sub.u64 D,B,t;}}", lambda x, y, z, n=amount: y - (x << n))
    yield _long("popc.b64 d,A;", lambda x, y, z: x.bit_count(), bits=32)
    yield _long("clz.b64 d,A;", lambda x, y, z: 64 - x.bit_length(), bits=32)
    yield _long("brev.b64 D,A;", lambda x, y, z: int(f"{x:064b}"[::-1], 2))
    yield _long("abs.s64 D,A;", lambda x, y, z: abs(_s(x, 64)))
    yield _long("neg.s64 D,A;", lambda x, y, z: -x)
    yield _long("xor.b64 D,A,B;", lambda x, y, z: x ^ y)
    yield _long("{.reg .b32 t; and.b32 t,c,255; bfi.b64 D,A,B,t,17;}", lambda x, y, z: _bfi(x, y, z, 17, 64))
    yield _long("cvt.sat.s32.s64 d,A;", lambda x, y, z: clamp(_s(x, 64), 32, True), bits=32)
    yield _long("cvt.sat.u32.s64 d,A;", lambda x, y, z: clamp(_s(x, 64), 32, False), bits=32)
    yield _long("cvt.s64.s32 D,a;", lambda x, y, z: _s(x & WORD))


# ---- floats


def _float(code: str, oracle: Oracle, form: Format, *, since: int = 75, tolerance: float = 0.0) -> Operation:
    return Operation(code=code, oracle=oracle, bits=max(form.bits, 32), forms=(form,), since=since, tolerance=tolerance)


def _flushing(ftz: bool, form: Format, f: Callable[..., Result], count: int) -> Oracle:
    """An oracle on values, with flushed operands and results where that is asked for."""

    def oracle(*bits: int) -> Result:
        given = [b % (1 << form.bits) for b in bits[:count]]
        if ftz:
            given = [flushed(b, form) for b in given]  # type: ignore[misc]
        found = f(*(number(b, form) for b in given))
        return flushed(found, form) if ftz and found is not None else found

    return oracle


def _arithmetic(form: Format, names: tuple[str, str, str, str]) -> Iterator[Operation]:
    d, a, b, c = names
    kind = f"f{form.bits}"
    operations: dict[str, tuple[Callable[..., Result], int, str]] = {
        "add": (lambda x, y, m: add(x, y, form, m), 2, f"{d},{a},{b}"),
        "sub": (lambda x, y, m: add(x, _minus(y), form, m), 2, f"{d},{a},{b}"),
        "mul": (lambda x, y, m: mul(x, y, form, m), 2, f"{d},{a},{b}"),
        "fma": (lambda x, y, z, m: fma(x, y, z, form, m), 3, f"{d},{a},{b},{c}"),
        "div": (lambda x, y, m: div(x, y, form, m), 2, f"{d},{a},{b}"),
        "rcp": (lambda x, m: div(Fraction(1), x, form, m), 1, f"{d},{a}"),
        "sqrt": (lambda x, m: sqrt(x, form, m), 1, f"{d},{a}"),
    }
    for name, (f, count, operands) in operations.items():
        for rounding, mode in MODES.items():
            for ftz in (False, True) if form is F32 else (False,):
                plain = lambda *v, f=f, m=mode: f(*v, m)  # noqa: E731
                oracle = _flushing(ftz, form, plain, count)
                flags = ".ftz" if ftz else ""
                yield _float(f"{name}.{rounding}{flags}.{kind} {operands};", oracle, form)
                if form is F32 and name in ("add", "sub", "mul", "fma"):
                    yield _float(
                        f"{name}.{rounding}{flags}.sat.{kind} {operands};",
                        lambda *v, o=oracle: saturated(o(*v), F32),  # type: ignore[arg-type]
                        form,
                    )


def _minus(value: Number) -> Number:
    if isinstance(value, float):
        return Fraction(0) if value == 0 else -value
    return -0.0 if value == 0 else -value


def _comparisons(form: Format, names: tuple[str, str, str]) -> Iterator[Operation]:
    a, b, c = names
    kind, mask = f"f{form.bits}", (1 << form.bits) - 1
    every = [n + u for n in ("eq", "ne", "lt", "le", "gt", "ge") for u in ("", "u")] + ["num", "nan"]
    for name in every:
        yield _long(
            f"{{.reg .pred p,q; .reg .b32 t; setp.{name}.{kind} p,{a},{b}; setp.{name}.{kind} q,{b},{c}; "
            "selp.u32 d,1,0,p; selp.u32 t,2,0,q; or.b32 d,d,t;}",
            lambda x, y, z, n=name, m=mask: (
                compare(n, number(x & m, form), number(y & m, form))
                + 2 * compare(n, number(y & m, form), number(z & m, form))
            ),
            bits=32,
        )
        if name in ("lt", "geu", "eq", "neu", "nan"):
            yield _long(
                f"set.{name}.u32.{kind} d,{a},{c};",
                lambda x, y, z, n=name, m=mask: WORD * compare(n, number(x & m, form), number(z & m, form)),
                bits=32,
            )


def _test(name: str, bits: int, form: Format) -> int:
    size = bits & (form.sign - 1)
    normal = form.infinity > size >= 1 << form.fraction or size == 0
    found = {
        "finite": size < form.infinity,
        "infinite": size == form.infinity,
        "number": size <= form.infinity,
        "notanumber": size > form.infinity,
        "normal": normal,
        "subnormal": 0 < size < 1 << form.fraction,
    }
    return int(found[name])


def _approximate(name: str, value: Number) -> float:
    x = float(value)
    if math.isnan(x):
        return x
    if name == "rcp":
        return math.copysign(math.inf, x) if x == 0 else 1 / x
    if name in ("sqrt", "rsqrt"):
        if x < 0:
            return math.nan
        if name == "sqrt":
            return math.sqrt(x)
        return math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)
    if name == "lg2":
        return -math.inf if x == 0 else math.nan if x < 0 else math.inf if math.isinf(x) else math.log2(x)
    if name == "ex2":
        return math.inf if x >= 1024 else 0.0 if x < -1100 else 2.0**x
    if name == "tanh":
        return math.tanh(x)
    return math.nan if math.isinf(x) else math.sin(x) if name == "sin" else math.cos(x)


def _single(x: float) -> Result:
    if math.isnan(x) or math.isinf(x) or x == 0:
        return rounded(x if x != 0 or math.copysign(1, x) < 0 else Fraction(0), F32)
    return rounded(Fraction(x), F32)


def singles() -> Iterator[Operation]:
    """Operations on single precision."""
    yield from _arithmetic(F32, ("d", "a", "b", "c"))
    yield from _comparisons(F32, ("a", "b", "c"))
    for name, larger in (("min", False), ("max", True)):
        for nan in (False, True):
            for ftz in (False, True):
                modifiers = ".ftz" * ftz + ".NaN" * nan
                yield _float(
                    f"{name}{modifiers}.f32 d,a,b;",
                    lambda x, y, z, g=larger, n=nan, t=ftz: minimum(_plain(x, t), _plain(y, t), F32, larger=g, nan=n),
                    F32,
                    since=80 if nan else 75,
                )
    yield _float("abs.f32 d,a;", lambda x, y, z: _or_nan(x & WORD & ~F32.sign, F32), F32)
    yield _float("neg.f32 d,a;", lambda x, y, z: _or_nan(x & WORD ^ F32.sign, F32), F32)
    yield _float("copysign.f32 d,a,b;", lambda x, y, z: _or_nan(x & F32.sign | y & (F32.sign - 1), F32), F32)
    yield _int(
        "{.reg .pred p; setp.gt.f32 p,a,c; selp.b32 d,a,b,p;}",
        lambda x, y, z: x if compare("gt", number(x, F32), number(z, F32)) else y,
    )
    yield _int("slct.u32.f32 d,a,b,c;", lambda x, y, z: x if compare("ge", number(z, F32), Fraction(0)) else y)
    for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield _int(
            f"{{.reg .pred p; testp.{name}.f32 p,a; selp.u32 d,1,0,p;}}", lambda x, y, z, n=name: _test(n, x, F32)
        )
    for name, tolerance in (
        ("rcp", 2e-7),
        ("sqrt", 4e-7),
        ("rsqrt", 3e-7),
        ("lg2", 4e-7),
        ("ex2", 4e-7),
        ("tanh", 2e-3),
    ):
        for ftz in (False, True) if name != "tanh" else (False,):
            yield _float(
                f"{name}.approx{'.ftz' * ftz}.f32 d,a;",
                _flushing(ftz, F32, lambda v, n=name: _single(_approximate(n, v)), 1),
                F32,
                tolerance=tolerance,
            )
    yield _float(
        "div.full.f32 d,a,b;",
        lambda x, y, z: _divided(x & WORD, y & WORD),
        F32,
        tolerance=4e-7,
    )


def _divided(x: int, y: int) -> Result:
    """Quotient of ``div.full``, defined for denominators from 2**-126 to 2**126 whose quotient is a normal number."""
    a, b = number(x, F32), number(y, F32)
    found = div(a, b, F32)
    sized = isinstance(b, Fraction) and Fraction(2) ** -126 <= abs(b) <= Fraction(2) ** 126
    normal = isinstance(found, int) and 0x01000000 <= found & 0x7FFFFFFF < 0x7F000000
    return found if sized and normal and flushed(x, F32) == x else None


def _plain(bits: int, ftz: bool) -> int:
    found = flushed(bits & WORD, F32) if ftz else bits & WORD
    assert isinstance(found, int)
    return found


def _or_nan(bits: int, form: Format) -> Result:
    return NAN if is_nan(number(bits, form)) else bits


def doubles() -> Iterator[Operation]:
    """Operations on double precision."""
    yield from _arithmetic(F64, ("D", "A", "B", "C"))
    yield from _comparisons(F64, ("A", "B", "C"))
    for name, larger in (("min", False), ("max", True)):
        yield _float(f"{name}.f64 D,A,B;", lambda x, y, z, g=larger: minimum(x, y, F64, larger=g), F64)
    yield _float("abs.f64 D,A;", lambda x, y, z: _or_nan(x & ~F64.sign, F64), F64)
    yield _float("neg.f64 D,A;", lambda x, y, z: _or_nan(x ^ F64.sign, F64), F64)
    for name in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        yield _long(
            f"{{.reg .pred p; testp.{name}.f64 p,A; selp.u32 d,1,0,p;}}",
            lambda x, y, z, n=name: _test(n, x, F64),
            bits=32,
        )


def _packed(f: Callable[..., Result], form: Format) -> Oracle:
    """A function of the bits of halves on both halves; each is compared on its own."""

    def both(*words: int) -> Result:
        low, high = (f(*(word >> shift & 0xFFFF for word in words)) for shift in (0, 16))
        return _joined(low, high)

    return both


def _joined(low: Result, high: Result) -> Result:
    """Two halves in one word, NaN as one that no computation gives."""
    nan = 0x7FFF
    return (nan if isinstance(low, str) else int(low or 0)) | (nan if isinstance(high, str) else int(high or 0)) << 16


def halves() -> Iterator[Operation]:
    """Operations on packed halves."""
    for kind, form in (("f16", F16), ("bf16", BF16)):
        operations: dict[str, tuple[Callable[..., Result], str, int]] = {
            "add": (lambda x, y, z, f=form: add(x, y, f), "d,a,b", 75 if kind == "f16" else 90),
            "sub": (lambda x, y, z, f=form: add(x, _minus(y), f), "d,a,b", 75 if kind == "f16" else 90),
            "mul": (lambda x, y, z, f=form: mul(x, y, f), "d,a,b", 75 if kind == "f16" else 90),
            "fma": (lambda x, y, z, f=form: fma(x, y, z, f), "d,a,b,c", 75 if kind == "f16" else 80),
        }
        for name, (f, operands, since) in operations.items():
            flags = ["", ".sat", ".ftz"] if kind == "f16" else [""]
            flags += [".relu"] if name == "fma" else []
            for flag in flags:
                yield Operation(
                    code=f"{name}.rn{flag}.{kind}x2 {operands};",
                    oracle=_packed(lambda *b, f=f, g=flag, m=form: _half(f, g, m, b), form),
                    forms=(form, form),
                    since=80 if flag == ".relu" else since,
                )
        for name, larger in (("min", False), ("max", True)):
            for nan in (False, True):
                yield Operation(
                    code=f"{name}{'.NaN' * nan}.{kind}x2 d,a,b;",
                    oracle=_packed(lambda x, y, z, g=larger, n=nan, m=form: minimum(x, y, m, larger=g, nan=n), form),
                    forms=(form, form),
                    since=80,
                )
        neg_since = 75 if kind == "f16" else 80
        yield Operation(
            code=f"neg.{kind}x2 d,a;",
            oracle=_packed(lambda x, y, z, m=form: _or_nan(x ^ 0x8000, m), form),
            forms=(form, form),
            since=neg_since,
        )
        yield Operation(
            code=f"abs.{kind}x2 d,a;",
            oracle=_packed(lambda x, y, z, m=form: _or_nan(x & 0x7FFF, m), form),
            forms=(form, form),
            since=neg_since,
        )
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
            yield Operation(
                code=f"{{.reg .pred p,q; .reg .b32 t; setp.{name}.{kind}x2 p|q,a,b; selp.u32 d,1,0,p; selp.u32 t,2,0,q; "
                "or.b32 d,d,t;}",
                oracle=lambda x, y, z, n=name, m=form: sum(
                    compare(n, number(x >> 16 * k & 0xFFFF, m), number(y >> 16 * k & 0xFFFF, m)) << k for k in (0, 1)
                ),
                since=75 if kind == "f16" else 90,
            )
    for kind, form, since, tolerance in (("f16", F16, 75, 2.0**-9), ("bf16", BF16, 90, 2.0**-6)):
        for name in ("tanh", "ex2"):
            ftz = ".ftz" * (name == "ex2" and kind == "bf16")
            for part, shift in (("h", 0), ("g", 16)):
                yield _float(
                    f"{{.reg .b16 h,g; mov.b32 {{h,g}},a; {name}.approx{ftz}.{kind} h,{part}; cvt.u32.u16 d,h;}}",
                    lambda x, y, z, n=name, f=form, s=shift, t=ftz: _half_function(n, x >> s & 0xFFFF, f, bool(t)),
                    form,
                    since=since,
                    tolerance=tolerance,
                )
    for name in ("lt", "neu"):
        yield Operation(
            code=f"set.{name}.f16x2.f16x2 d,a,b;",
            oracle=lambda x, y, z, n=name: sum(
                0x3C00 * compare(n, number(x >> s & 0xFFFF, F16), number(y >> s & 0xFFFF, F16)) << s for s in (0, 16)
            ),
        )


def _half_function(name: str, bits: int, form: Format, ftz: bool) -> Result:
    """A function of a number of 16 bits, rounded to such a number."""
    value = _approximate(name, number(int(flushed(bits, form)) if ftz else bits, form))
    found = rounded(value if math.isnan(value) or math.isinf(value) else Fraction(value), form, zero=value < 0)
    return flushed(found, form) if ftz and isinstance(found, int) else found


def _half(f: Callable[..., Result], flag: str, form: Format, bits: tuple[int, ...]) -> Result:
    given = [flushed(b, form) for b in bits] if flag == ".ftz" else list(bits)
    found = f(*(number(int(b), form) for b in given))
    if flag == ".ftz":
        return flushed(found, form)  # type: ignore[arg-type]
    if flag == ".sat":
        return saturated(found, form)  # type: ignore[arg-type]
    return _rectified(found, flag == ".relu", form)


# ---- conversions


def conversions() -> Iterator[Operation]:
    """Conversions from, to and between floats."""
    sources = {"f16": F16, "f32": F32, "f64": F64}
    for source, form in sources.items():
        wide = source == "f64"
        operand = {"f16": "h", "f32": "a", "f64": "A"}[source]
        before = "{.reg .b16 h,g; mov.b32 {h,g},a; " if source == "f16" else "{"
        mask = (1 << form.bits) - 1
        for target in ("u32", "s32", "u64", "s64", "u16", "s16", "u8", "s8"):
            width, is_signed = int(target[1:]), target[0] == "s"
            register = "D" if width == 64 else "d"
            for rounding in MODES if width >= 32 else ("rz", "rn"):
                yield Operation(
                    code=f"{before}cvt.{rounding}i.{target}.{source} {register},{operand};}}",
                    oracle=lambda x, y, z, w=width, g=is_signed, r=rounding, m=mask, f=form: _extended(
                        float_to_integer(number(x & m, f), w, g, MODES[r], wide=f is F64 or w == 64), w, g
                    ),
                    bits=max(width, 32),
                )
        for rounding in MODES:
            if source == "f16":
                continue
            yield _float(
                f"cvt.{rounding}i.{source}.{source} {'D' if wide else 'd'},{operand};",
                lambda x, y, z, r=rounding, m=mask, f=form: _integral(x & m, f, MODES[r]),
                form,
            )
    for source in ("u32", "s32", "u64", "s64", "u8", "s8", "u16", "s16"):
        width, is_signed = int(source[1:]), source[0] == "s"
        operand = "A" if width == 64 else "a"
        for target, form in sources.items():
            after = "{.reg .b16 h; " if target == "f16" else "{"
            register = {"f16": "h", "f32": "d", "f64": "D"}[target]
            rest = "mov.b32 d,{h,0};}" if target == "f16" else "}"
            rest = "cvt.u32.u16 d,h;}" if target == "f16" else rest
            for rounding in MODES if width >= 32 and target != "f16" else ("rn",):
                yield _float(
                    f"{after}cvt.{rounding}.{target}.{source} {register},{operand}; {rest}",
                    lambda x, y, z, w=width, g=is_signed, f=form, r=rounding: rounded(
                        Fraction(_s(x, w) if g else x % 2**w), f, MODES[r]
                    ),
                    form,
                )
    for rounding, mode in MODES.items():
        yield _float(f"cvt.{rounding}.f32.f64 d,A;", lambda x, y, z, m=mode: rounded(number(x, F64), F32, m), F32)
    yield _float("cvt.rn.ftz.f32.f64 d,A;", lambda x, y, z: flushed(rounded(number(x, F64), F32), F32), F32)
    yield _float("cvt.f64.f32 D,a;", lambda x, y, z: rounded(number(x & WORD, F32), F64), F64)
    yield _float("cvt.ftz.f64.f32 D,a;", lambda x, y, z: rounded(number(int(flushed(x & WORD, F32)), F32), F64), F64)
    yield _float("cvt.sat.f32.f32 d,a;", lambda x, y, z: saturated(_or_nan(x & WORD, F32), F32), F32)  # type: ignore[arg-type]
    halves_of_float = (("f16", F16, 75, ("rn", "rz")), ("bf16", BF16, 80, ("rn", "rz")))
    for name, form, since, roundings in halves_of_float:
        for rounding in roundings:
            way = MODES[rounding]
            yield _float(
                f"{{.reg .b16 h; cvt.{rounding}.{name}.f32 h,a; cvt.u32.u16 d,h;}}",
                lambda x, y, z, f=form, m=way: rounded(number(x & WORD, F32), f, m),
                form,
                since=since,
            )
            for relu in (False, True):
                yield Operation(
                    code=f"cvt.{rounding}{'.relu' * relu}.{name}x2.f32 d,a,b;",
                    oracle=lambda x, y, z, f=form, m=way, u=relu: _joined(*(_packed_float(v, f, m, u) for v in (y, x))),
                    forms=(form, form),
                    since=80,
                )
        yield _float(
            f"{{.reg .b16 h,g; mov.b32 {{h,g}},a; cvt.f32.{name} d,h;}}",
            lambda x, y, z, f=form: rounded(number(x & 0xFFFF, f), F32),
            F32,
            since=75 if name == "f16" else 90,
        )
    yield _float(
        "{.reg .b16 h; cvt.rn.f16.f64 h,A; cvt.u32.u16 d,h;}", lambda x, y, z: rounded(number(x, F64), F16), F16
    )
    yield _float(
        "{.reg .b16 h,g; mov.b32 {h,g},a; cvt.f64.f16 D,h;}", lambda x, y, z: rounded(number(x & 0xFFFF, F16), F64), F64
    )
    for name, form, largest in (("e4m3", E4M3, 0x7E), ("e5m2", E5M2, 0x7B)):
        yield Operation(
            code=f"{{.reg .b16 h; cvt.rn.satfinite.{name}x2.f32 h,a,b; cvt.u32.u16 d,h;}}",
            oracle=lambda x, y, z, f=form, g=largest: _eight(y, f, g) | _eight(x, f, g) << 8,
            since=89,
        )
        yield Operation(
            code=f"{{.reg .b16 h,g; mov.b32 {{h,g}},a; cvt.rn.f16x2.{name}x2 d,h;}}",
            oracle=lambda x, y, z, f=form, g=largest: _joined(*(_of_eight(x >> s & 255, f, g) for s in (0, 8))),
            forms=(F16, F16),
            since=89,
        )
    yield Operation(code="cvt.rna.tf32.f32 d,a;", oracle=lambda x, y, z: _tf32(x & WORD), since=80, forms=(F32,))


def _extended(value: int, width: int, is_signed: bool) -> int:
    return _s(value, width) if is_signed else value


def _packed_float(bits: int, form: Format, mode: str, relu: bool) -> Result:
    value = number(bits & WORD, F32)
    return 0 if relu and not is_nan(value) and value <= 0 else rounded(value, form, mode)


def _rectified(bits: Result, relu: bool, form: Format) -> Result:
    return 0 if relu and isinstance(bits, int) and bits >= form.sign else bits  # an H200 makes -0 to 0, too


def _integral(bits: int, form: Format, mode: str) -> Result:
    value = number(bits, form)
    if isinstance(value, float):
        return rounded(value, form)
    return rounded(Fraction(to_integer(value, mode)), form, zero=value < 0)


def _eight(bits: int, form: Format, largest: int) -> int:
    found = rounded(number(bits & WORD, F32), form, largest=largest)
    return 0x7F if isinstance(found, str) else found


def _of_eight(code: int, form: Format, largest: int) -> Result:
    size = code & 0x7F
    if size > largest:
        infinite = form is E5M2 and size == 0x7C
        return (code & 0x80) << 8 | 0x7C00 if infinite else NAN
    if form is E4M3 and size >= form.infinity:  # its largest exponent is of numbers
        return rounded(number(code - 8, form) * 2, F16)  # type: ignore[operator]
    return rounded(number(code, form), F16)


def _tf32(bits: int) -> Result:
    """Ties away from zero; compilers leave the lower bits zero, of NaN too, which may be infinity then."""
    if is_nan(number(bits, F32)):
        return None
    if bits & 0x7FFFFFFF == F32.infinity:
        return bits
    return (bits + 0x1000) & WORD & ~0x1FFF


def _bytes(f: Callable[[int, int], int], is_signed: bool) -> Callable[[int, int], list[int]]:
    def each(x: int, y: int) -> list[int]:
        pairs = [(x >> 8 * k & 255, y >> 8 * k & 255) for k in range(4)]
        return [f(_s(a, 8), _s(b, 8)) if is_signed else f(a, b) for a, b in pairs]

    return each


def others() -> Iterator[Operation]:
    """What compilers use where nothing else asks for the same comparison, on pairs, on three operands, and on bytes."""
    for name in ("eq", "lt", "geu", "nan"):
        yield _int(
            f"set.{name}.f32.f32 d,a,b;",
            lambda x, y, z, n=name: 0x3F800000 * compare(n, number(x, F32), number(y, F32)),
        )
    for name, f, count in (("add", add, 2), ("mul", mul, 2), ("fma", fma, 3)):
        for ftz in (False, True):
            yield Operation(
                code=f"{name}.rn{'.ftz' * ftz}.f32x2 D,{','.join('ABC'[:count])};",
                oracle=lambda *v, f=f, n=count, t=ftz: _pair(
                    *(
                        _flushing(t, F32, lambda *values, f=f: f(*values, F32), n)(*(x >> s & WORD for x in v))
                        for s in (0, 32)
                    )
                ),
                bits=64,
                forms=(F32, F32),
                since=100,
            )
    for name, larger in (("min", False), ("max", True)):
        for nan in (False, True):
            yield _float(
                f"{name}{'.NaN' * nan}.f32 d,a,b,c;",
                lambda x, y, z, g=larger, n=nan: _of_three(x & WORD, y & WORD, z & WORD, g, n),
                F32,
                since=100,
            )
    for kind in "us":
        value = _s if kind == "s" else int
        yield _int(f"max.{kind}32 d,a,b; max.{kind}32 d,d,c;", lambda x, y, z, v=value: max(v(x), v(y), v(z)))
        yield _int(f"min.{kind}32 d,a,b; min.{kind}32 d,d,c;", lambda x, y, z, v=value: min(v(x), v(y), v(z)))
        difference = _bytes(lambda a, b: abs(a - b), kind == "s")
        yield _int(f"vabsdiff4.u32.{kind}32.{kind}32.add d,a,b,c;", lambda x, y, z, f=difference: sum(f(x, y)) + z)
        if kind == "u":
            yield _int(
                "{.reg .b32 t; mov.b32 t,0; vabsdiff4.u32.u32.u32 d,a,b,t;}",
                lambda x, y, z, f=difference: sum(byte << 8 * k for k, byte in enumerate(f(x, y))),
            )
    yield _int(
        "{.reg .pred p,q,r; .reg .b32 t; and.b32 t,c,1; setp.ne.u32 p,t,0; and.b32 t,c,2; setp.ne.u32 q,t,0; "
        "and.b32 t,c,4; setp.ne.u32 r,t,0; mov.u32 t,b; @p add.u32 t,t,a; @q xor.b32 t,t,c; @r sub.u32 t,t,a; mov.b32 d,t;}",
        lambda x, y, z: _steps(x, y, z),
    )


def _pair(low: Result, high: Result) -> Result:
    nan = F32.infinity + 1
    return (nan if isinstance(low, str) else int(low or 0)) | (nan if isinstance(high, str) else int(high or 0)) << 32


def _of_three(x: int, y: int, z: int, larger: bool, nan: bool) -> Result:
    first = minimum(x, y, F32, larger=larger, nan=nan)
    if isinstance(first, str):
        return NAN if nan else minimum(x, z, F32, larger=larger)
    return minimum(first, z, F32, larger=larger, nan=nan)


def _steps(x: int, y: int, z: int) -> int:
    found = y + x if z & 1 else y
    found = found ^ z if z & 2 else found
    return found - x if z & 4 else found


GROUPS: dict[str, Callable[[], Iterator[Operation]]] = {
    "integers": integers,
    "long integers": long_integers,
    "singles": singles,
    "doubles": doubles,
    "halves": halves,
    "conversions": conversions,
    "others": others,
}


def operations(group: str, architecture: int) -> tuple[Operation, ...]:
    """Operations of a group that a compute capability (times ten) has."""
    return tuple(o for o in GROUPS[group]() if o.since <= architecture)


def source_of(given: tuple[Operation, ...], guarded: bool, uniform: bool) -> str:
    """A kernel that computes all operations of each thread's three numbers, or (``uniform``) of those in its parameters.

    ``guarded``: only where the first number is odd; the result is the third number elsewhere.
    """
    loads = "const unsigned long long A = n[3 * i], B = n[3 * i + 1], C = n[3 * i + 2];"
    numbers = "unsigned long long A, unsigned long long B, unsigned long long C"
    lines = []
    for k, operation in enumerate(given):
        wide = operation.bits == 64
        result, kept = ("D", "C") if wide else ("d", "c")
        computed = _asm(operation.code, wide)
        lines.append(f"{{ {result} = {kept}; if (A & 1) {computed} }}" if guarded else computed)
        lines.append(f"out[{k} * gridDim.x * blockDim.x + i] = {result};")
    text = "\n        ".join(lines)
    return f"""
    extern "C" __global__ void k(unsigned long long *out, {numbers if uniform else "const unsigned long long *n"})
    {{
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        {"" if uniform else loads}
        const unsigned a = A, b = B, c = C;
        unsigned d;
        unsigned long long D;
        {text}
    }}
    """


_NAMES = {"d": "%0", "D": "%0", "a": "%1", "b": "%2", "c": "%3", "A": "%4", "B": "%5", "C": "%6"}


def _asm(code: str, wide: bool) -> str:
    groups = itertools.groupby(code, lambda character: character.isalnum() or character in "._")
    text = "".join(_NAMES.get(token, token) for token in ("".join(group) for _, group in groups))
    target = '"=l"(D)' if wide else '"=r"(d)'
    return f'asm volatile("{text}" : {target} : "r"(a), "r"(b), "r"(c), "l"(A), "l"(B), "l"(C));'
