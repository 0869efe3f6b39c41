"""Random mutations of PTX text: whatever comes out must be a result or a SimulationError, never another exception or a hang.

Run as a module: ``python -m tests.perfmodel.simulator.fuzz --count 20000 --seed 1``.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from perfmodel.compiler.front_end import compile_to_ptx
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import SimulationError
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Budget, Mode, simulate

from . import cases_control, cases_memory, cases_warp
from .corpus_case import CORPUS, Case

BUDGET = Budget(warp_instructions=20_000, seconds=2.0, memory_bytes=2**26)
_TOKEN = re.compile(r"%?[\w$.]+|[^\s\w]")
_NUMBERS = """0 -1 1 31 32 33 255 4096 2147483648 18446744073709551615 0f7FC00000 99999999999999999999""".split()  # noqa: SIM905
_WORDS = """
    u32 s32 f32 b64 f16x2 pred u8 v4 v2 global shared local const param sync wide hi lo rn rz sat ftz
    ld.global.u64 st.shared.v4.f32 bra ret exit bar.sync shfl.sync.bfly.b32 vote.sync.ballot.b32 atom.shared.cas.b32
    cp.async.ca.shared.global mma.sync @%p1 { } [ ] ; , .reg .shared .entry .func .param .loc call.uni brx.idx
    %rd1 %r1 %f1 %p1 %tid.x %clock %nothing _
""".split()  # noqa: SIM905


def _lines(text: str, random: np.random.Generator, change: Callable[[list[str], int], None]) -> str:
    lines = text.split("\n")
    change(lines, int(random.integers(len(lines))))
    return "\n".join(lines)


def mutate(text: str, random: np.random.Generator) -> str:
    """The text with one to three random changes of characters, tokens or lines."""
    for _ in range(int(random.integers(1, 4))):
        kind = int(random.integers(9))
        tokens = list(_TOKEN.finditer(text))
        token = tokens[int(random.integers(len(tokens)))] if tokens else None
        at = int(random.integers(len(text) + 1))
        if kind == 0:
            text = text[:at] + text[at + int(random.integers(1, 4)) :]
        elif kind == 1:
            text = text[:at] + chr(int(random.integers(32, 127))) + text[at:]
        elif kind == 2:
            text = _lines(text, random, lambda lines, k: lines.__delitem__(k))
        elif kind == 3:
            text = _lines(text, random, lambda lines, k: lines.insert(int(random.integers(len(lines))), lines[k]))
        elif kind == 4:
            text = text[:at] if random.random() < 0.1 else text
        elif token is not None and kind == 5:
            other = tokens[int(random.integers(len(tokens)))]
            text = text[: token.start()] + other[0] + text[token.end() :]
        elif token is not None and kind == 6:
            numbers = [t for t in tokens if t[0].isdigit()]
            chosen = numbers[int(random.integers(len(numbers)))] if numbers else token
            text = text[: chosen.start()] + str(random.choice(_NUMBERS)) + text[chosen.end() :]
        elif token is not None and kind == 7:
            text = text[: token.start()] + str(random.choice(_WORDS)) + text[token.end() :]
        elif token is not None:
            parts = token[0].split(".")
            random.shuffle(parts)
            text = text[: token.start()] + ".".join(parts) + text[token.end() :]
    return text


def sources() -> list[tuple[Case, str, str]]:
    """Case, PTX and kernel name of the corpus kernels that are mutated: one of each launch and size that runs quickly."""
    skipped = {"tiles", "block_primitives", "double_arithmetic", "approximate_functions", "spin_lock", "bitonic_sort"}
    found = []
    for module in (cases_memory, cases_warp, cases_control):
        for make in module.CASES:
            case = make()
            if case.source in skipped:
                continue
            request = CompileRequest(
                source=(CORPUS / f"{case.source}.cu").read_text(),
                kernel=case.kernel or case.source,
                file_name=f"{case.source}.cu",
                defines=case.defines,
                options=("-lineinfo",),
            )
            ptx = compile_to_ptx(request, case.architecture)
            found.append((case, ptx.text, ptx.kernel_name))
    return found


def outcome(case: Case, text: str, kernel: str, random: np.random.Generator, budget: Budget = BUDGET) -> str:
    """What happens to one mutated text: ``result``, or the beginning of the SimulationError."""
    mode = Mode.TRACE if random.random() < 0.3 else Mode.EXECUTE
    try:
        simulate(
            parse_module(text).kernel(kernel),
            Launch(grid_x=1, block_x=case.launch.block_x, block_y=case.launch.block_y, dynamic_shared_bytes=512),
            KernelCall(parameters=case.parameters, constants=case.constants),
            mode=mode,
            check=bool(random.random() < 0.3),
            budget=budget,
        )
    except SimulationError as error:
        if "\n" in str(error):
            raise ValueError(f"more than one line: {error}") from error
        return re.sub(r"PTX line \d+.*: ", "", str(error))[:60]
    return "result"


def fuzz(count: int, seed: int, found: Sequence[tuple[Case, str, str]], budget: Budget = BUDGET) -> Counter[str]:
    """Outcomes of a number of mutations by kind; whatever is no SimulationError comes through."""
    outcomes: Counter[str] = Counter()
    for k in range(count):
        random = np.random.default_rng((seed, k))
        case, text, kernel = found[int(random.integers(len(found)))]
        mutated = mutate(text, random)
        try:
            outcomes[outcome(case, mutated, kernel, random, budget)] += 1
        except Exception as error:
            error.add_note(f"mutation {k} of seed {seed}, kernel {case.source}")
            raise
    return outcomes


def main() -> None:
    """Fuzz from the command line and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="mutations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warp-instructions", type=int, default=BUDGET.warp_instructions, help="budget of each")
    parser.add_argument("--seconds", type=float, default=BUDGET.seconds, help="budget of each")
    parser.add_argument("--memory-bytes", type=int, default=BUDGET.memory_bytes, help="budget of each")
    given = parser.parse_args()
    budget = Budget(warp_instructions=given.warp_instructions, seconds=given.seconds, memory_bytes=given.memory_bytes)
    started = time.monotonic()
    outcomes = fuzz(given.count, given.seed, sources(), budget)
    for text, times in outcomes.most_common(40):
        print(f"{times:6d}  {text}")
    seconds = time.monotonic() - started
    print(f"{given.count} mutations in {seconds:.0f} s: each gave a result or a SimulationError")


if __name__ == "__main__":
    main()
