"""``pm.fit``: from a file of measurements to coefficients that predictions take."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfmodel as pm

RECORDS = Path(__file__).parents[3] / "validation" / "data" / "h200.jsonl.gz"


def test_a_fit_is_written_and_taken_by_predictions(tmp_path: Path) -> None:
    found = pm.fit("conv1d", gpu="H200", measurements=RECORDS, sample=40)
    assert repr(found).startswith("<Calibrated 11 runs on h200; 90 % of those held out within a factor of ")
    table = pm.frame(found).set_index("coefficient")
    own = tmp_path / "own.toml"
    found.write(own)
    assert table["value"].notna().all()
    problem = pm.Conv1d()
    fitted, shipped = (
        pm.rank(problem, gpu="h200", fidelity="analytic", top=1, calibration=file) for file in (str(own), None)
    )
    assert fitted[0].time.calibration_status == "calibrated GPU; closed forms"
    assert fitted[0].time.predicted_s != shipped[0].time.predicted_s


def test_each_file_has_a_gpu() -> None:
    with pytest.raises(pm.InputError, match="2 times gpu and 1 times measurements"):
        pm.fit("conv1d", gpu=["h200", "t4"], measurements=RECORDS)
    with pytest.raises(pm.InputError, match="measurements=3 must be the path of a file"):
        pm.fit("conv1d", gpu="h200", measurements=[3])  # type: ignore[list-item]
