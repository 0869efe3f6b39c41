"""Names that only code for the host uses: a declaration without ``__device__`` that mentions one is left out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .tokens import Token, TokenKind

_HOST_NAME = re.compile(
    r"cuda(?!TextureObject_t|SurfaceObject_t)[A-Z]\w*"
    r"|cu(?:Init|Mem|Ctx|Device|Module|Launch|Stream|Event|Func)\w*|CU(?:device|context|module|function|stream|event)"
    r"|(?:cublas|cudnn|cufft|cusparse|cusolver|curand|nccl|nvml|nvtx)[A-Z]\w*|MPI_\w*|omp_\w*"
    r"|FILE|thrust|timeval|timespec|time_t|getenv|exit|malloc_host"
)
_DEVICE_STD_NAME = re.compile(
    r"u?int(?:_fast|_least)?\d+_t|u?intptr_t|size_t|ptrdiff_t|nullptr_t|byte|numeric_limits|numbers"
    r"|min|max|swap|move|forward|exchange|clamp|declval|abs|fabs|sqrt|exp|log|pow|sin|cos|tanh|floor|ceil|round|fma"
    r"|array|tuple|pair|get|tie|make_tuple|make_pair|complex|optional|initializer_list"
    r"|integral_constant|bool_constant|true_type|false_type|conditional(?:_t)?|enable_if(?:_t)?|void_t|conjunction(?:_v)?"
    r"|is_\w+|has_\w+|remove_\w+|add_\w+|make_(?:un)?signed(?:_t)?|decay(?:_t)?|common_type(?:_t)?|underlying_type(?:_t)?"
    r"|(?:make_)?(?:index|integer)_sequence|index_sequence_for|plus|minus|multiplies|less|greater|equal_to"
)


def mentions_host(tokens: Sequence[Token], dropped: set[str]) -> bool:
    """Whether tokens name something of the host: its libraries, or a declaration that was left out itself.

    >>> from perfmodel.sources.tokens import tokens_of
    >>> mentions_host(tokens_of("std::vector<float> data;", "k.cu"), set())
    True
    >>> mentions_host(tokens_of("const float top = std::numeric_limits<float>::max();", "k.cu"), set())
    False
    """
    for index, token in enumerate(tokens):
        if token.kind is not TokenKind.NAME:
            continue
        if token.text in dropped or _HOST_NAME.fullmatch(token.text):
            return True
        if std_name(tokens, index) not in (None, "") and not _DEVICE_STD_NAME.fullmatch(std_name(tokens, index) or ""):
            return True
    return False


def std_name(tokens: Sequence[Token], index: int) -> str | None:
    """The name after ``std::`` at this place, None where there is no ``std::`` or it is ``cuda::std::``."""
    if tokens[index].text != "std" or index + 2 >= len(tokens) or tokens[index + 1].text != "::":
        return None
    if index >= 2 and tokens[index - 1].text == "::" and tokens[index - 2].text == "cuda":
        return None
    return tokens[index + 2].text
