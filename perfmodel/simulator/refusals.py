"""What is not executed, said so that a user knows what to do instead."""

from __future__ import annotations

_TEXTURES = "textures and surfaces are not executed: read the array through a pointer instead"
_REMEDIES = {
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "sust", "sured", "suq"), _TEXTURES),
    **dict.fromkeys(
        ("TEX", "TLD", "TLD4", "TMML", "TXD", "TXQ", "SULD", "SUST", "SUATOM", "SURED", "SUQUERY"), _TEXTURES
    ),
}


def remedy(name: str) -> str | None:
    """What to do about an instruction of PTX or opcode of machine code that is not executed; None where there is nothing.

    >>> remedy("tex")
    'textures and surfaces are not executed: read the array through a pointer instead'
    """
    return _REMEDIES.get(name)
