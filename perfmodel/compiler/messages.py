"""What a compiler prints, brought to one line: the first error with its file and line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_ERRORS = (
    re.compile(
        r"^(?P<file>[^\n:]*?)\((?P<line>\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (?P<text>.*)$", re.MULTILINE
    ),
    re.compile(r"^(?P<file>[^\n]*?):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: (?P<text>.*)$", re.MULTILINE),
)
TEXTURE_REFERENCES = (
    "CUDA 12 removed texture references; hand a texture object (cudaTextureObject_t) to the kernel instead"
)
_ADVICE = (
    (
        re.compile(
            r"texture is not a template|\"texture\" is undefined|\"(?:tex1Dfetch|cudaBindTexture)\" is undefined"
        ),
        TEXTURE_REFERENCES,
    ),
    (
        re.compile(r"calling a __host__ function\(\"cudaDeviceSynchronize\"\)"),
        "CUDA 12 removed it from device code; kernels that launch kernels (dynamic parallelism) are not executed: launch them "
        "from the host",
    ),
    (
        re.compile(r"is not allowed to call|calling a __host__ function"),
        "declare the function __device__, or as constexpr",
    ),
    (
        re.compile(r"requires separate compilation mode"),
        "kernels that launch kernels (dynamic parallelism) are not executed; launch them from the host",
    ),
    (
        re.compile(r"\"__(?:shfl(?:_up|_down|_xor)?|any|all|ballot)\" is undefined"),
        "CUDA 9 removed it for these GPUs; call the function with _sync and a mask, as in __shfl_xor_sync(0xffffffff, …)",
    ),
)
"""What to do about errors whose text does not say it."""
_MISSING = re.compile(r'^(?P<header>.+?): No such file or directory$|^cannot open source file "(?P<other>[^"]+)"')
UNDECLARED = re.compile(r'(?:^|: )(?:identifier|name) "[^"]*" is undefined|was not declared in this scope')
"""What a compiler says of a name that it does not know."""
_WHEELS = (
    (r"cublas|cublasLt|cublasXt|nvblas", "nvidia-cublas"),
    (r"curand|curand_\w+", "nvidia-curand"),
    (r"cufft\w*", "nvidia-cufft"),
    (r"cusparse\w*", "nvidia-cusparse"),
    (r"cusolver\w*", "nvidia-cusolver"),
    (r"cudnn\w*", "nvidia-cudnn-cu13"),
    (r"nccl\w*", "nvidia-nccl-cu13"),
    (r"nvrtc|nvJitLink|nvml|cupti", "NVIDIA's wheel of that library"),
    (r"nvToolsExt|nvtx3/.*", "nvidia-nvtx"),
    (r"cuda_profiler_api|cudaProfiler", "nvidia-cuda-profiler-api"),
)
"""Headers by the wheel that brings them."""


_ASKED = re.compile(r"^\s*#\s*(?:ifdef\s+(\w+)|(?:el)?if\b(.*))$", re.MULTILINE)
_DEFINED_NAME = re.compile(r"\bdefined\s*\(?\s*(\w+)")
_DEFINES = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)
_OF_SYSTEMS = re.compile(r"_.*|\w*(?:WIN32|WIN64|APPLE|DEBUG|MSC_VER|CUDACC|HIP)\w*|unix|linux|DOXYGEN\w*")
"""Macros that compilers set, or that only debugging or other systems ask for."""
_UNDEFINED_CAPITALS = re.compile(r'identifier "([A-Z][A-Z0-9_]+)" is undefined')
_NAMED = 4


def missing_header(output: str) -> str | None:
    """The header that the compiler did not find, None where that is not its first complaint.

    >>> missing_header("k.cu:1:10: fatal error: cublas_v2.h: No such file or directory")
    'cublas_v2.h'
    """
    errors = errors_of(output)
    match = _MISSING.match(errors[0][2]) if errors else None
    return None if match is None else match["header"] or match["other"]


def absent_headers(headers: Sequence[str], templates: Mapping[str, str] | None = None) -> str:
    """Headers that are not installed, and what brings them: a wheel, or the project's build from a template.

    >>> absent_headers(["Eigen/Eigen", "curand_kernel.h"])
    'not installed: Eigen/Eigen, curand_kernel.h (install nvidia-curand with pip); name their folders with --include DIR'
    >>> absent_headers(["config.h"], {"config.h": "../config.h.in"})
    "not installed: config.h (the project's build makes it from ../config.h.in); name its folder with --include DIR"
    """
    made = {header: f"the project's build makes it from {template}" for header, template in (templates or {}).items()}
    brought = {header: f"install {wheel} with pip" for header in headers if (wheel := _wheel(header))} | made
    named = [header + (f" ({brought[header]})" if header in brought else "") for header in headers]
    return f"not installed: {', '.join(named)}; name {'their folders' if len(named) > 1 else 'its folder'} with --include DIR"


def one_line(output: str, folders: Sequence[str] = ()) -> str:
    """The first error of a compiler's output, or the first that something is known to do about, with the number of the others.

    ``folders`` are cut from the names of files.

    >>> one_line('/folder/k.cu(1): error: identifier "x" is undefined' + chr(10) + "/folder/k.cu(2): error: and y", ["/folder"])
    'k.cu:1: identifier "x" is undefined (and 1 more error)'
    >>> one_line("k.cu:2:10: fatal error: helper_cuda.h: No such file or directory").partition("; ")[2]
    "name its folder with --include DIR (it is one of NVIDIA's cuda-samples, Common)"
    >>> one_line('k.cu(3): error: identifier "__ballot" is undefined').partition("; ")[2]
    'call the function with _sync and a mask, as in __shfl_xor_sync(0xffffffff, …)'
    """
    errors = errors_of(output)
    if not errors:
        return " ".join(output.split())
    file, line, text = next((error for error in errors if _advice(error[2])), _cause(errors))
    for folder in folders:
        file = file.removeprefix(f"{folder.rstrip('/')}/")
    header = missing_header(output)
    if header is not None:
        text = f"the header {header} is not installed; {_remedy(header)}"
    advice = _advice(text)
    text += f": {advice}" if advice else ""
    more = len(errors) - 1 if header is None else 0
    return f"{file}:{line}: {text}" + (f" (and {more} more error{'s' if more > 1 else ''})" if more else "")


def has_advice(output: str) -> bool:
    """Whether something is known to do about one of the errors."""
    return any(_advice(text) for _, _, text in errors_of(output))


def is_of_older_cuda(output: str) -> bool:
    """Whether one of the errors is of what newer CUDA has removed, so that no header helps."""
    return any(_advice(text).startswith("CUDA ") for _, _, text in errors_of(output))


def _advice(text: str) -> str:
    """What to do about an error; empty where its text says it."""
    return next((advice for pattern, advice in _ADVICE if pattern.search(text)), "")


def errors_of(output: str) -> list[tuple[str, int, str]]:
    """File, line and text of every error, in order."""
    found = {match.start(): match for pattern in _ERRORS for match in pattern.finditer(output)}
    return [(m["file"].strip(), int(m["line"]), m["text"].strip()) for _, m in sorted(found.items())]


def _cause(errors: Sequence[tuple[str, int, str]]) -> tuple[str, int, str]:
    """The first error, or on its line the name that is not declared, from which the others follow."""
    first = errors[0]
    same_line = (error for error in errors if error[:2] == first[:2])
    return next((error for error in same_line if UNDECLARED.search(error[2])), first)


def _remedy(header: str) -> str:
    wheel = _wheel(header)
    of_samples = " (it is one of NVIDIA's cuda-samples, Common)" if re.match(r"helper_\w+\.h$", header) else ""
    named = f"name its folder with --include DIR{of_samples}"
    return named if wheel is None else f"install {wheel} with pip, or {named}"


def _wheel(header: str) -> str | None:
    """The wheel that brings a header, None where none is known."""
    stem = header.removesuffix(".h").removesuffix(".hpp").removesuffix("_v2")
    return next((name for pattern, name in _WHEELS if re.fullmatch(pattern, stem)), None)


def unset_macros(sources: Iterable[str], defined: Iterable[str], output: str = "") -> tuple[str, ...]:
    """Macros that nothing sets, a few of them.

    They are names in capitals that the compiler calls undefined, and those that sources ask for (``#ifdef``, ``defined``) and
    that neither they nor ``defined`` set.

    >>> unset_macros(["#ifdef CUDA_RUN" + chr(10) + "#endif" + chr(10) + "#if defined(_WIN32) || defined(SMALL)"], ["SMALL"])
    ('CUDA_RUN',)
    >>> unset_macros([], [], 'k.cu(1): error: identifier "TILE_X" is undefined')
    ('TILE_X',)
    """
    texts = tuple(sources)
    known = {name for text in texts for name in _DEFINES.findall(text)} | set(defined)
    asked = _UNDEFINED_CAPITALS.findall(output) + [
        name
        for text in texts
        for plain, condition in _ASKED.findall(text)
        for name in ([plain] if plain else _DEFINED_NAME.findall(condition))
    ]
    return tuple(dict.fromkeys(n for n in asked if n not in known and not _OF_SYSTEMS.fullmatch(n)))[:_NAMED]
