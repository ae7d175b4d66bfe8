"""Clean admission, requirement by requirement."""

from __future__ import annotations

import numpy as np
import pytest
from judging_data import drop, episodes, evaluation, failures

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.admission import REQUIREMENTS, admit
from roep_gym.evaluate.judging.metrics import condition_rates
from roep_gym.evaluate.judging.pairing import align


def admission(data, **settings):
    return admit(data, condition_rates(align(data)), GateConfig(**settings)).isel(row=0)


def failed(data, **settings):
    return str(admission(data, **settings)["failed"].values)


@pytest.mark.parametrize("records", ["flat", "native"])
def test_complete_clean_run_is_admitted(records):
    result = admission(evaluation(records=records))
    assert result["requirement"].values.tolist() == list(REQUIREMENTS)
    assert result["admitted"]
    assert result["failed"] == ""


@pytest.mark.parametrize(
    ("successes", "expected"),
    [(2, "clean success rate"), (3, ""), (0, "clean successes, clean success rate")],
)
def test_floors_with_fifty_episodes(successes, expected):
    assert failed(evaluation({"baseline": failures(50 - successes)})) == expected


def test_clean_rate_of_exactly_the_floor_admits():
    assert failed(evaluation({"baseline": failures(19, 20)})) == ""


def test_no_clean_run():
    assert failed(evaluation(conditions=["perturb", "perturb_clone"])).startswith("C_src, C_log, C_act")
    data = evaluation()
    drop(data, "baseline")
    result = admission(data)
    assert str(result["why"].values[0]) == "no baseline episode was recorded"
    assert str(result["failed"].values) == "C_src, C_log, C_act, clean successes, clean success rate"


def test_one_absent_episode_closes_c_log():
    data = evaluation()
    drop(data, "baseline", 49)
    result = admission(data)
    assert result["failed"] == "C_log"
    assert result["why"].values[1] == "1 of 50 planned baseline episodes absent"


def test_absent_episodes_of_other_conditions_do_not_matter():
    data = evaluation()
    drop(data, "full")
    assert failed(data) == ""


def test_native_record_with_a_missing_step_closes_c_log():
    data = evaluation(records="native")
    data["recorded_steps"].values[episodes(data, "baseline")[0]] = 99
    assert failed(data) == "C_log"


def test_aborted_attempts_before_a_recorded_episode_are_fine():
    data = evaluation(records="native")
    data["aborts"].values[episodes(data, "baseline")[0]] = 2
    assert failed(data) == ""


@pytest.mark.parametrize("records", ["flat", "native"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_action_that_is_not_finite_closes_c_act(records, value):
    data = evaluation(records=records)
    data["max_abs_action"].values[episodes(data, "baseline")[7]] = value
    assert failed(data) == "C_act"


def test_counted_non_finite_action_closes_c_act():
    data = evaluation(records="native")
    data["nonfinite_actions"].values[episodes(data, "baseline")[7]] = 1
    assert failed(data) == "C_act"


def test_invalid_execution_closes_c_act():
    assert failed(evaluation({"baseline": failures(1, reason="invalid_execution")})) == "C_act"


@pytest.mark.parametrize(("largest", "expected"), [(0.0, "C_act"), (1e-6, "C_act"), (1.1e-6, "")])
def test_only_zero_actions_close_c_act(largest, expected):
    data = evaluation()
    at = episodes(data, "baseline")
    data["max_abs_action"].values[at] = 0
    data["max_abs_action"].values[at[-1]] = largest
    assert failed(data) == expected


def test_native_run_without_step_records_closes_c_log_and_c_act():
    data = evaluation(records="native")
    data["recorded_steps"].values[episodes(data, "baseline")] = -1
    assert failed(data) == "C_log, C_act"


def test_unrecorded_action_mode_closes_c_act_natively():
    assert failed(evaluation(records="native", rows={"action_mode": ""})) == "C_act"
    assert failed(evaluation(records="flat", rows={"action_mode": ""})) == ""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"contract_status": "match"}, ""),
        ({"contract_status": "mismatch"}, "C_fid"),
        ({"contract_status": "unknown"}, "C_fid"),
        ({"contract_status": "unknown", "contract_note": "  "}, "C_fid"),
        ({"contract_status": "mismatch", "contract_note": "checked by hand"}, ""),
        ({"contract_status": "mismatch", "contract_note": "one of two", "contract_unresolved": 1}, "C_fid"),
    ],
)
def test_contract(rows, expected):
    assert failed(evaluation(rows=rows)) == expected


def test_diagnostics_stand_beside_and_do_not_gate():
    data = evaluation(records="native")
    at = episodes(data, "baseline")
    (
        data["repeated_actions"].values[at],
        data["clipped_actions"].values[at],
        data["unique_actions"].values[at],
    ) = 99, 50, 1
    result = admission(data)
    assert result["admitted"]
    assert float(result["repeated_fraction"]) == pytest.approx(0.99)
    assert float(result["clipped_fraction"]) == pytest.approx(0.5)
    assert float(result["mean_unique_actions"]) == 1
    assert np.isnan(admission(evaluation())["repeated_fraction"])
