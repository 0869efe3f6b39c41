"""The names of ``import perfmodel as pm`` and what its functions do with right and wrong values."""

from __future__ import annotations

from typing import Any

import pytest

import perfmodel as pm
from perfmodel.core.counts import COUNT_NAMES
from perfmodel.launch.launch import L2State

SMALL = pm.TiledConv2d(height=128, width=128, filter_height=5, filter_width=5)


def test_every_public_name_is_there_and_no_other() -> None:
    assert dir(pm) == sorted(pm.__all__)
    for name in pm.__all__:
        assert getattr(pm, name).__name__ == name
    with pytest.raises(AttributeError, match="'no_such_name'"):
        _ = pm.no_such_name


def test_every_public_function_has_an_example() -> None:
    functions = [name for name in pm.__all__ if not isinstance(getattr(pm, name), type)]
    assert "analyze" in functions
    assert [name for name in functions if ">>>" not in (getattr(pm, name).__doc__ or "")] == []


def test_errors_are_caught_as_one_kind() -> None:
    assert issubclass(pm.InputError, pm.PerfmodelError)
    assert issubclass(pm.InfeasibleError, pm.PerfmodelError)


def test_rank_and_predict_agree() -> None:
    best = pm.rank(SMALL, gpu="h200", fidelity="analytic", top=2).best
    again = pm.predict(SMALL, best.configuration, gpu="h200", fidelity=pm.Fidelity.ANALYTIC)
    assert again.to_json() == best.to_json()


def test_a_gpu_is_an_id_or_a_record() -> None:
    by_id = pm.predict(SMALL, pm.TiledConv2dConfiguration(), gpu="h200", fidelity="analytic")
    by_record = pm.predict(SMALL, pm.TiledConv2dConfiguration(), gpu=pm.load_gpu("h200"), fidelity="analytic")
    assert by_id == by_record
    assert "h200" in pm.gpu_ids()


def test_conditions_change_what_they_name() -> None:
    chosen = pm.TiledConv2dConfiguration()
    cold = pm.predict(SMALL, chosen, gpu="h200", fidelity="analytic")
    warm = pm.predict(SMALL, chosen, gpu="h200", fidelity="analytic", l2="warm")
    assert cold.counts.dram_read_bytes == 4 * 132 * 132
    assert warm.counts.dram_read_bytes == 0
    assert warm == pm.predict(SMALL, chosen, gpu="h200", fidelity="analytic", l2=L2State.WARM)
    slow = pm.predict(SMALL, chosen, gpu="h200", fidelity="analytic", sm_clock_mhz=500)
    assert slow.time.predicted_s > cold.time.predicted_s


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"gpu": "h2000"}, "h2000"),
        ({"fidelity": "guessed"}, "'guessed'"),
        ({"l2": "hot"}, "'hot'"),
        ({"sm_clock_mhz": -1.0}, "-1"),
        ({"sm_clock_mhz": 0}, "0"),
        ({"calibration": "absent.toml"}, "absent.toml"),
        ({"gpu": None}, "gpu=None"),
        ({"fidelity": 3}, "fidelity 3"),
        ({"l2": None}, "l2 None"),
        ({"sm_clock_mhz": "fast"}, "sm_clock_mhz='fast'"),
        ({"calibration": 3}, "calibration=3"),
    ],
)
def test_wrong_values_are_named(changed: dict[str, Any], named: str) -> None:
    arguments: dict[str, Any] = {"gpu": "h200", "fidelity": "analytic"}
    with pytest.raises(pm.InputError, match=named) as refused:
        pm.rank(SMALL, **arguments | changed)
    assert "\n" not in str(refused.value)
    with pytest.raises(pm.InputError, match=named):
        pm.predict(SMALL, pm.TiledConv2dConfiguration(), **arguments | changed)


def test_values_of_another_type_are_named_by_the_call_that_takes_them() -> None:
    arguments: dict[str, Any] = {"gpu": "h200", "fidelity": "analytic"}
    for wrong, named in (({"top": 1.5}, "top=1.5"), ({"refine": "all"}, "refine='all'")):
        with pytest.raises(pm.InputError, match=named):
            pm.rank(SMALL, **arguments | wrong)
    with pytest.raises(pm.InputError, match="configurations=5"):
        pm.predict_many(SMALL, 5, **arguments)  # type: ignore[arg-type]
    with pytest.raises(pm.InputError, match="measurements=None"):
        pm.validate("tiled_conv2d", measurements=None, **arguments)  # type: ignore[arg-type]
    with pytest.raises(pm.InputError, match=r"family=3 .*tiled_conv2d"):
        pm.validate(3, measurements="absent.csv", **arguments)  # type: ignore[arg-type]


def test_a_problem_and_a_configuration_must_belong_together() -> None:
    with pytest.raises(pm.InputError, match="Conv1dConfiguration"):
        pm.predict(SMALL, pm.Conv1dConfiguration(), gpu="h200", fidelity="analytic")
    with pytest.raises(pm.InputError, match="str"):
        pm.rank("tiled_conv2d", gpu="h200", fidelity="analytic")


def test_nothing_asked_is_nothing_predicted() -> None:
    assert pm.predict_many(SMALL, [], gpu="h200", fidelity="analytic") == []


def test_a_frame_has_a_row_for_each_prediction() -> None:
    chosen = [pm.TiledConv2dConfiguration(tile_size_x=tile) for tile in (1, 2, 3)]
    predictions = pm.predict_many(SMALL, chosen, gpu="h200", fidelity="analytic")
    table = pm.frame(predictions)
    assert table["tile_size_x"].tolist() == [1, 2, 3]
    assert table["width"].tolist() == [128] * 3
    assert table["predicted_s"].tolist() == [p.time.predicted_s for p in predictions]
    assert {"kernel", "gpu", "fidelity", "registers_per_thread", "blocks_per_sm", *COUNT_NAMES} <= set(table.columns)
    assert len(table.columns) == len(set(table.columns))
    assert len(pm.frame([])) == 0
