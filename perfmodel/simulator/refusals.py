"""What is not executed, said so that a user knows what to do instead."""

from __future__ import annotations

_QUERIES = (
    "the properties of texture and surface objects are not asked for by kernels here: hand them over as arguments"
)
_LEVELS = "levels of mipmaps are not computed: read level 0 (tex2D, or tex2DLod with 0)"
_ATOMICS = "atomics on surfaces are not executed: use atomics on a buffer instead"
_REMEDIES = {
    **dict.fromkeys(("txq", "suq", "TXQ", "SUQUERY"), _QUERIES),
    **dict.fromkeys(("sured", "SUATOM", "SURED"), _ATOMICS),
    "TMML": _LEVELS,
}


def remedy(name: str) -> str | None:
    """What to do about an instruction of PTX or opcode of machine code that is not executed; None where there is nothing.

    >>> remedy("sured")
    'atomics on surfaces are not executed: use atomics on a buffer instead'
    """
    return _REMEDIES.get(name)
