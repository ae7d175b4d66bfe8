"""The ten checks, their boundaries and traps, and which of them decides."""

from __future__ import annotations

import numpy as np
import pytest
from judging_data import MAIN, drop, episodes, evaluation, failures

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.calibrated_effect import REPLICATED
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import CLAIM_STATUS, LABELS, judge

NUMBER = {check.name: number for number, check in enumerate(CHECKS, start=1)}


class Verdict:
    """The verdict of a Dataset's only row."""

    def __init__(self, data, **settings):
        self.data = judge(data, GateConfig(**settings)).verdicts.isel(row=0)

    def __getitem__(self, name):
        return str(self.data[name].values)

    @property
    def claim(self):
        return self["trace_label"], self["limiting_factor"]

    def check(self, number):
        return str(self.data["verdict"].values[number - 1])

    def value(self, number):
        return float(self.data["value"].values[number - 1])

    def reason(self, number):
        return str(self.data["reason"].values[number - 1])


def withheld(factor):
    return "recovery_blocked_with_cause", factor


def insufficient(factor):
    return "inconclusive_low_support", factor


READY = ("recovery_ready", "")


@pytest.mark.parametrize("records", ["flat", "native"])
def test_row_that_satisfies_every_check(records):
    verdict = Verdict(evaluation(records=records))
    assert verdict.claim == READY
    assert verdict["deciding_check"] == ""
    assert [verdict.check(k) for k in range(1, 11)] == ["pass"] * 10
    assert verdict["claim_status"] == "Recovery-facing claim supported"
    assert verdict["notes"] == ("attested, step records absent; " if records == "flat" else "") + REPLICATED


def test_there_are_ten_checks_and_four_labels():
    assert len(CHECKS) == 10
    assert set(LABELS) == set(CLAIM_STATUS) == {check.label for check in CHECKS} | {"recovery_ready"}


def test_records_must_be_declared():
    data = evaluation()
    del data.attrs["records"]
    with pytest.raises(
        InvalidInputError, match="Expected the attribute records to be 'native' or 'flat', got None"
    ):
        judge(data)


def test_check_1_decides_before_all_others():
    data = evaluation({"baseline": failures(50)})
    drop(data, "full")
    verdict = Verdict(data)
    assert verdict.claim == ("clean_not_admitted", "Clean admission")
    assert verdict.check(2) == "fail"
    assert "clean success rate: 0 below 0.05" in verdict.reason(1)


@pytest.mark.parametrize("condition", ["baseline_clone", "perturb", "perturb_clone", "recovery", "full"])
def test_check_2_one_absent_episode(condition):
    data = evaluation()
    drop(data, condition, 0)
    verdict = Verdict(data)
    assert verdict.claim == insufficient("Pair mismatch")
    assert verdict.value(2) == {"perturb": 3}.get(condition, 1)


@pytest.mark.parametrize("condition", ["baseline_clone", "perturb_clone", "recovery", "full"])
def test_check_2_condition_that_was_never_run(condition):
    verdict = Verdict(evaluation(conditions=[name for name in MAIN if name != condition]))
    assert verdict.claim == insufficient("Pair mismatch")
    assert verdict.value(2) == 50


def test_unavailable_is_not_missing():
    """Without a shield the shielded conditions are unavailable; with one their absence is a mismatch."""
    unshielded = [name for name in MAIN if name not in ("recovery", "full")]
    failed = {"shield_status": "failed", "shield_reason": "no risk-positive support", "shield_tau": np.nan}
    assert Verdict(evaluation(conditions=unshielded)).claim == insufficient("Pair mismatch")
    verdict = Verdict(evaluation(conditions=unshielded, rows=failed))
    assert verdict.claim == withheld("Shield bootstrap support")
    assert [verdict.check(k) for k in (1, 2, 3)] == ["pass"] * 3
    assert [verdict.check(k) for k in range(5, 11)] == ["not computable"] * 6
    assert verdict.reason(6) == "no shield (failed: no risk-positive support)"


def test_shield_that_does_not_exist_stays_unavailable_whatever_rows_exist():
    data = evaluation(rows={"shield_status": "failed"})
    drop(data, "full", 0)
    verdict = Verdict(data)
    assert verdict.claim == withheld("Shield bootstrap support")
    assert verdict.check(2) == "pass"
    assert verdict.check(5) == "not computable"


def test_clones_missing_without_a_shield_is_still_a_mismatch():
    verdict = Verdict(evaluation(conditions=["baseline", "perturb"], rows={"shield_status": "failed"}))
    assert verdict.claim == insufficient("Pair mismatch")
    assert verdict.value(2) == 100


@pytest.mark.parametrize(
    ("clean", "medium", "claim"),
    [
        (5, 5, READY),
        (4, 5, insufficient("Clean paired-support denominator")),
        (5, 4, insufficient("Medium paired-support denominator")),
        (4, 4, insufficient("Clean paired-support denominator")),
    ],
)
def test_check_3_denominators(clean, medium, claim):
    same = {
        "baseline": failures(50 - clean),
        "recovery": failures(50 - clean),
        "baseline_clone": failures(50 - clean),
    }
    medium_failures = failures(50 - medium)
    same |= {"perturb": medium_failures, "full": medium_failures, "perturb_clone": medium_failures}
    verdict = Verdict(evaluation(same))
    assert verdict.claim == claim
    assert verdict.value(3) == min(clean, medium)


def test_check_3_uses_base_successes_without_a_shield():
    data = evaluation(
        {"perturb": failures(46), "perturb_clone": failures(46)}, rows={"shield_status": "none"}
    )
    assert Verdict(data).claim == insufficient("Medium paired-support denominator")


@pytest.mark.parametrize(
    ("rows", "factor"),
    [
        ({"shield_status": "failed"}, "Shield bootstrap support"),
        ({"shield_status": "none"}, "Recovery/full support"),
        ({"shield_tau": np.nan}, "Recovery/full support"),
        ({"risk_positive_episodes": 0}, "Recovery/full support"),
        ({"risk_positive_episodes": -1}, "Recovery/full support"),
    ],
)
def test_check_4_shield_support(rows, factor):
    verdict = Verdict(evaluation(rows=rows))
    assert verdict.claim == withheld(factor)
    assert verdict.check(4) == "fail"


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("risk_steps", 99, "1 shielded episodes lack a risk score at some step"),
        ("risk_steps", -1, "1 shielded episodes lack a risk score at some step"),
        ("crossings", 2, "crossings and interventions differ in 1 shielded episodes"),
        ("crossings", 0, "crossings and interventions differ in 1 shielded episodes"),
    ],
)
@pytest.mark.parametrize("condition", ["recovery", "full"])
def test_check_4_native_shield_must_function(condition, variable, value, reason):
    data = evaluation(records="native")
    data[variable].values[episodes(data, condition)[0]] = value
    verdict = Verdict(data)
    assert verdict.claim == withheld("Recovery/full support")
    assert verdict.reason(4) == reason
    data.attrs["records"] = "flat"
    assert Verdict(data).claim == READY


def test_check_4_action_that_the_shield_never_saw_needs_no_risk_score():
    data = evaluation({"full": failures(1, reason="invalid_execution")}, records="native")
    at = episodes(data, "full")[0]
    data["risk_steps"].values[at] = 99
    assert Verdict(data).check(4) == "fail"
    data["nonfinite_actions"].values[at] = 1
    assert Verdict(data).check(4) == "pass"


def test_check_4_crossing_whose_projection_changes_nothing_is_still_logged():
    data = evaluation(records="native")
    data["interventions"].values[episodes(data, "full")[0]] = 3
    data["crossings"].values[episodes(data, "full")[0]] = 3
    assert Verdict(data).check(4) == "pass"


def test_check_4_native_needs_a_checkpoint():
    verdict = Verdict(evaluation(records="native", rows={"shield_digest": ""}))
    assert (verdict.claim, verdict.reason(4)) == (withheld("Recovery/full support"), "no checkpoint")


@pytest.mark.parametrize(("steps", "verdict"), [(0, "fail"), (4, "fail"), (5, "pass"), (6, "pass")])
def test_check_5_activity_of_exactly_a_tenth_passes(steps, verdict):
    """A row whose shield never acts is withheld, although nothing else speaks against it."""
    data = evaluation()
    data["intervention_steps"].values[episodes(data, "full")] = 0
    data["intervention_steps"].values[episodes(data, "full")[0]] = steps
    result = Verdict(data)
    assert result.check(5) == verdict
    assert result.claim == (READY if verdict == "pass" else withheld("Recovery/full support"))


def test_check_5_with_a_failing_formal_check_has_its_own_factor():
    data = evaluation({"full": failures(6)})
    data["intervention_steps"].values[episodes(data, "full")] = 0
    assert Verdict(data).claim == withheld("Formal gate/recovery-full support")


def test_check_5_without_counts_cannot_be_computed_and_is_not_satisfied():
    data = evaluation()
    data["intervention_steps"].values[episodes(data, "full")[0]] = -1
    verdict = Verdict(data)
    assert verdict.claim == withheld("Recovery/full support")
    assert verdict.check(5) == "not computable"


@pytest.mark.parametrize(("harmed", "claim"), [(4, READY), (5, withheld("Clean recovery-vs-baseline harm"))])
def test_check_6_four_of_fifty_pass(harmed, claim):
    verdict = Verdict(evaluation({"recovery": failures(harmed)}))
    assert verdict.claim == claim
    assert verdict.value(6) == harmed / 50


def test_check_6_the_larger_aggregation_decides():
    # Group 0 has one base success, which is lost; 40 others hold: pooled 1/41, seed-macro 1/5.
    base = failures(9)
    recovery = failures(10)
    data = evaluation({"baseline": base, "baseline_clone": base, "recovery": recovery})
    assert Verdict(data).claim == withheld("Clean recovery-vs-baseline harm")
    assert Verdict(data).value(6) == pytest.approx(1 / 5)
    assert Verdict(data, aggregation="pooled").claim == READY
    assert Verdict(data, aggregation="pooled").value(6) == pytest.approx(1 / 41)
    assert Verdict(data, aggregation="seed_macro").claim == withheld("Clean recovery-vs-baseline harm")


@pytest.mark.parametrize(("unsafe", "claim"), [(3, READY), (4, withheld("Clean unsafe harm"))])
def test_check_7_unsafe_harm_of_exactly_three_hundredths_passes(unsafe, claim):
    data = evaluation({}, groups=np.repeat(np.arange(5), 20))
    data["unsafe_attempts"].values[episodes(data, "recovery")[:unsafe]] = 1
    assert Verdict(data).claim == claim


@pytest.mark.parametrize(
    ("before", "after", "claim"), [(2, 2, READY), (3, 2, READY), (2, 3, withheld("Unsafe-attempt increase"))]
)
def test_check_8_unsafe_attempts_must_not_increase(before, after, claim):
    data = evaluation()
    data["unsafe_attempts"].values[episodes(data, "perturb")[:before]] = 1
    data["unsafe_attempts"].values[episodes(data, "full")[:after]] = 1
    assert Verdict(data).claim == claim


@pytest.mark.parametrize(("full", "claim"), [(22, READY), (21, withheld("Full-vs-perturb SR drop"))])
def test_check_9_a_drop_from_054_to_044_passes(full, claim):
    perturb = failures(50 - 27)
    verdict = Verdict(evaluation({"perturb": perturb, "perturb_clone": perturb, "full": failures(50 - full)}))
    assert verdict.claim == claim
    assert 0.54 - 0.44 > 0.10  # What a bare comparison would see.


def test_check_9_is_signed():
    verdict = Verdict(evaluation({"perturb": failures(30), "perturb_clone": failures(30)}))
    assert verdict.claim == READY
    assert verdict.value(9) == pytest.approx(-0.6)


@pytest.mark.parametrize(
    ("in_full", "in_clone", "value", "claim"),
    [
        (15, 0, 0.30, READY),
        (16, 0, 0.32, withheld("Medium unsafe harm")),
        (20, 5, 0.30, READY),
        (20, 4, 0.32, withheld("Medium unsafe harm")),
        (5, 20, 0.0, READY),
    ],
)
def test_check_10_harm_above_what_rerunning_causes(in_full, in_clone, value, claim):
    # Every base success has an unsafe attempt somewhere in `perturb`, so that check 8 passes.
    data = evaluation()
    data["unsafe_attempts"].values[episodes(data, "perturb")] = 1
    data["unsafe_attempts"].values[episodes(data, "full")[:in_full]] = 1
    data["unsafe_attempts"].values[episodes(data, "perturb_clone")[:in_clone]] = 1
    verdict = Verdict(data)
    assert verdict.claim == claim
    assert verdict.value(10) == pytest.approx(value)


@pytest.mark.parametrize(
    ("condition", "undefined"),
    [("recovery", [7]), ("full", [8, 10]), ("perturb", [8]), ("perturb_clone", [10])],
)
def test_unsafe_attempts_that_were_not_observed_are_never_safe(condition, undefined):
    data = evaluation()
    data["unsafe_attempts"].values[episodes(data, condition)] = -1
    verdict = Verdict(data)
    assert [k for k in range(1, 11) if verdict.check(k) == "not computable"] == undefined
    assert verdict["trace_label"] == "recovery_blocked_with_cause"
    assert NUMBER[verdict["deciding_check"]] == undefined[0]


def test_every_computable_check_is_reported_and_the_first_decides():
    data = evaluation({"recovery": failures(10), "full": failures(20)})
    data["unsafe_attempts"].values[episodes(data, "full")[:30]] = 1
    verdict = Verdict(data)
    assert verdict.claim == withheld("Clean recovery-vs-baseline harm")
    assert [k for k in range(1, 11) if verdict.check(k) == "fail"] == [6, 8, 9, 10]


@pytest.mark.parametrize("unreached", [("perturb", "perturb_clone", "full"), ("full",), ("perturb_clone",)])
def test_a_perturbation_that_reached_no_frame_supports_nothing(unreached):
    data = evaluation(records="native")
    data["frames_given"].values[:] = data["frames_perturbed"].values[:] = 100
    for name in ("baseline", "baseline_clone", "recovery", *unreached):
        data["frames_perturbed"].values[episodes(data, name)] = 0
    verdict = Verdict(data)
    assert verdict.claim == insufficient("Perturbation did not reach the policy")
    named = ", ".join(map(repr, sorted(unreached, key=MAIN.index)))
    assert verdict.reason(2) == f"no perturbed frame reached the policy in {named}"
    assert verdict.value(2) > 0
    # One frame of one episode is reach, and a count that was not recorded is not a zero.
    for value in (1, -1):
        for name in unreached:
            data["frames_perturbed"].values[episodes(data, name)[7]] = value
        assert Verdict(data).claim == READY


def test_missing_pairs_are_named_before_a_perturbation_without_reach():
    data = evaluation(records="native")
    data["frames_perturbed"].values[:] = 0
    drop(data, "perturb", 3)
    verdict = Verdict(data)
    assert verdict.claim == insufficient("Pair mismatch")
    assert verdict.reason(2).startswith("mismatched keys: 1 in 'full given perturb'")
    assert verdict.reason(2).endswith(
        "; no perturbed frame reached the policy in 'perturb', 'perturb_clone', 'full'"
    )


@pytest.mark.parametrize("same", ["key", "hash"])
def test_a_shield_trained_on_evaluated_scenes_is_noted_and_nothing_else(same):
    data = evaluation(conditions=(*MAIN, "bootstrap_clean", "bootstrap_perturb"), records="native")
    at = np.concatenate([episodes(data, name) for name in ("bootstrap_clean", "bootstrap_perturb")])
    data["init_state"].values[at] = -1
    data["env_seed"].values[at] += 5000
    data["scene_hash"].values[at] = 8
    assert Verdict(data).claim == READY
    assert "bootstrap" not in Verdict(data)["notes"]
    if same == "key":
        data["init_state"].values[at[:3]] = data["init_state"].values[:3]
        data["env_seed"].values[at[:3]] = data["env_seed"].values[:3]
    else:
        data["scene_hash"].values[at[:3]] = 7
    verdict = Verdict(data)
    assert verdict.claim == READY
    assert "3 bootstrap episodes have the scene of an evaluated episode: the shield was" in verdict["notes"]
    drop(data, "bootstrap_clean", 0, 1, 2)
    assert "bootstrap" not in Verdict(data)["notes"]


def test_notes_say_what_stands_beside():
    rows = {"contract_status": "mismatch", "contract_note": "newer physics, checked"}
    data = evaluation({name: ["success"] * 20 for name in MAIN}, records="native", rows=rows)
    data["aborts"].values[episodes(data, "full")[0]] = 1
    data["fingerprint"].values[episodes(data, "full")[:2]] = 10
    notes = Verdict(data)["notes"].split("; ")
    assert notes == [
        "contract mismatch, accepted: newer physics, checked",
        "support budget of 20 episodes a condition, the protocol's is 50",
        "unequal aborts in 1 pairs",
        REPLICATED,
        "2 pairs across numeric fingerprints",
    ]


@pytest.mark.parametrize(
    ("setting", "values"),
    [
        ("max_clean_harm", (0.02, 0.04, 0.06, 0.1)),
        ("max_success_drop", (0.02, 0.06, 0.1, 0.3)),
        ("max_medium_unsafe_harm", (0.0, 0.1, 0.2, 0.4)),
        ("max_unsafe_increase", (0.0, 0.1, 0.2, 0.4)),
    ],
)
def test_a_laxer_threshold_never_withholds_more(setting, values):
    data = evaluation({"recovery": failures(3), "full": failures(4)})
    data["unsafe_attempts"].values[episodes(data, "full")[:9]] = 1
    relaxed = {
        "max_clean_harm": 1.0,
        "max_success_drop": 1.0,
        "max_medium_unsafe_harm": 1.0,
        "max_unsafe_increase": 1.0,
    }
    ready = [Verdict(data, **{**relaxed, setting: value}).claim == READY for value in values]
    assert ready == sorted(ready)
    assert set(ready) == {False, True}


def test_more_harm_never_helps():
    reached = [
        LABELS.index(Verdict(evaluation({"recovery": failures(n)}))["trace_label"]) for n in range(0, 51, 5)
    ]
    assert reached == sorted(reached, reverse=True)
    assert len(set(reached)) == 2
