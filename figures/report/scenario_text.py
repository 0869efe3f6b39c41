"""The scenario in which a page's numbers hold, and how sure they are, in words."""

from __future__ import annotations

import math
from typing import Any

from perfmodel.core.json_values import plain
from perfmodel.prediction.scenario import Scenario
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.time_model.calibration import CalibrationStatus

from .parts import Paragraph

_MEANS = {
    CalibrationStatus.CALIBRATED: "runs on this very GPU were among those that the coefficients were fitted to",
    CalibrationStatus.ARCHITECTURE: "the coefficients were fitted to runs on another GPU of the same architecture",
    CalibrationStatus.DATA_SHEET: "the coefficients were fitted to other architectures; this GPU is known by its data sheet",
}


def fields_text(record: Any) -> str:
    """A problem's sizes, or a configuration's fields that have an effect, in one line."""
    return ", ".join(f"{name}={value}" for name, value in plain(record).items() if value != "none")


def scenario_pairs(scenario: Scenario) -> tuple[tuple[str, str], ...]:
    """GPU, clock, state of the L2, and what backs the coefficients."""
    gpu = scenario.gpu
    return (
        ("GPU", f"{gpu.name} ({gpu.id}, {gpu.architecture.name}, {gpu.sm_count} SMs)"),
        ("SM clock", f"{gpu.boost_clock_hz / 1e6:,.0f} MHz"),
        ("L2 when the kernel starts", scenario.l2.value),
        ("calibration status", scenario.calibration.calibration_status.value),
    )


def interval_paragraph(scenario: Scenario, kernel: str, fidelity: Fidelity) -> Paragraph:
    """What the calibration status means and how wide the interval of this kernel is."""
    status, width = scenario.calibration.calibration_status, scenario.calibration.log_error_90(kernel, fidelity)
    text = f"Calibration status: {status.value}, that is, {_MEANS[status]}."
    if width is None:
        return Paragraph(text=f"{text} There are no held-out runs that an interval could come from.")
    factor = math.exp(width)
    return Paragraph(
        text=f"{text} Nine of ten {fidelity.value} predictions of runs that were held out from a fit of this status lay within a "
        f"factor of {factor:.2f} of what was measured; this is the 90 % interval."
    )
