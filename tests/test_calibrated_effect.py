"""The calibrated verdict beside the paper's: all clones count, replicates do not, and its error rate holds."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from judging_data import episodes, evaluation, failures

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.calibrated_effect import ERROR_RATE, REPLICATED, clean_replicated
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.judging.pairing import align
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.schema import MAX_CLONES, clones_of
from roep_gym.evaluate.statistics.intervals import mcnemar_exact, stratified_exact


def test_one_execution_on_each_side_is_the_exact_mcnemar_test():
    for lost, gained, both in product(range(8), range(8), (0, 3)):
        first = [1] * lost + [0] * gained + [1] * both
        second = [0] * lost + [1] * gained + [1] * both
        ones = [1] * len(first)
        p = stratified_exact(first, ones, second, ones)
        assert p == pytest.approx(float(mcnemar_exact(lost, gained)), abs=1e-12) if ones else math.isnan(p)


@pytest.mark.parametrize(
    ("clean", "perturbed", "executions", "expected"),
    [
        # One episode, succeeded clean, failed in all three perturbed executions: P(X = 1) = 1/4.
        ([1], [0], 3, 1 / 4),
        # Three of these: T = 3 against E = 3/4; only T = 3 is as far. (1/4)^3.
        ([1, 1, 1], [0, 0, 0], 3, 1 / 64),
        # Nothing differs anywhere.
        ([1, 0], [3, 0], 3, 1.0),
    ],
)
def test_by_hand(clean, perturbed, executions, expected):
    ones = [1] * len(clean)
    p = stratified_exact(clean, ones, perturbed, [executions] * len(clean))
    assert p == pytest.approx(expected, abs=1e-12)


def test_without_an_episode_on_both_sides_there_is_no_test():
    assert math.isnan(stratified_exact([1, 0], [1, 0], [0, 1], [0, 1]))


def test_the_error_rate_is_at_most_the_stated_one():
    draw = np.random.default_rng(0)
    rejected = 0
    trials = 1000
    for _ in range(trials):
        chance = draw.beta(2, 1, 50)  # episodes differ in difficulty, clean and perturbed do not
        clean, perturbed = draw.binomial(1, chance), draw.binomial(3, chance)
        rejected += stratified_exact(clean, np.ones(50), perturbed, np.full(50, 3)) <= ERROR_RATE
    assert 0 < rejected <= ERROR_RATE * trials


def test_further_clones_make_an_effect_visible_that_one_does_not_show():
    # 5 of 50 lost under perturbation: p = 0.0625 with one execution.
    lost = failures(5)
    none = [""] * 50
    one = judge(evaluation({"perturb": lost, "baseline_clone": none, "perturb_clone": none}))
    assert float(one.calibrated["p_value"].sel(severity="medium")[0]) == pytest.approx(0.0625)
    three = judge(
        evaluation({"perturb": lost, "perturb_clone": failures(6), "perturb_clone_2": failures(4)}, clones=2)
    )
    calibrated = three.calibrated.sel(severity="medium")
    assert calibrated["perturbed_executions"].values.tolist() == [3]
    assert float(calibrated["p_value"][0]) < 0.01
    assert calibrated["label"].values.tolist() == ["distinguishable from the floor"]


def test_a_clone_that_repeats_every_record_is_no_further_execution_and_is_named():
    data = evaluation({"perturb": failures(5)})
    assert clean_replicated(align(data)).tolist() == [1]
    judgement = judge(data)
    assert judgement.calibrated["clean_executions"].sel(severity="medium").values.tolist() == [1]
    assert REPLICATED in str(judgement.verdicts["notes"].values[0])
    data["steps"].values[episodes(data, "baseline_clone")[0]] += 1
    judgement = judge(data)
    assert judgement.calibrated["clean_executions"].sel(severity="medium").values.tolist() == [2]
    assert REPLICATED not in str(judgement.verdicts["notes"].values[0])


def test_clones_are_planned_beyond_the_first_and_have_runs_of_their_own():
    plan = {
        "models": [{"name": "m", "policy": "random"}],
        "tasks": ["tabletop/carry"],
        "clones": {"perturb": 3},
    }
    resolved = resolve(plan_from_mapping(plan))
    names = [condition.name for condition in resolved.conditions]
    assert names[-2:] == ["perturb_clone_2", "perturb_clone_3"]
    assert "baseline_clone_2" not in names
    assert len({resolved.run_id(resolved.rows[0], name) for name in names}) == len(names)
    assert "baseline_clone_2" in [
        c.name for c in resolve(plan_from_mapping({**plan, "clones": 2})).conditions
    ]
    assert len(clones_of("perturb")) == MAX_CLONES


@pytest.mark.parametrize(
    ("clones", "message"),
    [
        (0, "Expected the number of clones of 'baseline' to be an integer in 1..5, got 0."),
        ({"perturb": 6}, "Expected the number of clones of 'perturb' to be an integer in 1..5, got 6."),
        ({"pertub": 2}, "Unknown condition with clones 'pertub'. Did you mean 'perturb'?"),
    ],
)
def test_numbers_of_clones_that_cannot_be(clones, message):
    plan = {"models": [{"name": "m", "policy": "random"}], "tasks": ["tabletop/carry"], "clones": clones}
    with pytest.raises(InvalidInputError) as raised:
        resolve(plan_from_mapping(plan))
    assert str(raised.value) == message
