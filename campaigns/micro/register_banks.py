"""How fast arithmetic reads registers, and what branches cost: ``python -m campaigns.micro.register_banks OUT.json``.

The compiler does not let one choose registers, so its machine code is patched: every FFMA of a loop becomes an instruction
that reads what a pattern says. ``e f g`` are registers of the even bank, ``o p`` of the odd one; ``E``, ``F`` and ``O`` are
others with each instruction, ``d`` is the destination, which lies in either bank in turn, and ``*`` keeps the first operand for
reuse. ``L:``, ``A:`` and ``I:`` stand before the registers of LOP3, IADD3 and IMAD. ``BRA`` is a branch to the next instruction.
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
)
"""Instructions that follow one another."""
WARPS = (1, 2, 4)
"""Warps of a scheduler."""
LOOPS = 200
_FFMA, _ALWAYS = 0x223, 7 << 12
_BRANCH = (0x947 | _ALWAYS, 0x3800000)
_BRANCH_STALL_CYCLES = 5
_INTEGERS = {"L": "LOP3", "A": "IADD3", "I": "IMAD"}
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


def integer_instructions(compiled: CompiledKernel) -> dict[str, tuple[int, int]]:
    """Instructions on three registers by the letter of a pattern, as two words whose registers and control bits are to be set."""
    code = read_machine_code(compiled)
    start = compiled.cubin.index(code.cubin.code)
    found = {}
    for letter, name in _INTEGERS.items():
        one = next(i for i in code.instructions if i.name == name and len(re.findall(r"\bR\d+", i.operand_text)) == 4)
        found[letter] = struct.unpack_from("<QQ", compiled.cubin, start + one.address)
    return found


def patched(compiled: CompiledKernel, integers: dict[str, tuple[int, int]], pattern: str) -> tuple[bytes, int]:
    """The cubin whose loop has the instructions of a pattern, and how many they are."""
    code = read_machine_code(compiled)
    branch = next(i for i in code.instructions if i.name == "BRA" and i.target is not None and i.target < i.address)
    loop = [i for i in code.instructions if branch.target <= i.address < branch.address and i.name == "FFMA"]  # type: ignore[operator]
    taken = {0, *range(16)}
    for instruction in code.instructions:
        if instruction.name not in ("FFMA", "LDG", "FADD"):
            taken |= {int(n) + k for n in re.findall(r"\bR(\d+)\b", instruction.operand_text) for k in (0, 1)}
    free = [n for n in range(compiled.resources.registers_per_thread - 1) if n not in taken]
    banks = [[n for n in free if n % 2 == bank] for bank in (0, 1)]
    written = list(itertools.chain(*zip(banks[0][:8], banks[1][:8], strict=True)))
    read = [bank[8:] for bank in banks]
    cubin, start = bytearray(compiled.cubin), compiled.cubin.index(code.cubin.code)
    words = pattern.split()
    for number, instruction in enumerate(loop):
        target = written[number % len(written)]
        place = start + instruction.address
        operation, _, word = words[number % len(words)].rpartition(":")
        if word == "BRA":
            low, high = _BRANCH
            cubin[place : place + 16] = struct.pack("<QQ", low, high | _control(instruction, _BRANCH_STALL_CYCLES))
            continue
        low, high = integers[operation] if operation else (_FFMA | _ALWAYS, 0)
        cubin[place : place + 16] = _instruction(low, high, word, number, target, read, instruction)
    return bytes(cubin), len(loop)


def _instruction(
    low: int, high: int, word: str, number: int, target: int, read: list[list[int]], before: MachineInstruction
) -> bytes:
    """An instruction that may be issued a cycle after the one before it, and waits for what that in its place has waited for."""
    operands = []
    for letter in word.replace("*", ""):
        if letter == "d":
            operands.append(target)
        elif letter in _FIXED:
            bank, index = _FIXED[letter]
            operands.append(read[bank][index])
        else:
            bank, index = _CHANGING[letter]
            operands.append(read[bank][index + number % 8])
    a, b, c = operands
    control = _control(before, 1) | int("*" in word) << 58
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
    other = CompileRequest(source=_INTEGER_SOURCE, kernel="integers", file_name="integers.cu")
    integers = integer_instructions(compile_kernel(other, target))
    given, out, cycles = cupy.ones(8192, "f4"), cupy.zeros(512 * sms, "f4"), cupy.zeros(sms, "i8")
    found: dict[str, list[float]] = {}
    for pattern in PATTERNS:
        cubin, count = patched(compiled, integers, pattern)
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
