"""Machine opcodes of sm_70 and newer: mnemonic and class of each, from the low nine bits of a 16-byte instruction.

Source: the compiled and disassembled corpus of the tests, with the CUDA Binary Utilities' table of mnemonics for
names and meaning. The twelve-bit opcode field is nine bits of operation and three bits of operand form, so nine bits
name the operation.
"""

from __future__ import annotations

import re

from ..core.counts import INSTRUCTION_CLASSES

MEMORY_CLASSES: tuple[str, ...] = (
    "global_load",
    "global_store",
    "global_reduction",
    "shared_load",
    "shared_store",
    "async_copy",
    "constant_load",
    "local_load",
    "local_store",
    "texture_load",
    "surface_load",
    "surface_store",
)
"""Classes of memory requests. ``LD`` and ``ST`` without a space stand with the global ones; ``constant_load`` is a
load with a run-time index, while reads at a fixed offset of a constant bank are moves (``integer``). Atomics on
shared memory are ``atomics``."""
LOADS_THROUGH_L1: tuple[str, ...] = ("global_load", "texture_load", "surface_load")
"""Classes of loads that a warp waits for through L1 and what lies behind it."""

SASS_CLASSES: tuple[str, ...] = INSTRUCTION_CLASSES + MEMORY_CLASSES

_TABLE = """
fp32_fma: 023 FFMA 049 FFMA2
fp32_other: 008 FSEL 009 FMNMX 00a FSET 00b FSETP 020 FMUL 021 FADD 022 FSWZADD 04a FMUL2 04b FADD2 076 FMNMX3
    102 FCHK 0a0 UFMUL 0a1 UFADD 0a3 UFFMA 088 UFSEL 08b UFSETP
fp64: 028 DMUL 029 DADD 02a DSETP 02b DFMA
fp16: 030 HADD2 031 HFMA2 032 HMUL2 033 HSET2 034 HSETP2 035 HFMA2 040 HMNMX2
integer: 002 MOV 003 P2R 004 R2P 005 CS2R 007 SEL 00c ISETP 010 IADD3 011 LEA 012 LOP3 013 IABS 014 VABSDIFF
    015 VABSDIFF4 016 PRMT 017 IMNMX 019 SHF 01a SGXT 01b BMSK 01c PLOP3 024 IMAD 025 IMAD 026 IDP 027 IMAD
    036 VIADD 046 VIADDMNMX 048 VIMNMX 082 UMOV 083 UP2UR 087 USEL 08c UISETP 090 UIADD3 091 ULEA 092 ULOP3
    096 UPRMT 097 UIADD3 099 USHF 09a USGXT 09b UBMSK 09c UPLOP3 0a4 UIMAD 0a5 UIMAD 0b9 ULDC 0bd UFLO 0be UBREV
    0bf UPOPC 100 FLO 101 BREV 109 POPC 11c B2R 119 S2R 1aa QSPC 0ca R2UR 1c2 R2UR 1c3 S2UR
conversion: 03e F2FP 043 F2IP 045 I2FP 05a UI2F 104 F2F 105 F2I 106 I2F 107 FRND 110 F2F 111 F2I 112 I2F 113 FRND 138 I2I
    139 I2IP
special_function: 108 MUFU
control: 118 NOP 11a DEPBAR 12d PREEXIT 141 BSYNC 142 BREAK 144 CALL 145 BSSY 146 YIELD 147 BRA 148 WARPSYNC
    149 BRX 14a JMP 14c JMX 14d EXIT 14e LEPC 14f RTT 150 RET 151 BMOV 152 RPCMOV 155 BMOV 156 BMOV 15b KILL
    153 RPCMOV 15c BPT 15d NANOSLEEP 18f CCTL 190 CCTLL 191 CCTLT 192 MEMBAR 1ab ERRBAR 1af LDGDEPBAR
    1c0 GETLMEMBASE 1c1 SETLMEMBASE
    1b4 UTMALDG 1b5 UTMASTG 1b6 UTMAREDG 1b7 UTMACMDFLUSH 1b8 UTMAPF 1b9 UTMACCTL 1ba UBLKCP 1bb UBLKRED 1bc UBLKPF 1bd STAS
    1c5 WARPGROUP 1c6 FENCE 1c8 USETMAXREG
shuffles: 03a MOVM 189 SHFL
votes: 006 VOTE 02f ELECT 086 VOTEU 0cc CREDUX 1a1 MATCH 1c4 REDUX
barriers: 11d BAR 11e R2B 1a7 SYNCS 1b0 ARRIVES 1b1 SYNCS 1b2 SYNCS 1c7 UCGABAR
atomics: 18c ATOMS 18d ATOMS
tensor: 037 IMMA 03c HMMA 03d BMMA 03f DMMA 07a QMMA 1f0 HGMMA 1f1 IGMMA 1f2 BGMMA 1f3 QGMMA
global_load: 180 LD 181 LDG
global_store: 185 ST 186 STG
global_reduction: 18a ATOM 18b ATOM 18e RED 1a2 ATOM 1a3 ATOMG 1a6 RED 1a8 ATOMG 1a9 ATOMG
shared_load: 03b LDSM 184 LDS
shared_store: 044 STSM 188 STS
async_copy: 1ae LDGSTS
constant_load: 0bb ULDC 182 LDC 1ac LDCU
local_load: 183 LDL
local_store: 187 STL
texture_load: 160 TEX 161 TEX 163 TLD4 164 TLD4 166 TLD 167 TLD 16c TXD 16d TXD
surface_load: 199 SULD 19a SULD
surface_store: 19d SUST 19e SUST
"""


def _parse(table: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    names = [""] * 512
    classes = [-1] * 512
    class_index = -1
    for class_name, code, name in re.findall(r"(\w+):|([0-9a-f]{3}) (\w+)", table):
        if class_name:
            class_index = SASS_CLASSES.index(class_name)
        else:
            names[int(code, 16)] = name
            classes[int(code, 16)] = class_index
    return tuple(names), tuple(classes)


MNEMONICS, _CLASSES = _parse(_TABLE)
"""Mnemonic without modifiers by nine-bit opcode; empty where the opcode is not known."""
_NO_REGISTER = 0xFF


SYNONYMS = {"IADD": "HFMA2", "REDG": "RED", "CGAERRBAR": "ERRBAR"}
"""Names that the disassembler gives operations on some architectures, and their name in the table."""


def classes_of_name(mnemonic: str) -> tuple[str, ...]:
    """Classes of the operations that a mnemonic without modifiers stands for; none where it is not known.

    >>> classes_of_name("FFMA"), classes_of_name("ULDC")
    (('fp32_fma',), ('constant_load', 'integer'))
    """
    name = mnemonic if mnemonic in MNEMONICS else SYNONYMS.get(mnemonic)
    codes = [code for code, known in enumerate(MNEMONICS) if known == name]
    return tuple(sorted({SASS_CLASSES[_CLASSES[code]] for code in codes}))


def class_of_word(word: int) -> str:
    """Class of an instruction from the lower half of its encoding; that of control where the opcode is not known.

    A constant load without an index register (low 24-31) is a move.

    >>> class_of_word(0x0000000200017223), class_of_word(0x00000000FF017B82)
    ('fp32_fma', 'integer')
    """
    code = word & 0x1FF
    if MNEMONICS[code] in ("LDC", "LDCU") and word >> 24 & 0xFF == _NO_REGISTER:
        return "integer"
    return SASS_CLASSES[_CLASSES[code]] if _CLASSES[code] >= 0 else "control"
