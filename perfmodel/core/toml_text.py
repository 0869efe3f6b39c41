"""TOML that a user hands in: read, or refused in one line."""

from __future__ import annotations

import tomllib
from typing import Any

from ..errors import InputError


def parse_toml(text: str, place: str) -> dict[str, Any]:
    """The tables of a TOML text; ``place`` begins the message where it is none.

    Raises:
        InputError: The text is damaged, nested too deeply, or has an integer too long to read.

    >>> parse_toml("a = [1, 2]", "example")
    {'a': [1, 2]}
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: {error}") from error
