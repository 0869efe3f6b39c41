"""What the sensors say of a run."""

import pytest

from perfmodel.records.schema import Mark
from perfmodel.validation.sensors import SensorSample, SensorSummary, summarise


def samples(*clocks_hz: float, limits: int = 0) -> list[SensorSample]:
    return [SensorSample(sm_clock_hz=hz, temperature_c=60, power_w=500, limits=limits) for hz in clocks_hz]


def test_steady_clock_is_unmarked_and_idleness_is_no_limit() -> None:
    summary = summarise(samples(1.98e9, 1.98e9, 1.97e9, limits=0x1))
    assert summary == SensorSummary(sm_clock_hz=1.98e9, temperature_c=60, power_w=500)


@pytest.mark.parametrize(
    "found", [samples(1.98e9, 1.98e9, 1.90e9), samples(1.98e9, 1.98e9, limits=0x4), samples(1.98e9, limits=0x8 | 0x1)]
)
def test_moving_clock_power_cap_and_slowdown_are_marked(found: list[SensorSample]) -> None:
    assert summarise(found).marks == (Mark.THROTTLED,)


def test_without_sensors_nothing_is_claimed() -> None:
    assert summarise([]) == SensorSummary()
