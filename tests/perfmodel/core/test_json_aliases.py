"""Former names of JSON keys stand beside the present ones."""

from perfmodel import TiledConv2d, TiledConv2dConfiguration, predict
from perfmodel.core.json_aliases import FORMER_NAMES, with_former_names


def test_a_prediction_has_its_terms_under_both_names() -> None:
    problem = TiledConv2d(height=256, width=256)
    time = predict(problem, TiledConv2dConfiguration(), gpu="h200", fidelity="analytic").to_json()["time"]
    assert time["evidence"] == time["calibration_status"]
    terms = time["terms_us"]
    assert all(terms[former] == terms[name] for name, former in FORMER_NAMES.items() if name in terms)
    assert terms["shared_pipe"] > 0


def test_names_that_a_user_gave_have_no_other() -> None:
    given = {"config": {"ramp_up": 2}, "top": [{"ramp_up": 1.0}]}
    assert with_former_names(given) == {"config": {"ramp_up": 2}, "top": [{"ramp_up": 1.0, "first_wave": 1.0}]}
