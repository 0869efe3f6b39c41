"""PTX as text, before it is parsed."""

from __future__ import annotations

import re

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def without_comments(text: str) -> str:
    r"""The text with every comment blanked; line numbers stay.

    >>> without_comments("add; // sum\n/* two\n lines */ ret;")
    'add; \n\n ret;'
    """

    def blank(match: re.Match[str]) -> str:
        part = match[0]
        return part if part.startswith('"') else "\n" * part.count("\n")

    return _COMMENT.sub(blank, text)
