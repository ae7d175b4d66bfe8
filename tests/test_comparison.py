"""Two runs or models over the same keys, and what refuses a comparison."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from judging_data import drop, evaluation, failures, join

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.comparison.comparison import compare
from roep_gym.evaluate.comparison.premises import DIFFERS, EQUAL, NOT_RECORDED
from roep_gym.evaluate.judging.paired_evidence import IDENTICAL
from roep_gym.wrappers.profiles import PROFILES

PLAN = {"step_budget": 280, "suite_step_budgets": {}, "environment": {"cameras": ["agentview"]}}
PARAMETERS = {name: profile.to_spec() for name, profile in PROFILES.items()}


def native(reasons=None, *, plan=PLAN, profiles=PARAMETERS, **arguments):
    data = evaluation(reasons, records="native", **arguments)
    return data.assign_attrs(provenance=json.dumps({"plan": plan, "profiles": profiles}))


def verdicts(comparison):
    return {premise.name: premise.verdict for premise in comparison.premises}


def test_two_runs_by_hand():
    first, second = (
        native({"baseline": failures(2, 10)}),
        native({"baseline": ["success", *["timeout"] * 7, *["success"] * 2]}),
    )
    comparison = compare(first, second)
    found = comparison.statistics.isel(row=0).sel(condition="baseline")
    names = ("support", "lost", "gained", "unpaired")
    assert [int(found[name]) for name in names] == [10, 6, 1, 0]
    assert [float(found[name]) for name in ("first_rate", "second_rate", "difference")] == [0.8, 0.3, 0.5]
    assert float(found["mcnemar_p"]) == 0.125
    assert comparison.means["baseline"].estimate == 0.5
    assert set(verdicts(comparison).values()) == {EQUAL, NOT_RECORDED}
    assert verdicts(comparison)["instructions"] == NOT_RECORDED


def test_exchanging_the_sides_changes_the_sign_alone():
    first, second = native({"full": failures(9)}), native({"full": failures(2)})
    one = compare(first, second).statistics.isel(row=0).sel(condition="full")
    two = compare(second, first).statistics.isel(row=0).sel(condition="full")
    assert float(one["difference"]) == -float(two["difference"]) == -0.14
    assert (int(one["lost"]), int(one["gained"])) == (int(two["gained"]), int(two["lost"]))
    assert float(one["mcnemar_p"]) == float(two["mcnemar_p"])
    np.testing.assert_allclose(float(one["score_low"]), -float(two["score_high"]))


def test_two_models_of_one_run():
    data = join(native(rows={"model": "a"}), native({"baseline": failures(9)}, rows={"model": "b"}))
    comparison = compare(data, data, first_model="a", second_model="b")
    assert (comparison.first, comparison.second) == ("a", "b")
    assert float(comparison.statistics["difference"].sel(condition="baseline").item()) == 0.18


def test_the_second_run_takes_the_model_of_the_first():
    several = join(native(rows={"model": "a"}), native(rows={"model": "b"}))
    assert compare(native(rows={"model": "b"}), several).second == "b"


def test_a_side_that_repeats_every_record_of_the_other_is_no_evidence():
    found = compare(native(), native()).statistics.isel(row=0).sel(condition="baseline")
    assert found["bootstrap_reason"].item() == IDENTICAL
    assert np.isnan(found["mcnemar_p"])


def test_flat_tables_say_what_they_do_not_record():
    comparison = compare(evaluation(), evaluation({"baseline": failures(3)}))
    found = verdicts(comparison)
    assert found["keys"] == found["full keys"] == EQUAL
    names = ("numeric fingerprints", "scenes", "step budgets", "environments", "profiles", "instructions")
    assert {found[name] for name in names} == {NOT_RECORDED}
    assert [p.detail for p in comparison.premises if p.name == "step budgets"] == [
        "step budgets not recorded on both sides"
    ]


@pytest.mark.parametrize("recorded", [{}, {"clean": PARAMETERS["clean"]}])
def test_profiles_without_recorded_parameters_are_never_called_equal(recorded):
    second = native({"baseline": failures(3)}, profiles=recorded)
    assert verdicts(compare(native(), second))["profiles"] == NOT_RECORDED
    assert verdicts(compare(second, native(profiles=recorded)))["profiles"] == NOT_RECORDED


def test_only_the_profiles_of_shared_conditions_are_compared():
    second = native({"baseline": failures(3)}, profiles={**PARAMETERS, "strong": {"name": "strong"}})
    assert verdicts(compare(native(), second))["profiles"] == EQUAL


def test_an_episode_that_did_not_run_is_no_pair():
    second = native({"baseline": failures(3)})
    drop(second, "baseline", 0, 40)
    found = compare(native(), second).statistics.isel(row=0).sel(condition="baseline")
    assert [int(found[name]) for name in ("support", "lost", "unpaired")] == [48, 2, 2]


def other(name, value):
    data = native({"baseline": failures(3)})
    data[name].values[5] = value
    return data


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (native(plan={**PLAN, "step_budget": 520}), "step budgets differ: 280 and 520"),
        (native(plan={**PLAN, "suite_step_budgets": {"suite": 300}}), "step budgets differ: 280 and 300"),
        (native(plan={**PLAN, "environment": {"cameras": []}}), "environments differ"),
        (native(profiles={**PARAMETERS, "medium": {"name": "medium", "operators": []}}), "profiles differ"),
        (other("env_seed", 7), "keys differ: 1 planned on the first side only, 1 on the second"),
        (other("scene_hash", 8), "scenes differ in 1 of 300 pairs"),
        (other("fingerprint", 8), "numeric fingerprints differ in 1 of 300 pairs"),
        (native(groups=[0] * 10), "keys differ"),
        (native(rows={"instruction": "stop"}), "instructions differ: ['go'] and ['stop']"),
    ],
)
def test_a_premise_that_differs_refuses_the_comparison(second, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        compare(native(rows={"instruction": "go"}), second)


def test_keys_that_were_not_recorded_in_full_refuse_too():
    first, second = evaluation(), evaluation({"baseline": failures(3)})
    for data in (first, second):
        data["env_seed"].values[:] = -1
    with pytest.raises(InvalidInputError, match="300 keys lack initial state or scene seed"):
        compare(first, second)


def test_a_refused_row_stands_beside_the_others():
    good, bad = native(rows={"task": "good"}), native(rows={"task": "bad"})
    second = join(
        native({"baseline": failures(8)}, rows={"task": "good"}),
        other("fingerprint", 8).assign_coords(task=("row", ["bad"])),
    )
    comparison = compare(join(good, bad).assign_attrs(good.attrs), second.assign_attrs(good.attrs))
    assert comparison.statistics["refusal"].values.tolist() == [
        "",
        "numeric fingerprints differ in 1 of 300 pairs",
    ]
    baseline = comparison.statistics.sel(condition="baseline")
    assert baseline["support"].values.tolist() == [50, 0]
    assert np.isnan(baseline["mcnemar_p"].values).tolist() == [False, True]
    assert comparison.means["baseline"].tasks == 1
    assert [p.task for p in comparison.premises if p.verdict == DIFFERS] == ["bad"]


def test_rows_and_conditions_of_one_side_alone_are_left_out():
    first = native(conditions=("baseline", "perturb"))
    comparison = compare(first, native({"perturb": failures(4)}, conditions=("perturb", "full")))
    assert comparison.statistics["condition"].values.tolist() == ["perturb"]
    with pytest.raises(
        InvalidInputError, match="a task and condition that both sides planned, but they share none"
    ):
        compare(first, native(rows={"task": "another"}))


def test_which_models_must_be_said():
    several = join(native(rows={"model": "a"}), native(rows={"model": "b"}))
    with pytest.raises(InvalidInputError, match="one model of the first run, which holds a, b"):
        compare(several, native())
    with pytest.raises(InvalidInputError, match="one model of the second run, which holds a, b"):
        compare(native(), several)
    with pytest.raises(UnknownNameError, match="Unknown model 'c'"):
        compare(several, several, first_model="c")
    with pytest.raises(InvalidInputError, match="got 'a' of one run twice"):
        compare(several, several, first_model="a")
