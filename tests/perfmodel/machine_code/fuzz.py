"""Random mutations of machine code: whatever comes out is a result or one line of error, never another exception or a hang.

Run as a module: ``python -m tests.perfmodel.machine_code.fuzz --count 20000 --seed 1``.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import InputError, PerfmodelError, SimulationError
from perfmodel.launch.launch import KernelCall
from perfmodel.machine_code.instruction import MachineInstruction
from perfmodel.machine_code.operands import Register, parse_operand
from perfmodel.machine_code.program import MachineCode, read_machine_code
from perfmodel.prediction.analyze import analyze
from perfmodel.profiles.totals import counted_run
from perfmodel.simulator.simulation import Budget, Mode

from .tensor_cases import Case, cases

BUDGET = Budget(warp_instructions=20_000, seconds=2.0, memory_bytes=2**26)
NAMES = (
    "wgmma_0",
    "tensors_f32_128",
    "bulk_plain",
    "cluster_exchange",
    "matrices",
    "eight_bits",
    "wide_atomics",
    "calls",
)
GPUS = {"rtx-2080-ti": "sm_75", "h200": "sm_90"}
KERNEL = """
__constant__ float taps[8];
__device__ __noinline__ float root(float x) { return sqrtf(x) / (x + 0.25f); }
extern "C" __global__ void k(float *out, const float *in, int n)
{
    __shared__ float s[64];
    float own[8], sum = 0.0f;
    const int t = threadIdx.x;
    s[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    for (int i = 0; i < 8; i++)
        own[i] = s[(t + i) & 63] * taps[i];
    for (int i = 0; i < n; i++)
        sum += root(own[(i * t) & 7]);
    if (t & 1)
        sum += __shfl_xor_sync(~0u, sum, 0);
    atomicAdd(&out[t & 3], sum);
    out[blockIdx.x * 64 + t] = sum;
}
"""
"""Shared and local memory, constants, a call, divergence and atomics: every kind of section that a cubin has."""
_TOKEN = re.compile(r"[\w$]+|[^\s\w]")
_GUARDS = ("", "@P0", "@!P0", "@P6", "@UP0", "@!PT", "@PT", "@!UP3")


def sources() -> list[tuple[Case, MachineCode]]:
    """Cases and their machine code for sm_90."""
    found = []
    for case in cases("sm_90"):
        if case.name in NAMES:
            request = CompileRequest(
                source=case.source,
                kernel=case.kernel,
                file_name="k.cu",
                defines=case.defines,
                architecture_specific=True,
            )
            found.append((case, read_machine_code(compile_kernel(request, "sm_90"))))
    return found


def _changed(text: str, words: Sequence[str], random: np.random.Generator) -> str:
    """A text with one token replaced by another's, dropped, doubled, or with a character changed."""
    tokens = list(_TOKEN.finditer(text))
    kind = int(random.integers(4))
    if not tokens or kind == 3:
        at = int(random.integers(len(text) + 1))
        return text[:at] + chr(int(random.integers(33, 127))) + text[at:]
    token = tokens[int(random.integers(len(tokens)))]
    new = str(words[int(random.integers(len(words)))]) if kind == 0 else "" if kind == 1 else token[0] * 2
    return text[: token.start()] + new + text[token.end() :]


def mutate(code: MachineCode, random: np.random.Generator) -> MachineCode:
    """The code with one to three instructions changed: opcode, operands, guard or encoding, or taken from another place."""
    instructions: list[MachineInstruction] = list(code.instructions)
    words = [word for i in instructions for word in _TOKEN.findall(f"{i.opcode} {i.operand_text}")]
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(instructions)))
        i = instructions[at]
        kind = int(random.integers(5))
        if kind == 0:
            i = replace(i, opcode=_changed(i.opcode, words, random))
        elif kind == 1:
            i = replace(i, operand_text=_changed(i.operand_text, words, random))
        elif kind == 2:
            text = _GUARDS[int(random.integers(len(_GUARDS)))]
            guard = parse_operand(text[1:]) if text else None
            assert guard is None or isinstance(guard, Register)
            i = replace(i, guard=guard)
        elif kind == 3:
            other = instructions[int(random.integers(len(instructions)))]
            i = replace(other, address=i.address)
        else:
            i = replace(i, word=i.word ^ 1 << int(random.integers(64)))
        instructions[at] = i
    return replace(code, instructions=tuple(instructions))


def outcome(case: Case, code: MachineCode, random: np.random.Generator, budget: Budget = BUDGET) -> str:
    """What happens to one mutant: ``result``, or the beginning of the error."""
    mode = Mode.TRACE if random.random() < 0.3 else Mode.EXECUTE
    try:
        counted_run(
            code,
            case.launch,
            KernelCall(parameters=case.parameters),
            mode=mode,
            budget=budget,
            check=bool(random.random() < 0.3),
        )
    except (SimulationError, InputError) as error:
        if "\n" in str(error):
            raise ValueError(f"more than one line: {error}") from error
        return re.sub(r"machine code 0x\w+.*: ", "", str(error))[:60]
    return "result"


def fuzz(count: int, seed: int, found: Sequence[tuple[Case, MachineCode]], budget: Budget = BUDGET) -> Counter[str]:
    """Outcomes of a number of mutants by kind; whatever is no error of the package comes through."""
    outcomes: Counter[str] = Counter()
    for k in range(count):
        random = np.random.default_rng((seed, k))
        case, code = found[int(random.integers(len(found)))]
        mutant = mutate(code, random)
        try:
            outcomes[outcome(case, mutant, random, budget)] += 1
        except Exception as error:
            error.add_note(f"mutant {k} of seed {seed}, {case.name}")
            raise
    return outcomes


def cubins() -> list[tuple[str, bytes]]:
    """GPUs, and a kernel's cubin for each of them."""
    request = CompileRequest(source=KERNEL, kernel="k", file_name="k.cu")
    return [(gpu, compile_kernel(request, architecture).cubin) for gpu, architecture in GPUS.items()]


def mutate_bytes(cubin: bytes, random: np.random.Generator) -> bytes:
    """The cubin with one to three places of its header, its section table or anything else changed, or cut off."""
    data = bytearray(cubin)
    sections = int.from_bytes(data[40:48], "little")
    for _ in range(int(random.integers(1, 4))):
        first, end = ((0, 64), (sections, len(cubin)), (0, len(cubin)))[int(random.integers(3))]
        at = min(int(random.integers(first, end)), len(data) - 1)
        kind = int(random.integers(8))
        if kind < 3:
            data[at] ^= 1 << int(random.integers(8))
        elif kind < 5:
            data[at] = int(random.integers(256))
        elif kind < 7:
            word = int(random.choice([0, 1, 2**31, 2**32 - 1, 2**63 - 1])).to_bytes(8, "little")
            data[at : at + 8] = word[: len(data[at : at + 8])]
        else:
            data = data[: max(at, 1)]
    return bytes(data)


def fuzz_cubins(count: int, seed: int, folder: Path) -> Counter[str]:
    """Outcomes of a number of cubins with changed bytes, each analysed as a file."""
    outcomes: Counter[str] = Counter()
    found = cubins()
    for k in range(count):
        random = np.random.default_rng((seed, k))
        gpu, cubin = found[k % len(found)]
        path = folder / "mutant.cubin"
        path.write_bytes(mutate_bytes(cubin, random))
        try:
            analyze(path, gpu=gpu, kernel="k", grid=2, block=64, args=["f32[128]", "f32[128]", np.int32(3)])
            outcomes["result"] += 1
        except PerfmodelError as error:
            if "\n" in str(error):
                raise ValueError(f"cubin {k} of seed {seed}: more than one line: {error}") from error
            outcomes[str(error)[:60]] += 1
        except Exception as error:
            error.add_note(f"cubin {k} of seed {seed}")
            raise
    return outcomes


def main() -> None:
    """Fuzz from the command line and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="mutants")
    parser.add_argument("--cubins", type=int, default=1_000, help="cubins with changed bytes")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    started = time.monotonic()
    outcomes = fuzz(given.count, given.seed, sources())
    with tempfile.TemporaryDirectory() as folder:
        outcomes += fuzz_cubins(given.cubins, given.seed, Path(folder))
    for text, times in outcomes.most_common(40):
        print(f"{times:6d}  {text}")
    print(
        f"{given.count + given.cubins} mutants in {time.monotonic() - started:.0f} s: each gave a result or one line of error"
    )


if __name__ == "__main__":
    main()
