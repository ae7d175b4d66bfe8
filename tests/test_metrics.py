"""Rates, interventions, harm and noise floor against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from judging_data import drop, episodes, evaluation, failures

from roep_gym.evaluate.judging.metrics import FAILURES, condition_rates, harm_metrics, intervention_metrics
from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, WITHIN_VARIABILITY, noise_floor
from roep_gym.evaluate.judging.pairing import align

FULL = "full given perturb"


def harm(data, pair=FULL):
    return harm_metrics(align(data)).sel(pair=pair).isel(row=0)


def test_rates_and_their_counts():
    reasons = ["success"] * 4 + ["timeout"] * 3 + ["unsafe_attempt", "invalid_execution", "safe_refusal"]
    rates = condition_rates(align(evaluation({"full": reasons}))).sel(condition="full").isel(row=0)
    assert rates["outcome"].values.tolist() == [
        "success",
        "timeout",
        "unsafe",
        "invalid_execution",
        "safe_refusal",
    ]
    assert rates["count"].values.tolist() == [4, 3, 1, 1, 1]
    assert rates["n"].values.tolist() == [10] * 5
    np.testing.assert_allclose(rates["rate"], [0.4, 0.3, 0.1, 0.1, 0.1])
    assert float(rates["rate_low"][0]) < 0.4 < float(rates["rate_high"][0])


def test_rate_of_nothing_is_undefined():
    rates = condition_rates(align(evaluation(conditions=["baseline"]))).isel(row=0)
    assert np.isnan(rates["rate"].sel(condition="mild")).all()
    assert (rates["n"].sel(condition="mild") == 0).all()


def test_not_run_episodes_enter_no_rate():
    data = evaluation({"perturb": failures(5, 10)})
    drop(data, "perturb", 0, 1)
    rate = condition_rates(align(data)).sel(condition="perturb", outcome="success").isel(row=0)
    assert (int(rate["count"]), int(rate["n"])) == (5, 8)


def test_unsafe_counts_attempts_that_did_not_end_the_episode():
    data = evaluation({"full": failures(1, 10, "unsafe_attempt")})
    data["unsafe_attempts"].values[episodes(data, "full")[:3]] = [0, 2, 0]
    rate = condition_rates(align(data)).sel(condition="full", outcome="unsafe").isel(row=0)
    assert int(rate["count"]) == 2


def test_unsafe_rate_is_undefined_where_not_observed():
    data = evaluation()
    data["unsafe_attempts"].values[episodes(data, "full")[0]] = -1
    rate = condition_rates(align(data)).sel(condition="full", outcome="unsafe").isel(row=0)
    assert np.isnan(rate["rate"])
    assert int(rate["n"]) == 49
    assert np.isnan(harm(data)["hr_unsafe"]).all()


def test_pooled_and_seed_macro_harm_differ():
    # Base successes: 3 in group 0, 1 in group 1, none in group 2; only the one of group 1 fails.
    base = ["success"] * 3 + ["timeout"] + ["success"] + ["timeout"] * 3 + ["timeout"] * 4
    full = ["success"] * 3 + ["timeout"] + ["timeout"] + ["success"] * 3 + ["success"] * 4
    result = harm(evaluation({"perturb": base, "full": full}, groups=[0] * 4 + [1] * 4 + [2] * 4))
    assert (int(result["denominator"]), int(result["harmed"]), int(result["gained"])) == (4, 1, 7)
    assert int(result["seed_groups"]) == 2
    np.testing.assert_allclose(result["hr_total"].sel(aggregation=["pooled", "seed_macro"]), [1 / 4, 1 / 2])
    # Discordant 1 and 7: 2 (1 + 8) / 2^8.
    assert float(result["mcnemar_p"]) == pytest.approx(18 / 256)


def test_harm_by_reason_sums_to_the_total():
    full = ["timeout", "timeout", "unsafe_attempt", "invalid_execution", "safe_refusal"] + ["success"] * 5
    result = harm(evaluation({"full": full}, groups=[0, 0, 1, 1, 1, 2, 2, 2, 2, 2]))
    assert result["reason"].values.tolist() == list(FAILURES)
    assert result["harmed_by_reason"].values.tolist() == [2, 1, 1, 1]
    np.testing.assert_allclose(result["hr_by_reason"].sum("reason"), result["hr_total"])
    np.testing.assert_allclose(
        result["hr_by_reason"].sel(aggregation="seed_macro"), [1 / 3, 1 / 9, 1 / 9, 1 / 9]
    )


def test_unsafe_harm_counts_attempts_of_successful_partners():
    data = evaluation({"full": failures(1, 10, "unsafe_attempt")})
    data["unsafe_attempts"].values[episodes(data, "full")[[4, 5]]] = 1
    result = harm(data)
    assert int(result["harmed_unsafe"]) == 3
    assert float(result["hr_unsafe"].sel(aggregation="pooled")) == pytest.approx(0.3)
    assert float(result["hr_by_reason"].sel(aggregation="pooled", reason="unsafe_attempt")) == pytest.approx(
        0.1
    )


def test_harm_without_base_success_is_undefined():
    result = harm(evaluation({"perturb": failures(10, 10)}))
    assert int(result["denominator"]) == 0
    assert np.isnan(result["hr_total"]).all()
    assert np.isnan(result["hr_total_low"])
    assert int(result["support"]) == 10


def test_harm_without_pairs_has_no_p_value():
    assert np.isnan(harm(evaluation(conditions=["baseline", "perturb"]))["mcnemar_p"])


def test_partner_that_did_not_run_is_outside_the_denominator():
    data = evaluation({"full": failures(2, 10)})
    drop(data, "full", 0)
    result = harm(data)
    assert (int(result["denominator"]), int(result["harmed"])) == (9, 1)


def test_interventions():
    data = evaluation({"full": failures(0, 4)})
    data["intervention_steps"].values[episodes(data, "full")] = [0, 0, 3, 7]
    result = intervention_metrics(align(data)).sel(condition="full").isel(row=0)
    assert float(result["recovery_rate"]) == 0.5
    assert float(result["mean_recovery_action_applied_steps"]) == 2.5
    data["intervention_steps"].values[episodes(data, "full")[0]] = -1
    result = intervention_metrics(align(data)).sel(condition="full").isel(row=0)
    assert np.isnan(result["recovery_rate"])
    assert np.isnan(result["mean_recovery_action_applied_steps"])
    assert int(result["n"]) == 4


def floor(**reasons):
    return noise_floor(condition_rates(align(evaluation(reasons)))).sel(outcome="success").isel(row=0)


def test_noise_floor_is_the_larger_difference():
    # SR: 0.64, clone 0.62, perturb 0.38, clone 0.42.
    result = floor(
        baseline=failures(18), baseline_clone=failures(19), perturb=failures(31), perturb_clone=failures(29)
    )
    np.testing.assert_allclose(
        [
            result[n]
            for n in ("nominal_difference", "perturbed_difference", "floor", "effect", "signed_effect")
        ],
        [0.02, 0.04, 0.04, 0.26, 0.26],
    )
    assert result["label"] == DISTINGUISHABLE


@pytest.mark.parametrize(
    ("perturbed", "label"), [(5, DISTINGUISHABLE), (4, WITHIN_VARIABILITY), (3, WITHIN_VARIABILITY)]
)
def test_effect_must_exceed_the_floor_strictly(perturbed, label):
    # The floor is 0.08 (4 episodes); the effect is 0.10, 0.08 or 0.06.
    result = floor(baseline_clone=failures(4), perturb=failures(perturbed), perturb_clone=failures(perturbed))
    assert result["label"] == label


def test_floor_is_undefined_without_a_clone():
    data = evaluation(conditions=["baseline", "perturb", "perturb_clone"])
    result = noise_floor(condition_rates(align(data))).sel(outcome="success").isel(row=0)
    assert np.isnan(result["floor"])
    assert (int(result["above_floor"]), str(result["label"].values)) == (-1, "undefined")
