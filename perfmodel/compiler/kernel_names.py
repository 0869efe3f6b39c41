"""Names of kernels in compiled code: mangled ones made readable, and the one that a user means found among them."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from ..errors import InputError
from ..sources.ptx_text import without_comments

_ENTRY = re.compile(r"\.entry\s+([\w$.]+)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BOUNDS = r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)\s*"
_TEMPLATE = re.compile(
    rf"\btemplate\s*<([^;{{}}()]*)>\s*(?:(?:static\s+|inline\s+|extern\s+|{_BOUNDS}))*__global__\s+"
    rf"(?:{_BOUNDS})?void\s+(?:{_BOUNDS})?(\w+)\s*\("
)
_DECLARED = re.compile(r"\b__global__\s+[^;{}()=]*?\b(\w+)\s*\([^;{}()]*\)\s*;")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|_GLOBAL__N_\w*)::")


def kernels_of(ptx: str) -> tuple[str, ...]:
    """The kernels of a PTX text by their names in it, in order.

    >>> kernels_of(".visible .entry _Z1kPf(.param .u64 p) { ret; }")
    ('_Z1kPf',)
    """
    return tuple(dict.fromkeys(_ENTRY.findall(without_comments(ptx) if "/*" in ptx else ptx)))


_OF_FILE = re.compile(r"^__nv_static_\d+__\w*?_(?=_Z)")


@cache
def _demangler() -> Any:
    """``__cxa_demangle`` of the C++ library, which SciPy and every C++ compiler bring; None where there is none."""
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None
    function.restype = ctypes.c_void_p
    return function


def demangled(name: str) -> str:
    """A name as C++ writes it; as it stands where it is not mangled.

    >>> demangled("_ZN2ns4convILi5EfEEvPKT0_i")
    'void ns::conv<5, float>(float const*, int)'

    What nvlink puts before names of one file alone goes.
    """
    function = _demangler()
    name = _OF_FILE.sub("", name)
    if function is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int()
    address = function(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    text = ctypes.string_at(address).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(address))
    return text


def split_name(name: str) -> tuple[str, tuple[str, ...] | None]:
    """The qualified name and the parameter types of a mangled name; no types where the name states none.

    >>> split_name("_ZN2ns4convILi5EfEEvPKT0_i")
    ('ns::conv<5, float>', ('float const*', 'int'))
    >>> split_name("plain")
    ('plain', None)
    """
    text = _ANONYMOUS.sub("", demangled(name))
    plain = without_parameters(text)
    if plain == text:
        return text, None
    types = tuple(_split(text[len(plain) + 1 : -1]))
    return plain.removeprefix("void "), () if types == ("void",) else types


def without_parameters(name: str) -> str:
    """A readable name without the types of its parameters.

    >>> without_parameters("conv<(Kind)1>(float *, int (*)(int))")
    'conv<(Kind)1>'
    """
    if not name.endswith(")"):
        return name
    depth, start = 0, len(name)
    while start:
        start -= 1
        depth += (name[start] == ")") - (name[start] == "(")
        if depth == 0:
            break
    return name[:start]


def shortened(name: str, most: int = 60) -> str:
    """A name as people know it where it is long: without its namespaces, and with the arguments of a template left out.

    >>> shortened("cub::detail::DeviceScanKernel<cub::detail::policy<int, int, unsigned int>, int*, int*, plus>")
    'DeviceScanKernel<…>'
    """
    if len(name) <= most:
        return name
    stem, mark, _ = name.partition("<")
    return stem.rpartition("::")[2] + ("<…>" if mark else "")


def _split(text: str) -> Iterable[str]:
    """The parts between commas that stand in no bracket."""
    depth, begin = 0, 0
    for position, character in enumerate(text):
        depth += (character in "<([{") - (character in ">)]}")
        if character == "," and depth == 0:
            yield text[begin:position].strip()
            begin = position + 1
    if text[begin:].strip():
        yield text[begin:].strip()


_OF_LIBRARIES = re.compile(r"(?:cub|thrust)::")
"""Qualified names of kernels that a file gets by including a library."""


def listed(names: Iterable[str]) -> str:
    """Kernels as a message lists them."""
    texts = []
    for name in names:
        qualified, types = split_name(name)
        texts.append(qualified if types is None else f"{qualified}({', '.join(types)})")
    return "; ".join(texts) or "none"


def kernel_templates(source: str) -> tuple[str, ...]:
    """Names of the kernels of a source that are templates, in order.

    >>> kernel_templates("template <int N> __launch_bounds__(f(N)) __global__ /* of ours */ void scale(float *x) { }")
    ('scale',)
    """
    return tuple(_template_parameters(source))


def _template_parameters(source: str) -> dict[str, str]:
    """Names of the kernels of a source that are templates, with the text of their parameters."""
    found: dict[str, str] = {}
    for parameters, name in _TEMPLATE.findall(_COMMENT.sub(" ", source)):
        found.setdefault(name, parameters)
    return found


def template_example(source: str, name: str = "") -> str:
    """How a template of a source is named with its arguments; one of its templates where no name is given.

    >>> template_example("template <typename T, int N, bool B = true> __global__ void scale(T *x) { }")
    'scale<float, 1>'
    """
    known = _template_parameters(source)
    name = name or next(iter(known), "conv")
    parts = [part for part in _split(known.get(name, "typename T")) if "=" not in part]
    return f"{name}<{', '.join(map(_argument_example, parts))}>"


def _argument_example(parameter: str) -> str:
    """An argument for a parameter of a template."""
    if re.match(r"(?:typename|class)\b", parameter):
        return "float"
    kind = re.sub(r"\bconst\b|\bconstexpr\b", "", parameter).split()[:-1] or [parameter]
    if kind[-1] == "bool":
        return "true"
    integers = re.fullmatch(
        r"(?:unsigned|signed|int|long|short|char|u?int\d+_t|size_t|std::size_t|uint)+", "".join(kind)
    )
    return "1" if integers else f"({' '.join(kind)})0"


def unused_templates(source: str) -> str:
    """How to name kernels of a source that are templates, which are compiled only where something uses them.

    >>> unused_templates("template <typename T> __global__ void scale(T *x) { }")
    "templates that the file does not use are named with their arguments, as in 'scale<float>': scale"

    Kernels that a file declares and another one defines are named, too.

    >>> unused_templates("__global__ void scale(float *x, int n);")
    'scale is declared there and defined in another file: give that one'
    """
    names = kernel_templates(source)
    plain = _COMMENT.sub(" ", source)
    declared = [name for name in dict.fromkeys(_DECLARED.findall(plain)) if not _is_defined(name, plain)]
    if declared and not names:
        verb = "is" if len(declared) == 1 else "are"
        return f"{', '.join(declared)} {verb} declared there and defined in another file: give that one"
    if not names:
        return "a template that the file does not use is named with its arguments, as in 'conv<5,2>'"
    how = f"templates that the file does not use are named with their arguments, as in {template_example(source)!r}"
    return f"{how}: {', '.join(names)}"


def _is_defined(kernel: str, source: str) -> bool:
    return re.search(rf"\b{kernel}\s*\([^;{{}}]*\)\s*\{{", source) is not None


def no_kernel(origin: str, wanted: str, names: Iterable[str], reason: str = "") -> str:
    """The message for a source without the kernel that is asked for, or without any.

    >>> no_kernel("k.cu", "conv", ["scale"])
    "k.cu has no kernel 'conv'; its kernels: scale"
    >>> no_kernel("k.cu", "", [])
    'k.cu has no kernel'
    """
    text = f"{origin} has no kernel" + (f" {wanted!r}; its kernels: {listed(names)}" if wanted else "")
    return text + (f" ({reason})" if reason else "")


def find_kernel(names: tuple[str, ...], wanted: str, origin: str) -> str | None:
    """The kernel that a user means, None where there is no such one.

    Accepted are the mangled name, the qualified name, one without its namespaces or template arguments where only one kernel
    fits, and the first two with parameter types. An empty name stands for the only kernel there is; those that come with CUB and
    Thrust are not asked for then.

    Raises:
        InputError: several kernels fit; the message lists them.

    >>> find_kernel(("_ZN2ns4convILi5EEEvPf", "other"), "conv", "k.cu")
    '_ZN2ns4convILi5EEEvPf'
    >>> find_kernel(("_ZN3cub11EmptyKernelIvEEvv", "own"), "", "k.cu")
    'own'
    """
    if wanted in names:
        return wanted
    if not wanted:
        names = tuple(name for name in names if not _OF_LIBRARIES.match(split_name(name)[0])) or names
        if len(names) > 1:
            raise InputError(f"{origin} has several kernels; name one by --kernel (kernel in Python): {listed(names)}")
        return names[0] if names else None
    plain = _plain(wanted).removeprefix("::")
    fitting: list[list[str]] = [[], [], [], []]
    for name in names:
        qualified, types = split_name(name)
        text = _plain(qualified)
        base = re.sub(r"<.*>$", "", text)
        signed = f"{text}({_plain(','.join(types or ()))})"
        forms = ((text, signed), (base,))
        for rank, alternatives in enumerate(forms):
            if plain in alternatives:
                fitting[2 * rank].append(name)
            elif any(form.endswith(f"::{plain}") for form in alternatives):
                fitting[2 * rank + 1].append(name)
    best = next((found for found in fitting if found), [])
    if len(best) > 1:
        raise InputError(f"{origin} has several kernels {wanted!r}; name one in full: {listed(best)}")
    return best[0] if best else None


_CONST_FIRST = re.compile(r"\bconst\s+((?:unsigned\s+|signed\s+)?[\w:]+(?:\s+long|\s+int)*)(?=\s*[*&])")


def _plain(name: str) -> str:
    """A name without blanks, ``const float*`` as ``float const*``, which is how compiled code has it.

    >>> _plain("scale(const float *, int)") == _plain("scale(float const*, int)")
    True
    """
    return re.sub(r"\s+", "", _CONST_FIRST.sub(r"\1 const", name))
