"""Statistics of pairs, and clones that repeat every record."""

from __future__ import annotations

import numpy as np
import pytest
from judging_data import drop, episodes, evaluation, failures, join

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.paired_evidence import (
    IDENTICAL,
    StatisticsConfig,
    group_evidence,
    paired_evidence,
)
from roep_gym.evaluate.judging.pairing import align, identical_replicates

LOSS, NOMINAL, PERTURBED = (
    "perturb given baseline",
    "baseline_clone given baseline",
    "perturb_clone given perturb",
)


def evidence(data, pair=LOSS, **levels):
    return paired_evidence(align(data), StatisticsConfig(**levels)).isel(row=0).sel(pair=pair)


def test_pairs_by_hand():
    # Of ten pairs the baseline loses keys 0-1 and perturb keys 1-7: six lost, one gained.
    perturb = ["success", *["timeout"] * 7, *["success"] * 2]
    found = evidence(evaluation({"baseline": failures(2, 10), "perturb": perturb}))
    assert [int(found[name]) for name in ("support", "lost", "gained", "init_states")] == [10, 6, 1, 10]
    assert float(found["difference"]) == 0.5
    assert float(found["mcnemar_p"]) == float(found["holm_p"]) == 0.125
    assert float(found["bootstrap_low"]) < 0.5 < float(found["bootstrap_high"])
    assert float(found["score_low"]) < 0.5 < float(found["score_high"])
    assert found["bootstrap_reason"].item() == ""


def test_detectable_drop_by_hand():
    # Eight pairs, all base successes: at least six must be lost, which Bin(8, 0.8) does with 0.797: 28 * 0.8^6 * 0.04
    # + 8 * 0.8^7 * 0.2 + 0.8^8.
    found = evidence(evaluation({"perturb": failures(1, 8)}))
    assert float(found["detectable_drop"]) == pytest.approx(0.8, abs=2e-3)
    assert np.isnan(evidence(evaluation({"baseline": failures(5, 10)}))["detectable_drop"])


def test_holm_is_over_the_rows_of_a_pair():
    one = evaluation({"perturb": failures(10)})
    two = evaluation({"perturb": failures(6)}, rows={"task": "other"})
    both = join(one, two)
    found = paired_evidence(align(both)).sel(pair=LOSS)
    assert found["mcnemar_p"].values.tolist() == [2 / 2**10, 2 / 2**6]
    assert found["holm_p"].values.tolist() == [4 / 2**10, 2 / 2**6]


def test_evidence_of_a_row_does_not_depend_on_the_other_rows():
    one = evaluation({"perturb": failures(10)})
    alone = evidence(one)
    among = paired_evidence(align(join(evaluation(rows={"task": "first"}), one))).isel(row=1).sel(pair=LOSS)
    assert float(alone["bootstrap_low"]) == float(among["bootstrap_low"])


def test_a_clone_that_repeats_every_record_is_one_observation():
    aligned = align(evaluation({"baseline": failures(3), "baseline_clone": failures(3)}))
    found = identical_replicates(aligned).isel(row=0).sel(pair=NOMINAL)
    assert [int(found[name]) for name in ("identical", "keys", "differing_keys", "observations")] == [
        1,
        50,
        0,
        1,
    ]
    pair = paired_evidence(aligned).isel(row=0).sel(pair=NOMINAL)
    assert pair["bootstrap_reason"].item() == IDENTICAL
    assert int(pair["identical"]) == 1
    names = ("mcnemar_p", "score_low", "score_high", "bootstrap_low", "bootstrap_high", "detectable_drop")
    assert all(np.isnan(pair[name]) for name in names)


@pytest.mark.parametrize(
    ("name", "value"), [("steps", 99), ("max_abs_action", 0.6), ("unsafe_attempts", 1), ("scene_hash", 8)]
)
def test_one_differing_record_makes_two_observations(name, value):
    data = evaluation(records="native")
    data[name].values[episodes(data, "baseline_clone")[7]] = value
    found = identical_replicates(align(data)).isel(row=0).sel(pair=NOMINAL)
    assert [int(found[name]) for name in ("identical", "differing_keys", "observations")] == [0, 1, 2]


def test_a_clone_that_did_not_run_is_no_observation():
    data = evaluation()
    drop(data, "perturb_clone")
    found = identical_replicates(align(data)).isel(row=0).sel(pair=PERTURBED)
    assert [int(found[name]) for name in ("identical", "keys", "observations")] == [-1, 0, 0]
    pair = paired_evidence(align(data)).isel(row=0).sel(pair=PERTURBED)
    assert pair["bootstrap_reason"].item() == "no pair"
    assert np.isnan(pair["difference"])


def test_a_clone_that_lacks_an_episode_is_not_identical():
    data = evaluation()
    drop(data, "baseline_clone", 3)
    found = identical_replicates(align(data)).isel(row=0).sel(pair=NOMINAL)
    assert [int(found[name]) for name in ("identical", "keys", "differing_keys")] == [0, 49, 0]


def test_a_pair_without_a_clone_is_never_identical():
    assert int(evidence(evaluation())["identical"]) == -1


def test_means_over_tasks_by_hand():
    # Losses of 10/50 and 30/50: mean 0.4; drawing two tasks gives 0.2, 0.4 and 0.6 as 1 : 2 : 1, give or take 0.06.
    data = join(
        evaluation({"perturb": failures(10)}), evaluation({"perturb": failures(30)}, rows={"task": "other"})
    )
    found = group_evidence(align(data)).isel(group=0).sel(pair=LOSS)
    assert (int(found["tasks"]), int(found["init_states"])) == (2, 100)
    assert float(found["difference"]) == pytest.approx(0.4)
    assert float(found["bootstrap_low"]) == pytest.approx(0.14, abs=0.06)
    assert float(found["bootstrap_high"]) == pytest.approx(0.66, abs=0.06)


def test_a_group_leaves_out_rows_whose_clone_repeats_every_record():
    moved = evaluation({"baseline_clone": failures(10)}, rows={"task": "other"})
    found = group_evidence(align(join(evaluation(), moved))).isel(group=0)
    assert int(found["tasks"].sel(pair=NOMINAL)) == 1
    assert float(found["difference"].sel(pair=NOMINAL)) == 0.2
    assert found["bootstrap_reason"].sel(pair=PERTURBED).item() == IDENTICAL


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ({"confidence": 1}, "confidence between 0 and 1, got 1"),
        ({"power": 0}, "power between 0 and 1, got 0"),
        ({"resamples": 0}, "at least 1 resample, got 0"),
    ],
)
def test_levels_outside_their_range_are_refused(levels, message):
    with pytest.raises(InvalidInputError, match=message):
        StatisticsConfig(**levels)
