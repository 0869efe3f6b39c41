"""PTX to cubin with ptxas, one target at a time."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import CompileError
from ..gpus.catalogue import load_architecture
from .front_end import ASSEMBLER_OPTIONS
from .kernel_names import demangled
from .toolchain import ptxas_path

PTX_VERSION_12_9 = (8, 8)
"""The newest PTX that CUDA 12.9 reads."""
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_NEWEST = re.compile(r"Unsupported \.version (\S+); current version is '([\d.]+)'")
_TARGET = re.compile(r"SM version specified by \.target is higher")
_PLACE = re.compile(r"ptxas\s+\S+, line ")
_UNRESOLVED = re.compile(r"Unresolved extern (?:function|variable) '([\w$]+)'")
_FORWARDED = ("-Xptxas=", "--ptxas-options=")


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A cubin and the assembler's verbose log, which names registers, stack and spills."""

    cubin: bytes
    log: str


def assemble(
    ptx: str, architecture: str, options: tuple[str, ...] = (), time_limit_s: float | None = None
) -> Assembled:
    """Assemble PTX for a real architecture such as ``sm_90``; ``CompileError`` carries ptxas' message.

    ``options`` are those of the request; the ones meant for the assembler are picked out. PTX that CUDA 12.9 does not read
    goes to the newest assembler, where that serves the architecture.
    """
    own = [option for option in options if option.startswith(ASSEMBLER_OPTIONS)]
    own += [option.partition("=")[2] for option in options if option.startswith(_FORWARDED)]
    own += ["-lineinfo"] if "-lineinfo" in options else []
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        source, target = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_text(ptx, encoding="utf-8")
        command = [
            str(_ptxas_for(ptx, architecture)),
            "--verbose",
            f"--gpu-name={architecture}",
            *own,
            str(source),
            "--output-file",
        ]
        try:
            run = subprocess.run(
                [*command, str(target)], capture_output=True, text=True, timeout=time_limit_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"ptxas needed more than {time_limit_s:g} s for {architecture}") from error
        if run.returncode != 0:
            raise CompileError(_refusal(architecture, run.stderr))
        return Assembled(cubin=target.read_bytes(), log=run.stderr)


def _refusal(architecture: str, output: str) -> str:
    """What ptxas says, in one line; for functions without a body, where they may be."""
    absent = _UNRESOLVED.search(output)
    target = _TARGET.search(output)
    version = _NEWEST.search(output)
    if version is not None:
        return (
            f"the PTX is of version {version[1]}, and the assembler reads up to {version[2]}: install a newer "
            "nvidia-cuda-nvcc, or compile it with an earlier CUDA"
        )
    if target is not None:
        return f"the PTX is for a newer GPU than {architecture}: choose a newer --gpu, or compile it for {architecture}"
    if absent is None:
        lines = list(dict.fromkeys(" ".join(_PLACE.sub("line ", line).split()) for line in output.splitlines()))
        first, *more = [line.replace("; error : ", ": ") for line in lines if line] or ["no message"]
        others = [line for line in more if "ptxas fatal" not in line]
        return f"ptxas refuses the PTX for {architecture}: {first}" + (f" (and {len(others)} more)" if others else "")
    return (
        f"the kernel calls {demangled(absent[1])}, whose body is in another file: analyse the linked program "
        "(perfmodel analyze PROGRAM --kernel …)"
    )


def _ptxas_for(ptx: str, architecture: str) -> Path:
    version = _VERSION.search(ptx)
    is_newer = version is not None and (int(version[1]), int(version[2])) > PTX_VERSION_12_9
    return ptxas_path(newest=is_newer and load_architecture(architecture).compiled_by_cuda_13)
