"""Device code inside binaries: the cubins and PTX texts of a program, a library, an object file or a fat binary."""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from ..errors import CompileError, InputError
from ..gpus.catalogue import load_architecture
from .kernel_names import find_kernel, kernels_of, no_kernel, split_name
from .toolchain import cuda13_program

_CUBIN_NAME = re.compile(r"\.(sm_\d+[af]?)\.cubin$")
"""Of an ELF file that is no executable for a GPU, such as a core dump, cuobjdump names no architecture."""
_PTX_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_CODE = ".text."
_READ = (_CODE, ".nv.info", ".nv.global.init", ".debug")
"""Beginnings of the names of sections that are read; others may be as large as an array of the device, and have no contents."""
_PARAMETERS = ".nv.constant0."
"""Sections that kernels have and device functions that are compiled apart have not."""


class ImageKind(Enum):
    """The form of a kernel's code."""

    CUBIN = "cubin"
    PTX = "PTX"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceImage:
    """One cubin or PTX text for one architecture (``sm_80``; of PTX the oldest one that it serves)."""

    kind: ImageKind
    architecture: str
    content: bytes

    @property
    def kernels(self) -> tuple[str, ...]:
        """Its kernels by their names in the code, in order."""
        return _kernels(self)

    @property
    def ptx(self) -> str:
        """The text of PTX."""
        return self.content.decode("utf-8", errors="replace")

    def serves(self, architecture: str) -> bool:
        """Whether a GPU of this architecture executes it (CUDA C++ Programming Guide, binary and PTX compatibility).

        A cubin serves its own compute capability and later minor ones, PTX every later one; code for ``sm_90a`` serves 9.0 alone,
        for ``sm_100f`` its major number.

        >>> image = DeviceImage(kind=ImageKind.CUBIN, architecture="sm_80", content=b"")
        >>> image.serves("sm_86"), image.serves("sm_75"), image.serves("sm_90")
        (True, False, False)
        """
        own, asked = capability(self.architecture), capability(architecture)
        if self.architecture.endswith("a"):
            return own == asked
        if self.kind is ImageKind.PTX and not self.architecture.endswith("f"):
            return own <= asked
        return own[0] == asked[0] and own <= asked


def capability(architecture: str) -> tuple[int, int]:
    """Compute capability of an architecture's name; ``InputError`` where it is none."""
    return load_architecture(architecture).compute_capability


@lru_cache(maxsize=64)
def _kernels(image: DeviceImage) -> tuple[str, ...]:
    if image.kind is ImageKind.PTX:
        return kernels_of(image.ptx)
    elf = ELFFile(io.BytesIO(image.content))
    launched = {section.name.removeprefix(_PARAMETERS) for section in elf.iter_sections()}
    names = (section.name.removeprefix(_CODE) for section in elf.iter_sections() if section.name.startswith(_CODE))
    return tuple(name for name in names if name in launched)


@lru_cache(maxsize=8)
def device_images(content: bytes, name: str) -> tuple[DeviceImage, ...]:
    """The images that a binary holds, compressed ones too, cubins first; objects that are not linked yet are linked.

    Args:
        content: a cubin, fat binary, object file, static or shared library, or program.
        name: what messages call it.

    Raises:
        InputError: it holds no device code.
    """
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        binary = Path(folder) / "binary"
        binary.write_bytes(content)
        command = [str(cuda13_program("cuobjdump")), "--extract-elf", "all", "--extract-ptx", "all", str(binary)]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)
        files = sorted(Path(folder).iterdir(), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])
        named = [(match[1], path) for path in files if (match := _CUBIN_NAME.search(path.name))]
        cubins = [
            DeviceImage(kind=ImageKind.CUBIN, architecture=architecture, content=path.read_bytes())
            for architecture, path in named
        ]
        texts = [_text(path) for path in files if path.suffix == ".ptx"]
    images = (*_linked(cubins, name), *texts)
    if not images:
        reason = " ".join(run.stderr.replace(str(binary), name).split())
        raise InputError(f"{name} holds no device code ({reason or 'cuobjdump finds none'})")
    return images


def _text(path: Path) -> DeviceImage:
    content = path.read_bytes()
    match = _PTX_TARGET.search(content.decode("utf-8", errors="replace"))
    return DeviceImage(kind=ImageKind.PTX, architecture=match[1] if match else "sm_60", content=content.rstrip(b"\0"))


def _linked(cubins: Sequence[DeviceImage], name: str) -> list[DeviceImage]:
    """Executable cubins as they are, relocatable ones of one architecture joined by nvlink."""
    found, relocatable = [], dict[str, list[DeviceImage]]()
    for image in cubins:
        try:
            elf = ELFFile(io.BytesIO(image.content))
            is_relocatable = elf["e_type"] == "ET_REL"
            for section in elf.iter_sections():  # whoever reads the cubin later finds its sections whole
                if section["sh_type"] != "SHT_NOBITS":
                    section.data()
                elif section.name.startswith(_READ):
                    raise ValueError(f"section {section.name} has no contents")
        except (ELFError, ArithmeticError, AttributeError, KeyError, OSError, TypeError, ValueError) as error:
            raise InputError(f"{name}: its cubin for {image.architecture} cannot be read: {error}") from error
        if is_relocatable:
            relocatable.setdefault(image.architecture, []).append(image)
        else:
            found.append(image)
    if found and relocatable:
        return found  # the parts of what is linked already
    for architecture, parts in relocatable.items():
        found.append(
            DeviceImage(kind=ImageKind.CUBIN, architecture=architecture, content=_link(parts, architecture, name))
        )
    return found


def _link(parts: Sequence[DeviceImage], architecture: str, name: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        files = [Path(folder) / f"part{index}.cubin" for index in range(len(parts))]
        for file, part in zip(files, parts, strict=True):
            file.write_bytes(part.content)
        target = Path(folder) / "linked.cubin"
        command = [str(cuda13_program("nvlink")), f"-arch={architecture}", *map(str, files), "-o", str(target)]
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if run.returncode != 0 or not target.is_file():
            reason = " ".join(re.sub(rf"{re.escape(folder)}/\S+", name, run.stdout + run.stderr).split())
            raise CompileError(f"{name} is not linked, and nvlink refuses it ({reason}); name the linked program")
        return target.read_bytes()


def image_for(
    images: Sequence[DeviceImage], kernel: str, architecture: str, name: str
) -> tuple[DeviceImage, DeviceImage | None, str]:
    """The image that a GPU of an architecture executes, PTX of the same kernel if there is any, and the kernel's name in both.

    As the driver chooses: the cubin with the highest compute capability that serves the GPU; else the newest PTX that does.

    Raises:
        InputError: no image has the kernel, or none of those serves the architecture.
    """
    names = tuple(dict.fromkeys(found for image in images for found in image.kernels))
    mangled = find_kernel(names, kernel, name)
    if mangled is None:
        raise InputError(no_kernel(name, kernel, names))
    holding = [image for image in images if mangled in image.kernels]
    serving = [image for image in holding if image.serves(architecture)]
    if not serving:
        there = ", ".join(dict.fromkeys(f"{image.architecture} ({image.kind.value})" for image in holding))
        raise InputError(
            f"{name} has kernel {kernel or split_name(mangled)[0]!r} for {there} only, which {architecture} does not execute: "
            "choose such a GPU by --gpu, "
            f"or compile with -gencode=arch=compute_{architecture[3:]},code=sm_{architecture[3:]}"
        )
    newest = sorted(serving, key=lambda image: (capability(image.architecture), image.architecture), reverse=True)
    cubins = [image for image in newest if image.kind is ImageKind.CUBIN]
    texts = [image for image in newest if image.kind is ImageKind.PTX]
    return (cubins or texts)[0], texts[0] if texts else None, mangled
