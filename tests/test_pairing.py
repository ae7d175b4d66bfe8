"""Pairs by key, and the mismatches of check 2."""

from __future__ import annotations

import re

import numpy as np
import pytest
from judging_data import drop, episodes, evaluation

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.pairing import GATE_PAIRS, align, pair_integrity

ALL = [pair.name for pair in GATE_PAIRS]


def integrity(data):
    return pair_integrity(align(data)).isel(row=0).sel(pair=ALL)


def test_complete_pairs():
    counts = integrity(evaluation())
    assert counts["support"].values.tolist() == [50] * 5
    assert counts["mismatched_keys"].values.tolist() == [0] * 5


def test_order_of_episodes_does_not_matter():
    data = evaluation()
    shuffled = data.isel(episode=np.random.Generator(np.random.Philox(1)).permutation(data.sizes["episode"]))
    assert integrity(shuffled).equals(integrity(data))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("baseline", [2, 0, 2, 2, 0]),
        ("baseline_clone", [0, 0, 0, 2, 0]),
        ("perturb", [0, 2, 2, 0, 2]),
        ("perturb_clone", [0, 0, 0, 0, 2]),
        ("recovery", [2, 0, 0, 0, 0]),
        ("full", [0, 2, 0, 0, 0]),
    ],
)
def test_absent_episodes_mismatch_in_every_pair_of_their_condition(condition, expected):
    data = evaluation()
    drop(data, condition, 3, 17)
    assert integrity(data)["mismatched_keys"].values.tolist() == expected


def test_condition_without_episodes_mismatches_every_key():
    data = evaluation(conditions=["baseline", "perturb", "perturb_clone", "recovery", "full"])
    assert integrity(data)["mismatched_keys"].values.tolist() == [0, 0, 0, 50, 0]


@pytest.mark.parametrize("name", ["init_state", "env_seed", "seed_group"])
def test_unequal_keys_mismatch_on_both_sides(name):
    data = evaluation()
    data[name].values[episodes(data, "full")[0]] += 5000
    counts = integrity(data)
    assert counts["mismatched_keys"].values.tolist() == [0, 2, 0, 0, 0]
    assert int(counts["support"].sel(pair="full given perturb")) == 49


def test_unequal_scene_hashes_mismatch_where_both_are_recorded():
    data = evaluation(records="native")
    data["scene_hash"].values[episodes(data, "full")[0]] = 8
    data["scene_hash"].values[episodes(data, "full")[1]] = -1
    counts = integrity(data)
    assert counts["unequal_scenes"].values.tolist() == [0, 1, 0, 0, 0]
    assert counts["mismatched_keys"].values.tolist() == [0, 1, 0, 0, 0]


def test_unequal_aborts_and_fingerprints_stand_beside():
    data = evaluation(records="native")
    data["aborts"].values[episodes(data, "recovery")[:3]] = 1
    data["fingerprint"].values[episodes(data, "perturb_clone")[0]] = 10
    counts = integrity(data)
    assert counts["unequal_aborts"].values.tolist() == [3, 0, 0, 0, 0]
    assert counts["unequal_fingerprints"].values.tolist() == [0, 0, 0, 0, 1]
    assert counts["mismatched_keys"].values.tolist() == [0] * 5


def test_episode_that_stands_twice_is_refused():
    data = evaluation()
    at = episodes(data, "full")
    for name in ("seed_group", "episode_index", "init_state", "env_seed"):
        data[name].values[at[1]] = data[name].values[at[0]]
    with pytest.raises(InvalidInputError, match=re.escape("seed group 0, episode 0 appears twice in 'full'")):
        align(data)
