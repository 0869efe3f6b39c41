"""Headers of a user's project that no folder was named for: they are looked for in the project around the source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .includes import headers_not_found

_LEVELS_ABOVE = 6
"""Where no root of a project is found."""
_LEVELS_BELOW = 3
_MOST_FOLDERS = 2000
_ROOTS = (".git", ".hg", ".svn")
"""What stands in the uppermost folder of a project."""
_SHARED_DEPTH = 2
"""Parts of the path of a folder such as ``/home`` or ``/tmp``, which is no project."""
_OF_CUDA = ("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "cuda_bf16.h", "vector_types.h")
"""Headers that no folder may hide: some projects name theirs alike and include them by their folder."""
_MOST_FILES = 400
"""Sources that are read for the body of a function."""
_BODY_OF = r"\b{name}\s*\([^;{{}}]*\)\s*(?:const\s*)?\{{"
_SYSTEM = (Path("/usr/include"), Path("/usr/local/include"))


def project_folders(text: str, folder: Path, directories: Sequence[Path]) -> tuple[Path, ...]:
    """Folders of the project that hold headers which the source includes and none of the given folders has.

    The nearest folder, that of the source or one above, in whose tree a header lies once decides; a header that is there more
    than once is left to the user, as are those of the system, and a folder that also has a header named like one of CUDA's. Links
    to one file are one header.
    """
    found: list[Path] = []
    sought: set[str] = set()
    tops = _tops(folder) if _missing(text, folder, directories) else ()
    trees = [list(_folders(top)) for top in tops]
    while True:
        missing = [name for name in _missing(text, folder, (*directories, *found)) if name not in sought]
        if not missing:
            return tuple(found)
        sought.add(missing[0])
        place = _folder_of(missing[0], trees)
        if place is not None:
            found.append(place)


def templates_of(headers: Sequence[str], folder: Path) -> dict[str, Path]:
    """The files from which a project's build makes headers (``config.h.in``), as far as they lie around a folder."""
    wanted = {f"{Path(header).name}.in": header for header in headers}
    found: dict[str, Path] = {}
    named_alike: dict[str, Path] = {}
    """In a folder that is named as in the include."""
    for place in (place for top in _tops(folder) for place in _folders(top)):
        try:
            names = wanted.keys() & set(os.listdir(place))
        except OSError:
            continue
        for name in names:
            header = wanted[name]
            found.setdefault(header, place / name)
            if (place / Path(header).name).match(header):
                named_alike.setdefault(header, place / name)
    return found | named_alike


def headers_note(folders: Sequence[Path], beside: Path) -> str:
    """What users should know about the folders that were found, relative to that of the source; empty where there are none."""
    named = ", ".join(os.path.relpath(folder, beside) for folder in folders)
    return f"headers of the project are taken from {named}" if folders else ""


def hides_cuda(folder: Path) -> bool:
    """Whether a folder holds headers named like CUDA's, so that nvcc would take them for its own."""
    return any(os.path.isfile(folder / name) for name in _OF_CUDA)


def _missing(text: str, folder: Path, directories: Sequence[Path]) -> list[str]:
    """Names of headers that are included and found in no folder."""
    names = headers_not_found(text, folder, directories)
    return [name for name in names if not any(os.path.isfile(system / name) for system in _SYSTEM)]


def _tops(folder: Path) -> Iterator[Path]:
    """Folders of a source's project whose trees may hold what it needs: its own and those above."""
    if len(folder.parts) > _SHARED_DEPTH and folder != Path.home():
        yield folder
    yield from folders_above(folder)


def folders_above(folder: Path) -> Iterator[Path]:
    """Folders above one as far as its project reaches, the nearest first; a few where nothing says how far that is."""
    above = [folder, *folder.parents]
    own = [place for place in above if len(place.parts) > _SHARED_DEPTH]
    root = next(
        (level for level, place in enumerate(own) if any((place / name).exists() for name in _ROOTS)), _LEVELS_ABOVE
    )
    home = next((level for level, place in enumerate(above) if place.parent == Path.home()), root)
    yield from own[1 : min(root, home) + 1]


def files_with_bodies(functions: Sequence[str], folder: Path, suffix: str = ".cu") -> tuple[Path, ...]:
    """Files of the project that define functions, the nearest for each; empty where one is defined nowhere or more than once."""
    wanted = {name: _BODY_OF.format(name=re.escape(name)) for name in functions}
    found: dict[str, Path] = {}
    looked: dict[Path, str] = {}
    for top in _tops(folder):
        paths = [path for place in _folders(top) for path in sorted(place.glob(f"*{suffix}")) if path.is_file()]
        if len(paths) > _MOST_FILES:
            break
        for path in paths:
            if path not in looked:
                looked[path] = path.read_text(encoding="utf-8", errors="replace")
        for name, body in wanted.items():
            places = [path for path in paths if name in looked[path] and re.search(body, looked[path])]
            if name not in found and len(places) > 1:
                return ()
            if name not in found and places:
                found[name] = places[0]
        if len(found) == len(wanted):
            return tuple(dict.fromkeys(found.values()))
    return ()


def _folder_of(header: str, trees: Sequence[Sequence[Path]]) -> Path | None:
    """The folder that the header's name is relative to, of the first of the trees that has any."""
    for tree in trees:
        places = {os.path.realpath(place / header): place for place in reversed(tree) if os.path.isfile(place / header)}
        if places:
            nearest = next(iter(places.values()))
            return nearest if len(places) == 1 and not hides_cuda(nearest) else None
    return None


def _folders(top: Path) -> Iterator[Path]:
    """A folder and those below it, level by level as far as it is reasonable to look."""
    level, seen = [top], 0
    for _ in range(_LEVELS_BELOW + 1):
        below: list[Path] = []
        for folder in level:
            seen += 1
            if seen > _MOST_FOLDERS:
                return
            yield folder
            try:
                with os.scandir(folder) as entries:
                    below += sorted(
                        Path(e.path) for e in entries if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")
                    )
            except OSError:
                continue
        level = below
