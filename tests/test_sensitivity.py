"""Break points, floors and subsets, each held against the gate itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judging_data import episodes, evaluation, failures, join
from scipy.stats import hypergeom

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.admission import admit
from roep_gym.evaluate.judging.gate import collect_evidence, decide, judge
from roep_gym.evaluate.judging.sensitivity import THRESHOLDS, break_points, floor_statuses, subsample_statuses
from roep_gym.evaluate.store.storage import read_run

REPLAY = Path(__file__).parent / "data" / "replay"
READY, BLOCKED = "recovery_ready", "recovery_blocked_with_cause"
LOW, CLOSED = "inconclusive_low_support", "clean_not_admitted"


@pytest.fixture(scope="module")
def replay():
    return read_run(REPLAY)


def points(data, **settings):
    return break_points(data, GateConfig(**settings)).isel(row=0)


def at(found, threshold):
    cell = found.sel(threshold=threshold)
    return (
        float(cell["break_at"]),
        float(cell["margin"]),
        cell["strict_label"].item(),
        cell["lenient_label"].item(),
    )


@pytest.mark.parametrize(
    ("reasons", "threshold", "expected"),
    [
        ({"recovery": failures(3)}, "max_clean_harm", (0.06, 0.02, BLOCKED, READY)),
        ({"recovery": failures(4)}, "max_clean_harm", (0.08, 0.0, BLOCKED, READY)),
        ({"recovery": failures(6)}, "max_clean_harm", (0.12, -0.04, BLOCKED, READY)),
        ({"full": failures(5)}, "max_success_drop", (0.1, 0.0, BLOCKED, READY)),
        ({"baseline": failures(30)}, "min_paired_support", (20, 15, LOW, READY)),
        ({"baseline": failures(30)}, "min_clean_success_rate", (0.4, 0.35, CLOSED, READY)),
        ({"baseline": failures(48)}, "min_clean_successes", (np.nan, np.nan, CLOSED, CLOSED)),
        ({"baseline": failures(48)}, "min_clean_success_rate", (0.04, -0.01, CLOSED, LOW)),
        ({}, "min_intervention_steps", (1.0, 0.9, BLOCKED, READY)),
        ({}, "min_risk_positive_episodes", (4, 3, BLOCKED, READY)),
        ({"baseline_clone": ["", *["success"] * 49]}, "max_mismatched_keys", (1, -1, LOW, READY)),
        ({}, "min_abs_action", (0.5, 0.5 - 1e-6, CLOSED, READY)),
        ({}, "max_clean_harm", (np.nan, np.nan, READY, READY)),
    ],
)
def test_break_points_by_hand(reasons, threshold, expected):
    found = at(points(evaluation(reasons)), threshold)
    np.testing.assert_allclose(found[:2], expected[:2], atol=1e-12)
    assert found[2:] == expected[2:]


def test_a_row_that_two_checks_withhold_does_not_change_with_one_threshold():
    found = points(evaluation({"recovery": failures(6), "full": failures(10)}))
    assert np.isnan(found["break_at"].sel(threshold=["max_clean_harm", "max_success_drop"])).all()


def test_every_break_of_the_replay_is_where_the_gate_changes(replay):
    found, evidence = break_points(replay), collect_evidence(replay, GateConfig())
    assert found["trace_label"].values.tolist() == judge(replay).verdicts["trace_label"].values.tolist()
    seen = 0
    for threshold in THRESHOLDS:
        one = found.sel(threshold=threshold.name)
        counts = isinstance(getattr(GateConfig, threshold.name), int)
        step = 1 if counts else 1e-6
        for value in np.unique(one["break_at"].values[np.isfinite(one["break_at"].values)]):
            rows = np.flatnonzero(one["break_at"].values == value)
            strict_side = {"at_most": -step, "at_least": step, "above": 0}[threshold.passes]
            lenient_side = -step if threshold.passes == "above" else 0
            for side, name in ((strict_side, "strict_label"), (lenient_side, "lenient_label")):
                moved = value + side
                config = replace(evidence.config, **{threshold.name: int(moved) if counts else float(moved)})
                changed = replace(evidence, config=config, admission=admit(replay, evidence.rates, config))
                labels = decide(changed)["trace_label"].values
                assert labels[rows].tolist() == one[name].values[rows].tolist(), (threshold.name, value)
                seen += 1
    assert seen > 100


def test_a_looser_threshold_never_lowers_a_status(replay):
    order = [CLOSED, LOW, BLOCKED, READY]
    found = break_points(replay)
    strict, lenient = (
        np.vectorize(order.index)(found[name].values.astype(str))
        for name in ("strict_label", "lenient_label")
    )
    assert (strict <= lenient).all()


def test_every_threshold_of_the_gate_is_looked_at():
    others = {"seed_groups", "episodes_per_group", "aggregation", "tolerance", "confidence"}
    assert {t.name for t in THRESHOLDS} == set(GateConfig().to_dict()) - others


def test_floors():
    data = evaluation({"baseline": failures(44)})
    labels = floor_statuses(data)["trace_label"].isel(row=0)
    assert dict(zip(labels["floor"].values, labels.values, strict=True)) == {
        0.05: READY,
        0.1: READY,
        0.2: CLOSED,
    }
    with pytest.raises(InvalidInputError, match="min_clean_success_rate"):
        floor_statuses(data, floors=[1.5])


def test_subsets_hold_as_often_as_the_hypergeometric_law_says():
    # The same 25 keys fail in every condition, so a subset is ready when it holds at least 5 successes.
    same = dict.fromkeys(
        ("baseline", "baseline_clone", "perturb", "perturb_clone", "recovery", "full"), failures(25)
    )
    found = subsample_statuses(evaluation(same), sizes=[10], subsets=1000).isel(row=0, size=0)
    ready = hypergeom.sf(4, 50, 25, 10)
    assert float(found["same_share"]) == pytest.approx(ready, abs=4 * np.sqrt(ready * (1 - ready) / 1000))
    assert int(found["label_count"].sum()) == int(found["subsets"]) == 1000
    assert int(found["label_count"].sel(trace_label=CLOSED)) == pytest.approx(
        1000 * hypergeom.pmf(0, 50, 25, 10), abs=2
    )


def test_a_subset_takes_the_same_keys_in_every_condition():
    # Any two conditions with different keys would be mismatched, so no subset would stay ready.
    found = subsample_statuses(evaluation(), sizes=[10, 49], subsets=20).isel(row=0)
    assert found["same_share"].values.tolist() == [1, 1]


def test_a_row_is_not_subsampled_to_what_it_does_not_have():
    found = subsample_statuses(evaluation({"full": failures(0, 20)}), sizes=[10, 20, 30], subsets=5).isel(
        row=0
    )
    assert found["subsets"].values.tolist() == [5, 0, 0]
    assert np.isnan(found["same_share"].values).tolist() == [False, True, True]
    assert int(found["keys"]) == 20


def test_subsets_of_a_row_do_not_depend_on_other_rows_or_on_order():
    one = evaluation({"recovery": failures(5), "full": failures(4)}, rows={"task": "one"})
    alone = subsample_statuses(one, sizes=[20], subsets=50).isel(row=0)["label_count"].values
    both = join(evaluation(rows={"task": "zero"}), one)
    among = subsample_statuses(both, sizes=[20], subsets=50).isel(row=1)["label_count"].values
    order = np.random.Generator(np.random.Philox(1)).permutation(one.sizes["episode"])
    shuffled = (
        subsample_statuses(one.isel(episode=order), sizes=[20], subsets=50).isel(row=0)["label_count"].values
    )
    assert alone.tolist() == among.tolist() == shuffled.tolist()
    assert 0 < alone.max() < 50


def test_batches_do_not_change_the_result(monkeypatch):
    data = evaluation({"recovery": failures(5)})
    whole = subsample_statuses(data, sizes=[20], subsets=30)
    monkeypatch.setattr("roep_gym.evaluate.judging.sensitivity._BATCH_EPISODES", 500)
    assert subsample_statuses(data, sizes=[20], subsets=30).identical(whole)


def test_native_records_are_subsampled_too():
    data = evaluation(records="native")
    assert subsample_statuses(data, sizes=[10], subsets=10)["same_share"].item() == 1
    data["risk_steps"].values[episodes(data, "full")[:40]] = 0
    found = subsample_statuses(data, sizes=[30], subsets=10).isel(row=0, size=0)
    assert found["trace_label_of_all"].item() == BLOCKED
    assert float(found["same_share"]) == 1


@pytest.mark.parametrize("arguments", [{"subsets": 0}, {"sizes": [10, 0]}])
def test_sizes_that_make_no_sense_are_refused(arguments):
    with pytest.raises(InvalidInputError, match="sizes and subsets of at least 1"):
        subsample_statuses(evaluation(), **arguments)
