"""Files written in one step."""

import gzip
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfmodel.core.files import read_text, write_text


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    assert os.umask(before) == request.param  # reading it has not changed it


def test_a_new_file_has_the_permissions_of_new_files(tmp_path: Path, umask: int) -> None:
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    write_text(tmp_path / "new.jsonl", "text")
    assert mode(tmp_path / "new.jsonl") == mode(ordinary) == 0o666 & ~umask


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o755])
def test_a_file_that_was_there_keeps_its_permissions(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("old")
    path.chmod(kept)
    write_text(path, "new")
    assert (path.read_text(), mode(path)) == ("new", kept)


def test_packed_by_its_name_and_the_same_each_time(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl.gz"
    write_text(path, "µs\n")
    first = path.read_bytes()
    assert gzip.decompress(first).decode() == read_text(path) == "µs\n"
    write_text(path, "µs\n")
    assert path.read_bytes() == first


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text("old")

    def refuse(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        write_text(path, "new")
    assert [found.name for found in tmp_path.iterdir()] == ["records.jsonl"]
    assert path.read_text() == "old"


def test_what_nobody_may_write_is_never_replaced(tmp_path: Path) -> None:
    """Whoever asks: a privileged user may write anything, and only the folder's permissions keep others from it."""
    path = tmp_path / "kept.csv"
    path.write_text("measured")
    path.chmod(0o444)
    for place, reason in ((path, "is read-only"), (tmp_path, "is a folder"), (Path(os.devnull), "is no regular file")):
        with pytest.raises(OSError, match=reason):
            write_text(place, "new")
    assert path.read_text() == "measured"
    assert [found.name for found in tmp_path.iterdir()] == ["kept.csv"]
