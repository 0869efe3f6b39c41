"""How arithmetic reads registers, and what branches and products cost: ``python -m campaigns.micro.register_banks OUT.json``.

The compiler does not let one choose registers, so its machine code is patched: every FFMA of a loop becomes an instruction
that reads what a pattern says. ``e f g`` are registers of the even bank, ``o p`` of the odd one; ``E``, ``F`` and ``O`` are
others with each instruction, ``z`` is zero and no register, ``d`` is the destination, which lies in either bank in turn, and
``*`` keeps the first operand for reuse. ``L:``, ``A:`` and ``I:`` stand before the registers of LOP3, IADD3 and IMAD. ``BRA``
is a branch to the next instruction, ``LDS`` a read of one word of shared memory by all lanes, ``LDS2`` and ``LDS4`` one of two
and four words, and ``MMA`` a product (HMMA.1688.F32.TF32) whose sums are others each time. Behind an instruction its warp waits
for a cycle, and for one more for each ``~``, so that other warps take its turn.
"""

from __future__ import annotations

import itertools
import json
import re
import struct
import sys
from pathlib import Path

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.instruction import MachineInstruction
from perfmodel.machine_code.program import read_machine_code

PATTERNS = (
    "eee",
    "eoe",
    "efe",
    "eof",
    "efg",
    "efe opo",
    "eof oep",
    "eof eof eof eof oep oep oep oep",
    "efe ggg",
    "efe ooo",
    "efe ooo ooo ooo",
    "efg ooo ooo ooo",
    "e*OE",
    "e*EF",
    "eOd",
    "e*Od",
    "e*Od e*Ed",
    "e*Ed e*Od",
    "L:eof",
    "L:efg",
    "A:efg",
    "I:eof",
    "I:efg",
    "eoe L:eoe",
    "eoe L:eof",
    "eoe L:efg",
    "ooo L:efg",
    "efe L:opo",
    "efg L:ooo",
    "eof L:oep",
    "eoe A:efg",
    "eoe I:efg",
    "ooo I:efg",
    "L:efg I:efg",
    "BRA",
    "BRA eoe",
    "BRA eoe eoe eoe",
    "BRA eoe eoe eoe eoe eoe eoe eoe",
    "BRA BRA eoe eoe",
    "e*fg e*fg",
    "e*fg ooo e*fg",
    "e*fg ooo ooo ooo e*fg",
    "e*fg ooo ooo ooo efg",
    "e*fg zzz e*fg",
    "e*fg f*oo e*fg",
    "e*fg~ e*fg~",
    "e*fg~ ooo~ e*fg~",
    "e*fg~~~ ooo e*fg",
    "e*fg L:ooo e*fg",
    "e*fg L:ooo L:ooo e*fg",
    "e*fg LDS e*fg",
    "e*fg LDS efg",
    "e*fg LDS ooo e*fg",
    "e*fg MMA e*fg",
    "MMA",
    "MMA zzz",
    "MMA zzz zzz",
    "MMA zzz zzz zzz",
    "MMA eee",
    "MMA eoe",
    "MMA eoe eoe",
    "MMA eoe eoe eoe",
    "MMA eoe eoe eoe eoe",
    "MMA eof",
    "MMA efg",
    "MMA efg ooo",
    "MMA MMA eoe eoe eoe eoe",
    "MMA MMA MMA MMA eoe eoe eoe eoe eoe eoe eoe eoe",
    "MMA L:eee",
    "MMA L:eoe",
    "MMA L:eee eoe",
    "MMA L:eee L:eee eoe eoe",
    "LDS",
    "LDS2",
    "LDS4",
    "LDS2 eoe eoe eoe eoe",
    "LDS4 eoe eoe eoe eoe eoe eoe eoe",
    "LDS eoe eoe eoe eoe eoe eoe eoe",
    "LDS eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe",
    "LDS2 eoe eoe eoe eoe eoe eoe eoe",
    "LDS2 eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe",
    "LDS4 eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe",
    "LDS4 eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe eoe",
    "LDS4 zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz zzz",
    "LDS4 eof eof eof eof eof eof eof eof eof eof eof eof eof eof eof",
    "MMA LDS eoe eoe",
    "MMA LDS eoe MMA LDS eoe MMA eoe eoe",
)
"""Instructions that follow one another."""
WARPS = (1, 2, 4)
"""Warps of a scheduler."""
LOOPS = 200
_FFMA, _ALWAYS = 0x223, 7 << 12
_BRANCH = (0x947 | _ALWAYS, 0x3800000)
_BRANCH_STALL_CYCLES = 5
_INTEGERS = {"L": "LOP3", "A": "IADD3", "I": "IMAD"}
_OTHERS = {"LDS": "LDS", "LDS2": "LDS", "LDS4": "LDS", "MMA": "HMMA"}
_WIDTHS = {"LDS": 4, "LDS2": 5, "LDS4": 6}
_SUMS, _LEFT, _RIGHT = 4, 2, 2
"""Fours of registers for sums of products and their left factors, pairs for the right ones."""
_PRODUCT_STALL_CYCLES = 6
"""What the compiler leaves between two products of a warp."""
_ZERO_REGISTER = 255
_INTEGER_SOURCE = """
extern "C" __global__ void integers(int *out, const int *in)
{
    int x = in[threadIdx.x], y = in[threadIdx.x + 32], z = in[threadIdx.x + 64], logic;
    asm("lop3.b32 %0, %1, %2, %3, 0x1e;" : "=r"(logic) : "r"(x), "r"(y), "r"(z));
    out[threadIdx.x] = logic;
    out[threadIdx.x + 32] = x + y + z;
    out[threadIdx.x + 64] = x * y + z;
}
"""
_PRODUCT_SOURCE = """
extern "C" __global__ void products(float *out, const unsigned *in)
{
    __shared__ float words[32];
    unsigned a[4], b[2];
    float c[4];
    for (int i = 0; i < 4; ++i) a[i] = in[threadIdx.x + 32 * i];
    for (int i = 0; i < 2; ++i) b[i] = in[threadIdx.x + 32 * i + 128];
    for (int i = 0; i < 4; ++i) c[i] = a[i] + 1;
    words[threadIdx.x] = c[1];
    __syncthreads();
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    out[threadIdx.x] = c[0] + c[1] + c[2] + c[3] + words[in[threadIdx.x]];
}
"""
_SUM = 96
_FIXED = {"e": (0, 0), "f": (0, 1), "g": (0, 2), "o": (1, 0), "p": (1, 1)}
_CHANGING = {"E": (0, 4), "F": (0, 12), "O": (1, 4)}
_SOURCE = f"""
extern "C" __global__ void __launch_bounds__(512) banks(float *out, const float *in, int loops, long long *cycles)
{{
    float a[{_SUM}];
    #pragma unroll
    for (int i = 0; i < {_SUM}; ++i) a[i] = in[i * 32 + threadIdx.x % 32];
    float x = in[5000 + threadIdx.x % 7], sum = 0;
    __syncthreads();
    long long begin = clock64();
    #pragma unroll 1
    for (int loop = 0; loop < loops; ++loop) {{
        #pragma unroll
        for (int i = 0; i < 2 * {_SUM}; ++i) a[i % {_SUM}] = __fmaf_rn(a[i % {_SUM}], x, a[(i + 1) % {_SUM}]);
    }}
    long long end = clock64();
    #pragma unroll
    for (int i = 0; i < {_SUM}; ++i) sum += a[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (threadIdx.x == 0) cycles[blockIdx.x] = end - begin;
}}
"""


def further_instructions(target: str) -> dict[str, tuple[int, int]]:
    """Instructions by the letters of a pattern, as two words whose registers and control bits are to be set.

    Those of integers have three registers that they read.
    """
    found = {}
    for source, kernel, names, registers in (
        (_INTEGER_SOURCE, "integers", _INTEGERS, 4),
        (_PRODUCT_SOURCE, "products", _OTHERS, 0),
    ):
        request = CompileRequest(source=source, kernel=kernel, file_name=f"{kernel}.cu", architecture_specific=True)
        compiled = compile_kernel(request, target)
        code = read_machine_code(compiled)
        start = compiled.cubin.index(code.cubin.code)
        for letters, name in names.items():
            one = next(
                i
                for i in code.instructions
                if i.name == name and registers in (0, len(re.findall(r"\bR\d+", i.operand_text)))
            )
            found[letters] = struct.unpack_from("<QQ", compiled.cubin, start + one.address)
    return found


def patched(compiled: CompiledKernel, further: dict[str, tuple[int, int]], pattern: str) -> tuple[bytes, int]:
    """The cubin whose loop has the instructions of a pattern, and how many they are."""
    code = read_machine_code(compiled)
    branch = next(i for i in code.instructions if i.name == "BRA" and i.target is not None and i.target < i.address)
    loop = [i for i in code.instructions if branch.target <= i.address < branch.address and i.name == "FFMA"]  # type: ignore[operator]
    taken = {0, *range(16)}
    for instruction in code.instructions:
        if instruction.name not in ("FFMA", "LDG", "FADD"):
            taken |= {int(n) + k for n in re.findall(r"\bR(\d+)\b", instruction.operand_text) for k in (0, 1)}
    free = [n for n in range(compiled.resources.registers_per_thread - 1) if n not in taken]
    free, of_products = _apart(free)
    banks = [[n for n in free if n % 2 == bank] for bank in (0, 1)]
    written = list(itertools.chain(*zip(banks[0][:8], banks[1][:8], strict=True)))
    read = [bank[8:] for bank in banks]
    cubin, start = bytearray(compiled.cubin), compiled.cubin.index(code.cubin.code)
    words, products = pattern.split(), itertools.count()
    for number, instruction in enumerate(loop):
        target = written[number % len(written)]
        place = start + instruction.address
        operation, _, word = words[number % len(words)].rpartition(":")
        if word == "BRA":
            low, high = _BRANCH
            cubin[place : place + 16] = struct.pack("<QQ", low, high | _control(instruction, _BRANCH_STALL_CYCLES))
            continue
        if word in _OTHERS:
            stall = _PRODUCT_STALL_CYCLES if word == words[(number + 1) % len(words)] == "MMA" else 1
            one = (
                _product(*further[word], next(products), of_products)
                if word == "MMA"
                else _read(*further[word], _WIDTHS[word], of_products[0][number % _SUMS])
            )
            cubin[place : place + 16] = struct.pack("<QQ", one[0], one[1] | _control(instruction, stall))
            continue
        low, high = further[operation] if operation else (_FFMA | _ALWAYS, 0)
        cubin[place : place + 16] = _instruction(low, high, word, number, target, read, instruction)
    return bytes(cubin), len(loop)


def _apart(free: list[int]) -> tuple[list[int], list[list[int]]]:
    """The registers without those of products, and of these the first ones of sums, of left and of right factors."""
    last = max(free) // 4 * 4
    fours = range(last - 4 * (_SUMS + _LEFT) - 2 * _RIGHT, last, 4)
    pairs = [fours[-1], fours[-1] + 2]
    kept = [n for n in free if n < fours[0]]
    return kept, [list(fours[:_SUMS]), list(fours[_SUMS : _SUMS + _LEFT]), pairs]


def _product(low: int, high: int, number: int, registers: list[list[int]]) -> tuple[int, int]:
    sums, left, right = registers
    c, a, b = sums[number % _SUMS], left[number // _SUMS % _LEFT], right[number % _RIGHT]
    low = low & ~(0xFFFFFF << 16) | c << 16 | a << 24 | b << 32
    return low, high & ((1 << 41) - 1 & ~0xFF) | c


def _read(low: int, high: int, width: int, target: int) -> tuple[int, int]:
    """A read of shared memory at 0."""
    low = low & ~(0xFFFF << 16) | target << 16 | _ZERO_REGISTER << 24
    return low, high & (1 << 41) - 1 & ~(7 << 9) | width << 9


def _instruction(
    low: int, high: int, word: str, number: int, target: int, read: list[list[int]], before: MachineInstruction
) -> bytes:
    """An instruction that may be issued a cycle after the one before it, and waits for what that in its place has waited for."""
    operands = []
    for letter in word.replace("*", "").replace("~", ""):
        if letter == "d":
            operands.append(target)
        elif letter == "z":
            operands.append(_ZERO_REGISTER)
        elif letter in _FIXED:
            bank, index = _FIXED[letter]
            operands.append(read[bank][index])
        else:
            bank, index = _CHANGING[letter]
            operands.append(read[bank][index + number % 8])
    a, b, c = operands
    control = _control(before, 1 + word.count("~")) | int("*" in word) << 58
    registers, modifiers = 0xFFFFFF << 16, (1 << 41) - 1 & ~0xFF
    low = low & ~registers | target << 16 | a << 24 | b << 32
    return struct.pack("<QQ", low, high & modifiers | c | control)


def _control(before: MachineInstruction, stall_cycles: int) -> int:
    """Control bits of an instruction that waits for what that in its place has waited for."""
    wait = before.high >> 52 & 63
    return (stall_cycles | 1 << 4 | 7 << 5 | 7 << 8 | wait << 11) << 41


def measured() -> dict[str, list[float]]:
    """Cycles of an instruction by pattern, for each number of warps of a scheduler."""
    import cupy  # type: ignore[import-not-found,import-untyped,unused-ignore]

    device = cupy.cuda.Device()
    sms = device.attributes["MultiProcessorCount"]
    target = f"sm_{device.compute_capability}"
    compiled = compile_kernel(CompileRequest(source=_SOURCE, kernel="banks", file_name="banks.cu"), target)
    further = further_instructions(target)
    given, out, cycles = cupy.ones(8192, "f4"), cupy.zeros(512 * sms, "f4"), cupy.zeros(sms, "i8")
    found: dict[str, list[float]] = {}
    for pattern in PATTERNS:
        cubin, count = patched(compiled, further, pattern)
        module = cupy.cuda.function.Module()
        module.load(cubin)
        kernel = module.get_function(compiled.kernel_name)
        for warps in WARPS:
            least = float("inf")
            for _ in range(3):
                kernel((sms,), (128 * warps,), (out, given, cupy.int32(LOOPS), cycles))
                device.synchronize()
                least = min(least, float(cupy.median(cycles)) / (LOOPS * count * warps))
            found.setdefault(pattern, []).append(round(least, 3))
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")
