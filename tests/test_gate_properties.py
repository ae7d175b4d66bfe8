"""The gate is monotone where it should be, and blind to what it should not see."""

from __future__ import annotations

import numpy as np
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from judging_data import MAIN, episodes, evaluation

from roep_gym.evaluate.judging.gate import LABELS, judge
from roep_gym.evaluate.schema import REASONS

KEYS = 20
GROUPS = [0] * 5 + [1] * 5 + [2] * 10
SHIELDED = ("recovery", "full")

reason = st.sampled_from(["timeout", "unsafe_attempt"])
some = st.dictionaries(st.integers(0, KEYS - 1), reason, max_size=2).map(
    lambda failed: [failed.get(key, "success") for key in range(KEYS)]
)
many = st.lists(st.sampled_from(["success"]) | reason, min_size=KEYS, max_size=KEYS)
# Few failures keep a row near the thresholds, many ones take it to every status.
outcomes = some | some | some | many
runs = st.fixed_dictionaries(dict.fromkeys(MAIN, outcomes)).map(
    lambda reasons: evaluation(reasons, groups=GROUPS)
)
keys = st.sets(st.integers(0, KEYS - 1), min_size=1)
bounded = settings(max_examples=25, deadline=None, derandomize=True)


def rank(data: xr.Dataset) -> int:
    return LABELS.index(judge(data).verdicts["trace_label"].item())


def fail(data: xr.Dataset, condition: str, which: set[int], reason: str) -> xr.Dataset:
    changed = data.copy(deep=True)
    at = episodes(changed, condition)[sorted(which)]
    changed["success"].values[at] = 0
    changed["reason"].values[at] = REASONS.index(reason)
    return changed


def exchange(data: xr.Dataset, first: str, second: str) -> xr.Dataset:
    """Return the data with the records of two conditions exchanged."""
    changed = data.copy(deep=True)
    one, two = episodes(data, first), episodes(data, second)
    for name in ("success", "reason", "steps", "max_abs_action", "unsafe_attempts", "intervention_steps"):
        changed[name].values[one], changed[name].values[two] = data[name].values[two], data[name].values[one]
    return changed


@bounded
@given(runs, st.sampled_from(SHIELDED), keys, st.sampled_from(["timeout", "unsafe_attempt", "safe_refusal"]))
def test_more_harm_never_improves_a_status(data, condition, which, reason):
    assert rank(fail(data, condition, which, reason)) <= rank(data)


@bounded
@given(runs, st.sampled_from(SHIELDED), keys)
def test_more_unsafe_attempts_never_improve_a_status(data, condition, which):
    changed = data.copy(deep=True)
    changed["unsafe_attempts"].values[episodes(data, condition)[sorted(which)]] += 1
    assert rank(changed) <= rank(data)


@bounded
@given(runs, keys)
def test_less_shield_activity_never_improves_a_status(data, which):
    changed = data.copy(deep=True)
    changed["intervention_steps"].values[episodes(data, "full")[sorted(which)]] = 0
    assert rank(changed) <= rank(data)


@bounded
@given(runs, st.sampled_from(MAIN), keys)
def test_missing_episodes_never_improve_a_status(data, condition, which):
    changed = data.copy(deep=True)
    at = episodes(data, condition)[sorted(which)]
    for name in ("success", "reason", "steps", "unsafe_attempts", "intervention_steps"):
        changed[name].values[at] = -1
    assert rank(changed) <= min(rank(data), LABELS.index("inconclusive_low_support"))


@bounded
@given(runs, st.permutations(range(KEYS * len(MAIN))))
def test_the_order_of_episodes_changes_nothing(data, order):
    one, two = judge(data), judge(data.isel(episode=list(order)))
    for name in ("verdicts", "rates", "harm", "floor", "integrity", "interventions", "admission"):
        xr.testing.assert_identical(getattr(one, name), getattr(two, name))


@bounded
@given(runs)
def test_exchanged_clones_keep_the_floor_and_whatever_does_not_look_at_them(data):
    before = judge(data)
    for condition, others in {
        "baseline": [],
        "perturb": ["clean_admission", "clean_recovery_harm", "clean_unsafe_harm"],
    }.items():
        after = judge(exchange(data, condition, f"{condition}_clone"))
        for name in ("nominal_difference", "perturbed_difference", "floor"):
            np.testing.assert_array_equal(after.floor[name], before.floor[name])
        xr.testing.assert_identical(after.integrity, before.integrity)
        untouched = [*others, "pairing_integrity", "shield_support", "recovery_activity"]
        if condition == "baseline":
            untouched += ["medium_unsafe_attempts", "full_vs_perturb_effect", "medium_unsafe_harm"]
        np.testing.assert_array_equal(
            after.verdicts["value"].sel(check=untouched), before.verdicts["value"].sel(check=untouched)
        )


@bounded
@given(outcomes, outcomes, outcomes, outcomes)
def test_exchanging_identical_clones_changes_nothing(baseline, perturb, recovery, full):
    reasons = {"baseline": baseline, "baseline_clone": baseline, "perturb": perturb, "perturb_clone": perturb}
    data = evaluation({**reasons, "recovery": recovery, "full": full}, groups=GROUPS)
    changed = exchange(exchange(data, "baseline", "baseline_clone"), "perturb", "perturb_clone")
    xr.testing.assert_identical(judge(changed).verdicts, judge(data).verdicts)


def test_the_drawn_runs_reach_several_statuses():
    """Without this the properties could hold because nothing ever changes."""
    seen: set[str] = set()

    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(runs)
    def collect(data):
        seen.add(LABELS[rank(data)])

    collect()
    assert seen >= {"recovery_blocked_with_cause", "recovery_ready"}
