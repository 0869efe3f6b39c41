"""Every decoded field against NVIDIA's own disassembler, on a corpus that uses most of the machine code."""

from __future__ import annotations

import importlib.metadata
import io
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.core.constants import INSTRUCTION_BYTES
from perfmodel.machine_code.decode import NO_TARGET, Instructions, decode
from perfmodel.machine_code.disassembly import readable
from perfmodel.machine_code.opcodes import SASS_CLASSES, SYNONYMS

pytestmark = pytest.mark.compiler

CORPUS = Path(__file__).with_name("sass_corpus.cu")
ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
LISTED = re.compile(r"/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:@(?P<guard>!?U?P\w+)\s+)?(?P<name>[A-Z]\w*)(?P<rest>[^;]*)")


@dataclass(frozen=True)
class Line:
    address: int
    guard: str | None
    name: str
    rest: str


def disassembler() -> str:
    """The program of the wheel, wherever it is installed."""
    distribution = importlib.metadata.distribution("nvidia-cuda-nvdisasm")
    (program,) = [file for file in distribution.files or () if file.name.startswith("nvdisasm") and "bin" in file.parts]
    return str(program.locate())


def listing(cubin: Path) -> tuple[dict[str, list[Line]], dict[str, tuple[str, int]]]:
    """Instructions by section, and the section and address of every label."""
    text = subprocess.run([disassembler(), "-c", cubin], capture_output=True, text=True, check=True).stdout
    sections: dict[str, list[Line]] = {}
    labels: dict[str, tuple[str, int]] = {}
    section, pending = "", list[str]()
    for line in text.splitlines():
        if label := re.match(r"([.$\w]+):$", line):
            section = label[1] if label[1].startswith(".text.") else section
            pending.append(label[1])
        elif found := LISTED.search(line):
            address = int(found["address"], 16)
            labels |= dict.fromkeys(pending, (section, address))
            pending.clear()
            sections.setdefault(section, []).append(Line(address, found["guard"], found["name"], found["rest"]))
    return sections, labels


@dataclass(frozen=True)
class Decoded:
    architecture: str
    sections: dict[str, tuple[Instructions, list[Line]]]
    labels: dict[str, tuple[str, int]]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def decoded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    source = CompileRequest(source=CORPUS.read_text(), kernel="widths", file_name=CORPUS.name)
    cubin = compile_kernel(source, request.param).cubin
    path = tmp_path_factory.mktemp("cubin") / "corpus.cubin"
    path.write_bytes(readable(cubin))
    sections, labels = listing(path)
    elf = ELFFile(io.BytesIO(cubin))
    instructions = {name: decode(elf.get_section_by_name(name).data(), request.param) for name in sections}
    return Decoded(request.param, {name: (instructions[name], sections[name]) for name in sections}, labels)


def test_every_instruction_is_known_and_has_the_disassemblers_name(decoded: Decoded) -> None:
    names = 0
    for instructions, lines in decoded.sections.values():
        assert instructions.unknown_opcodes == ()
        assert len(instructions) == len(lines)
        for index, line in enumerate(lines):
            assert line.address == index * INSTRUCTION_BYTES
            assert instructions.mnemonic(index) in (line.name, SYNONYMS.get(line.name)), (line, hex(line.address))
            names += 1
    assert names > 1000


def expected_width(line: Line) -> int:
    """Bytes that the modifiers of a memory instruction name; 4 without any."""
    if line.name == "LDSM":
        return 4 * int(re.search(r"\.M88\.?(\d?)", line.rest)[1] or 1)  # type: ignore[index]
    for modifier, width in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if modifier in line.rest.split(" ")[0]:
            return width
    return 4


@pytest.mark.parametrize(
    "name",
    ["global_load", "global_store", "shared_load", "shared_store", "local_load", "local_store", "async_copy"],
)
def test_widths_are_those_of_the_modifiers(decoded: Decoded, name: str) -> None:
    seen = set()
    for instructions, lines in decoded.sections.values():
        for index in instructions.is_class(name).nonzero()[0]:
            assert instructions.width_bytes[index] == expected_width(lines[index]), lines[index]
            seen.add(int(instructions.width_bytes[index]))
    if name != "async_copy" or decoded.architecture not in ("sm_70", "sm_75"):
        assert 4 in seen
    if name == "global_load":
        assert {1, 2, 4, 8, 16} - seen <= {8}


def test_guards_and_conditions_are_those_of_the_listing(decoded: Decoded) -> None:
    for instructions, lines in decoded.sections.values():
        for index, line in enumerate(lines):
            assert bool(instructions.guarded[index]) == (line.guard not in (None, "PT", "!PT", "UPT", "!UPT"))
            assert bool(instructions.never[index]) == (line.guard in ("!PT", "!UPT"))
            if line.name == "BRA":
                own = re.match(r"(?:\.\w+)*\s+(!?U?P\d|~?UR\w+)\s*,", line.rest)
                assert bool(instructions.conditional[index]) == (line.guard is not None or own is not None), line


def test_targets_are_the_labels_of_the_listing(decoded: Decoded) -> None:
    compared = 0
    for section, (instructions, lines) in decoded.sections.items():
        for index, line in enumerate(lines):
            label = re.search(r"`\(([.$\w]+)\)", line.rest)
            if label and line.name in ("BRA", "BSSY", "CALL"):
                assert decoded.labels[label[1]] == (section, instructions.target[index]), line
                compared += 1
            if not label:
                assert instructions.target[index] == NO_TARGET or line.name in ("BRA", "BSSY", "CALL"), line
    assert compared > 50


def test_corpus_has_every_class(decoded: Decoded) -> None:
    absent = {"sm_70": {"async_copy", "tensor"}, "sm_75": {"async_copy"}}.get(decoded.architecture, set())
    for name in SASS_CLASSES:
        present = any(instructions.is_class(name).any() for instructions, _ in decoded.sections.values())
        assert present or name in absent, name
