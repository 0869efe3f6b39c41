"""A fit is the same file on every machine, whatever its linear algebra and its vector unit."""

import os
import subprocess
import sys
from pathlib import Path

RECORDS = Path(__file__).parents[3] / "validation" / "data" / "h200.jsonl.gz"


def fitted(path: Path, core: str) -> bytes:
    options = ["conv1d", "--gpu", "h200", "--measurements", str(RECORDS), "--sample", "40", "--output", str(path)]
    environment = os.environ | {"OPENBLAS_CORETYPE": core}
    subprocess.run([sys.executable, "-m", "perfmodel", "fit", *options], check=True, env=environment, timeout=300)
    return path.read_bytes()


def test_two_kinds_of_processor_give_the_same_file(tmp_path: Path) -> None:
    assert fitted(tmp_path / "one.toml", "Haswell") == fitted(tmp_path / "other.toml", "Prescott")
