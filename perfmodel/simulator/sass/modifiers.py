"""Modifiers of machine instructions: which each opcode honours, and which change no result.

An instruction with any other modifier is refused: what it does to the result is not known. Names are those that nvdisasm prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Register
from ..faults import remedy

_DIRECTIONS = "RM RP RZ"
_ORDERED = "EQ NE LT LE GT GE"
_COMPARISONS = f"{_ORDERED} EQU NEU LTU LEU GTU GEU NUM NAN"
_BOOLEAN = "AND OR XOR"
_NARROW = "U8 S8 U16 S16"
_INTEGERS = f"{_NARROW} U32 S32 U64 S64"
_FLOATS = "F16 BF16 F32 F64"
_PARTS = "16x2 U16x2 S16x2 U8x4 S8x4"
_SCOPES = "STRONG MMIO CTA SM GPU SYS"
_OPERATIONS = f"ADD MIN MAX INC DEC EXCH {_BOOLEAN}"
_VALUES = r"32 64 128 S32 U64 S64 F32 F64 F16 F16x2 BF16_V2 BF16x2 (F32|F16|BF16)x[248]"

_HONOURED: Mapping[str, str] = {
    # integers, predicates and moves
    "IADD3 UIADD3 IADD UIADD": "64 X",
    "VIADD UVIADD": f"64 ISAT S32 {_PARTS}",
    "IMAD UIMAD": "U32 HI WIDE X MOV SHL IADD",
    "LEA ULEA": "HI X SX32",
    "SHF USHF": "L R W HI U32 S32 U64 S64",
    "LOP3 ULOP3": "LUT PAND",
    "PLOP3 UPLOP3": "LUT",
    "ISETP UISETP": f"{_ORDERED} F T {_BOOLEAN} U32 64 U64 S64 EX",
    "SEL USEL MOV UMOV": "64",
    "PRMT UPRMT": "F4E B4E RC8 ECL ECR RC16",
    "FLO UFLO": "U32 SH",
    "BMSK UBMSK": "W",
    "SGXT USGXT": "U32 W",
    "IMNMX UIMNMX VIMNMX UVIMNMX VIMNMX3 UVIMNMX3 VIADDMNMX": f"U32 S32 U64 S64 RELU {_PARTS}",
    "IDP": "4A 2A LO HI U8 S8 U16 S16",
    "VABSDIFF": "U32",
    "VABSDIFF4": "U8 ACC",
    "IABS UIABS POPC UPOPC BREV UBREV P2R UP2UR R2P S2R S2UR": "",
    "CS2R CS2UR": "32",
    "R2UR": "BROADCAST OR",
    "LDC ULDC LDCU": f"64 128 {_NARROW}",
    "RPCMOV": "32",
    # floating point
    "FADD UFADD FFMA UFFMA": f"FTZ SAT {_DIRECTIONS}",
    "FMUL UFMUL": f"FTZ SAT {_DIRECTIONS} D2 D4 D8 M2 M4 M8",
    "FADD2 FMUL2 FFMA2": f"FTZ {_DIRECTIONS}",
    "FMNMX FMNMX3": "FTZ NAN XORSIGN",
    "FSETP UFSETP": f"FTZ {_COMPARISONS} {_BOOLEAN}",
    "FSET": f"FTZ BF {_COMPARISONS} {_BOOLEAN}",
    "FSEL UFSEL": "FTZ",
    "FCHK DMNMX FSWZADD": "",
    "MUFU": "RCP RSQ SQRT EX2 LG2 SIN COS TANH RCP64H RSQ64H F16 BF16",
    "DADD DMUL DFMA": _DIRECTIONS,
    "DSETP": f"{_COMPARISONS} MIN MAX {_BOOLEAN}",
    "HADD2": "BF16_V2 F32 FTZ SAT",
    "HMUL2": "BF16_V2 FTZ SAT",
    "HFMA2": "BF16_V2 FTZ SAT RELU",
    "HMNMX2 VHMNMX": "BF16_V2 FTZ NAN",
    "HSETP2": f"BF16_V2 FTZ {_COMPARISONS} {_BOOLEAN}",
    "HSET2": f"BF16_V2 FTZ BF {_COMPARISONS} {_BOOLEAN}",
    "F2F": f"{_FLOATS} FTZ {_DIRECTIONS}",
    "FRND": f"{_FLOATS} FTZ TRUNC FLOOR CEIL",
    "F2I UF2I": f"{_INTEGERS} {_FLOATS} FTZ TRUNC FLOOR CEIL",
    "F2IP": "U8 F32 TRUNC FLOOR CEIL FTZ",
    "I2F UI2F I2FP UI2FP": f"{_INTEGERS} {_FLOATS} {_DIRECTIONS}",
    "F2FP": "F16 BF16 F32 TF32 E4M3 E5M2 RZ RELU SATFINITE PACK_AB PACK_B PACK_AB_MERGE_C UNPACK_B UNPACK_B_MERGE_C",
    "I2I": f"{_NARROW} S32 U32 SAT",
    # memory
    "LD LDG": f"64 128 {_NARROW} {_SCOPES}",
    "ST STG LDS STS LDL STL": f"64 128 {_NARROW}",
    "ATOM ATOMG ATOMS RED REDG": f"{_OPERATIONS} CAS CAST ARRIVE POPC {_VALUES}",
    "LDGSTS": "64 128 BYPASS ZFILL",
    "LDSM STSM": "16 M88 MT88 2 4",
    "MOVM": "16 MT88",
    "QSPC": "S D L G C",
    "STAS": "64 128",
    # textures and surfaces
    "TEX TLD": "B",
    "TLD4": "R G B A",
    "SULD SUST": f"D BA [123]D [12]D_ARRAY 64 128 {_NARROW} TRAP IGN",
    # warps, barriers and control flow
    "SHFL": "UP DOWN BFLY IDX",
    "VOTE VOTEU": "ALL ANY EQ",
    "MATCH": "ALL ANY U64",
    "REDUX": f"SUM MIN MAX {_BOOLEAN} S32",
    "CREDUX": f"MIN MAX {_BOOLEAN} S32",
    "BMOV": "32 CLEAR",
    "BAR": "ARV SYNC RED AND OR POPC",
    "B2R": "RESULT",
    "BPT": "TRAP",
    "BRA": "U DIV CONV ANY",
    "CALL RET": "REL ABS",
    "BSSY BSYNC BREAK WARPSYNC NOP ELECT LEPC BRX BRXU JMP JMX EXIT KILL": "",
    # tensor cores
    "HMMA": r"1684 1688 16816 F16 BF16 TF32 F32",
    "IMMA": "8816 8832 16816 16832 16864 U8 S8 U4 S4 SAT",
    "QMMA": "16832 E4M3 E5M2 F16 F32",
    "BMMA": "88128 168128 168256 AND XOR POPC",
    "DMMA": "884 8x8x4 16x8x4 16x8x8 16x8x16",
    "HGMMA": r"64x\d+x\d+ F16 BF16 TF32 F32",
    "IGMMA": r"64x\d+x\d+ U8 S8",
    "QGMMA": r"64x\d+x\d+ E4M3 E5M2 F16 F32",
    # asynchronous copies
    "SYNCS": "64 PHASECHK TRYWAIT TRANS64 CCTL IV IVALL EXCH ARRIVE A[01R]T[0RX1] RED TMASK OPTOUT ART0",
    "ARRIVES": "LDGSTSBAR ARVCNT TRANSCNT 64",
    "UBLKCP": "S G",
    "UBLKRED": f"S G {_OPERATIONS} F16 F32 F64 U32 S32 64 U64 S64",
    "UTMALDG": "[1-5]D MULTICAST",
    "UTMASTG": "[1-5]D",
    "UTMAREDG": f"[1-5]D {_OPERATIONS}",
    "USETMAXREG": "DEALLOC TRY_ALLOC CTAPOOL",
}
"""Modifiers that a translation reads, by opcodes; regular expressions."""

_CACHE_HINTS = "EF EL LU NA CONSTANT PRIVATE LTC64B LTC128B LTC256B"
_WITHOUT_EFFECT: Mapping[str, str] = {
    "LD LDG": f"E {_CACHE_HINTS}",
    "ST STG": f"E {_CACHE_HINTS} {_SCOPES}",
    "LDL STL": _CACHE_HINTS,
    "LDS": "U",
    "ATOM ATOMG ATOMS RED REDG": f"E {_CACHE_HINTS} {_SCOPES} RN FTZ SPIN",
    "LDGSTS": f"E {_CACHE_HINTS}",
    "QSPC": "E",
    "TEX TLD": "SCR LL LZ LB NODEP",  # arrays have one level
    "TLD4 TXD": "SCR",
    "SULD SUST": _SCOPES,
    "F2I UF2I F2IP": "NTZ",
    "HFMA2": "MMA",
    "MOV UMOV": "SPILL",
    "R2UR": "FILL",
    "BSSY BSYNC BREAK": "RECONVERGENT RELIABLE",
    "WARPSYNC": "ALL COLLECTIVE EXCLUSIVE",
    "BAR": "DEFER_BLOCKING",
    "CALL": "NOINC",
    "RET": "NODEC",
    "UBLKRED": "RN",
    "UBLKPF UTMAPF": "L2 [1-5]D",
    # these instructions give no result at all: fences, hints, waits for what is done at once
    "ACQBULK CGAERRBAR DEPBAR ENDCOLLECTIVE ERRBAR FENCE LDGDEPBAR MEMBAR NANOSLEEP PMTRIG PREEXIT": ".*",
    "CCTL CCTLL CCTLT UCGABAR_ARV UCGABAR_WAIT UTMACCTL UTMACMDFLUSH WARPGROUP YIELD": ".*",
}
"""Modifiers that say how an instruction is scheduled or what caches keep, in which order others see it, or what is so anyhow."""

_OF_OPERANDS: Mapping[str, str] = {
    "PLOP3 UPLOP3": "SIGN",
    "R2P": "B[0-3]",
    "I2F UI2F": "B[0-3] H[01] H0_H0 H1_H1",
    "MUFU": "H0_H0 H1 H1_H1",
    "HADD2 HMUL2 HFMA2 HMNMX2 VHMNMX HSETP2 HSET2": "F32 H0_H0 H1_H1",
    "F2F F2I FRND": "H0_H0 H1_H1",
    "F2FP": "H0 H1 H0_H0 H1_H1",
    "FADD2 FMUL2 FFMA2": "F32x2 HI_LO",
    "IMMA QMMA BMMA": "ROW COL",
}
"""Modifiers of operands, which choose a part of a register; those of addresses are read where they are parsed."""


def _patterns(table: Mapping[str, str]) -> dict[str, str]:
    return {name: "|".join(modifiers.split()) for names, modifiers in table.items() for name in names.split()}


_OPERANDS = _patterns(_OF_OPERANDS)
_HONOURED_OF, _WITHOUT_EFFECT_OF = _patterns(_HONOURED), _patterns(_WITHOUT_EFFECT)
KNOWN_OPCODES = frozenset(_HONOURED_OF) | frozenset(_WITHOUT_EFFECT_OF)
"""Opcodes whose modifiers are listed."""


@cache
def _unknown_modifier(parts: tuple[str, ...]) -> str | None:
    """The first modifier of an opcode, split at its dots, that is not listed."""
    name, *modifiers = parts
    known = [table[name] for table in (_HONOURED_OF, _WITHOUT_EFFECT_OF) if name in table]
    pattern = re.compile("|".join(one for one in known if one) or "(?!)")
    return next((modifier for modifier in modifiers if not pattern.fullmatch(modifier)), None)


def require_known_modifiers(i: MachineInstruction) -> None:
    """Refuse an instruction with a modifier of which it is not known what it does.

    Raises:
        SimulationError: names the instruction, the modifier and what is missing.
    """
    unknown = _unknown_modifier(i.parts)
    if unknown is None:
        for operand in i.operands:
            if isinstance(operand, Register | Constant) and operand.modifiers:
                known = re.compile(_OPERANDS.get(i.name, "(?!)"))
                unknown = next((one for one in operand.modifiers if not known.fullmatch(one)), None)
                if unknown is not None:
                    break
    if unknown is not None:
        raise i.error(
            remedy(f".{unknown}")
            or f"modifier .{unknown} of {i.name} is not executed: it needs a translation, and a place among the modifiers, "
            "in perfmodel.simulator.sass"
        )
