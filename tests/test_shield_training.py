"""Training, calibration and bootstrap status of a shield."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from shield_data import FIELDS, make_episode, make_episodes

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.shields import BootstrapEpisode, ShieldConfig, TrainingOutcome, train_shield
from roep_gym.shields.bootstrap import NO_RISK_SUPPORT
from roep_gym.shields.labels import label_steps
from roep_gym.shields.model import calibrate, fit_zscore, threshold
from roep_gym.shields.split import SceneSupport, split_scenes
from roep_gym.shields.training import Samples, class_weights, constant_loss, train_risk_model

FAST = ShieldConfig(hidden_sizes=(16, 8), max_epochs=15)


@pytest.fixture(scope="module")
def outcome() -> TrainingOutcome:
    return train_shield(episodes())


def episodes() -> list[BootstrapEpisode]:
    """Return 40 successes and 20 timeouts, each in a scene of its own."""
    return make_episodes()


def in_part(given: list[BootstrapEpisode], part: str) -> list[BootstrapEpisode]:
    support = [SceneSupport(e.scene, int(e.reason == "timeout"), int(e.reason == "success")) for e in given]
    part_of = split_scenes(support, ShieldConfig())
    return [e for e in given if part_of[e.scene] == part]


def bits(outcome: TrainingOutcome) -> str:
    assert outcome.shield is not None
    return outcome.shield.digest


def test_class_weights_by_hand() -> None:
    # N = 10, of which 2 are risk: w_safe = 10 / 16, w_risk = 10 / 4.
    assert class_weights(np.array([0] * 8 + [1] * 2)) == (0.625, 2.5)


def test_threshold_is_the_higher_quantile_by_hand() -> None:
    scores = np.arange(1, 11) / 10
    # Position 0.95 * 9 = 8.55 of the sorted scores: the next higher one is the tenth.
    assert threshold(scores[::-1], 0.05) == 1.0
    # Position 0.75 * 9 = 6.75: the eighth. Linear interpolation would give 0.775.
    assert threshold(scores, 0.25) == 0.8
    assert threshold(np.array([0.3]), 0.05) == 0.3
    for bad in (np.array([]), np.array([0.1, np.nan])):
        with pytest.raises(InvalidInputError, match="at least one risk score, all finite"):
            threshold(bad, 0.05)


def test_zscore_survives_constant_features() -> None:
    values = np.column_stack([np.full(7, 0.1, np.float32), np.zeros(7), np.arange(7) * 1e-9])
    mean, scale = fit_zscore(values)
    assert scale[:2].tolist() == [1.0, 1.0]
    assert scale[2] == pytest.approx(2e-9)
    assert np.isfinite((values - mean) / scale).all()


def test_the_risk_region_is_learned(outcome: TrainingOutcome) -> None:
    shield = outcome.shield
    assert (outcome.status, outcome.reason) == ("trained", "")
    assert shield is not None
    fresh_safe, fresh_risk = make_episode("fresh", "success", 200), make_episode("fresh", "timeout")
    safe = [shield.risk(low, a) for low, a in zip(fresh_safe.low, fresh_safe.actions, strict=True)]
    risk = [shield.risk(low, a) for low, a in zip(fresh_risk.low[-5:], fresh_risk.actions[-5:], strict=True)]
    assert min(risk) >= shield.threshold
    assert np.mean(np.array(safe) >= shield.threshold) < 0.2


def test_metadata_says_what_was_done(outcome: TrainingOutcome) -> None:
    meta = outcome.metadata
    assert outcome.shield is not None
    assert outcome.shield.metadata == meta
    assert meta["label_source"] == "timeout_tail"
    assert meta["risk_positive_episodes"] == meta["counts"]["train"]["risk_episodes"] == 16
    assert meta["episode_counts"]["success"] == 40
    assert meta["episode_counts"]["timeout"] == 20
    assert meta["tau"] == outcome.shield.threshold
    assert meta["feature_names"] == [*FIELDS, *(f"action_{i}" for i in range(7))]
    assert (meta["learning_rate"], meta["batch_size"], meta["hidden_sizes"]) == (1e-3, 256, [128, 64, 32])
    assert 1 <= meta["best_epoch"] <= meta["epochs"] <= 40
    assert meta["validation_loss"] < meta["constant_loss"]
    for part, count in meta["counts"].items():
        members = in_part(episodes(), part)
        risk = sum(e.reason == "timeout" for e in members)
        expected = {
            "episodes": len(members),
            "safe_episodes": len(members) - risk,
            "risk_episodes": risk,
            "safe_steps": 40 * (len(members) - risk),
            "weak_safe_steps": 35 * risk,
            "risk_steps": 5 * risk,
        }
        assert count == expected
    assert json.loads(json.dumps(meta, allow_nan=False)) == meta


def test_calibration_sees_safe_episodes_alone_and_scores_as_the_runtime(outcome: TrainingOutcome) -> None:
    shield, config = outcome.shield, ShieldConfig()
    assert shield is not None
    held_out = in_part(episodes(), "calibration")
    assert {e.reason for e in held_out} == {"success", "timeout"}
    safe = [e for e in held_out if e.reason == "success"]
    scores = [shield.assess(low, a).risk for e in safe for low, a in zip(e.low, e.actions, strict=True)]
    assert shield.threshold == np.quantile(scores, 0.95, method="higher")
    # By construction tau is one of the scores, and at least one safe step reaches it.
    assert sum(score >= shield.threshold for score in scores) >= 1
    with_prefix = [
        shield.risk(low, a)
        for e in held_out
        for low, a, y in zip(e.low, e.actions, label_steps(e, "timeout_tail", config), strict=True)
        if y == 0
    ]
    assert np.quantile(with_prefix, 0.95, method="higher") != shield.threshold


def test_calibrate_scores_rows_one_by_one(outcome: TrainingOutcome) -> None:
    assert outcome.shield is not None
    model, rows = outcome.shield.model, np.random.default_rng(0).normal(size=(30, 11)).astype(np.float32)
    assert calibrate(model, rows, 0.05) in [model.risk(row) for row in rows]


def test_training_repeats_to_the_bit_in_any_order() -> None:
    given = make_episodes()
    first = bits(train_shield(given, FAST))
    order = np.random.default_rng(1).permutation(len(given))
    assert bits(train_shield([given[i] for i in order], FAST)) == first
    assert bits(train_shield(given, dataclasses.replace(FAST, seed=1))) != first
    assert bits(train_shield(make_episodes(41), FAST)) != first


def test_training_is_equal_in_another_process_and_thread_count() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests'); import torch; torch.set_num_threads(int(sys.argv[1]));"
        "from test_shield_training import FAST, bits; from shield_data import make_episodes;"
        "from roep_gym.shields import train_shield; print(bits(train_shield(make_episodes(), FAST)))"
    )
    other = subprocess.run([sys.executable, "-c", code, "2"], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == bits(train_shield(make_episodes(), FAST))


def test_training_disturbs_no_global_state() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        torch_state, numpy_state = torch.get_rng_state(), np.random.get_state(legacy=False)
        with torch.no_grad():
            assert train_shield(make_episodes(), FAST).status == "trained"
            assert not torch.is_grad_enabled()
        assert torch.equal(torch.get_rng_state(), torch_state)
        after = np.random.get_state(legacy=False)
        assert (after["state"]["key"] == numpy_state["state"]["key"]).all()
        assert after["state"]["pos"] == numpy_state["state"]["pos"]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_early_stopping_keeps_the_best_epoch() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0, 1] * 50, dtype=np.int8)
    train = Samples(rng.normal(size=(100, 3)).astype(np.float32), labels)
    validation = Samples(rng.normal(size=(100, 3)).astype(np.float32), 1 - labels)
    config = ShieldConfig(max_epochs=400, patience=3, batch_size=16, learning_rate=1e-2)
    network = train_risk_model(train, validation, config)
    # Labels without a rule are only memorised, so the validation loss soon rises.
    assert network.epochs == network.best_epoch + 3 < 400
    stopped = train_risk_model(train, validation, dataclasses.replace(config, max_epochs=network.best_epoch))
    for kept, last in zip(network.layers, stopped.layers, strict=True):
        np.testing.assert_array_equal(kept.weight, last.weight)


def test_the_constant_to_beat_is_the_best_one_of_the_training_part() -> None:
    labels = np.array([1] * 12 + [0] * 48, dtype=np.int8)
    safe, risk = class_weights(labels)

    def loss(p: float) -> float:
        return -(12 * risk * math.log(p) + 48 * safe * math.log(1 - p)) / 60

    constants = np.linspace(0.01, 0.99, 99)
    assert constant_loss(labels, (safe, risk)) == pytest.approx(min(map(loss, constants)))
    # On another part by hand, 3 safe steps and 1 risk step: weights 0.625 and 2.5, mean 1.09375.
    assert constant_loss(np.array([0, 0, 0, 1]), (0.625, 2.5)) == pytest.approx(math.log(2) * 1.09375)


def test_a_model_that_does_not_beat_a_constant_is_no_shield() -> None:
    # In the validation part the risk lies on the other side.
    opposite = {e.identifier for e in in_part(make_episodes(), "validation")}
    given = [
        dataclasses.replace(e, low=-e.low, actions=-e.actions) if e.identifier in opposite else e
        for e in make_episodes()
    ]
    outcome = train_shield(given, FAST)
    assert (outcome.status, outcome.shield) == ("failed", None)
    assert "does not beat" in outcome.reason
    assert outcome.metadata["validation_loss"] >= outcome.metadata["constant_loss"]


def test_episodes_of_one_scene_are_never_in_two_parts() -> None:
    """Each scene has its own number of steps, in a clean success as in its perturbed timeout."""
    pairs = [
        dataclasses.replace(make_episode(f"{reason}/{i}", reason, steps=20 + i), scene=f"scene {i}")
        for i in range(30)
        for reason in ("success", "timeout")
    ]
    for count in train_shield(pairs, FAST).metadata["counts"].values():
        assert count["safe_steps"] == count["weak_safe_steps"] + count["risk_steps"] > 0


def test_no_risk_positive_support() -> None:
    outcome = train_shield(make_episodes(timeouts=0), FAST)
    assert (outcome.status, outcome.reason, outcome.shield) == ("failed", NO_RISK_SUPPORT, None)
    assert NO_RISK_SUPPORT == "no risk-positive support"
    assert (outcome.metadata["label_source"], outcome.metadata["risk_positive_episodes"]) == ("", 0)
    assert outcome.metadata["episode_counts"]["success"] == 40


def test_no_episodes() -> None:
    outcome = train_shield([])
    assert (outcome.status, outcome.reason) == ("failed", "no bootstrap episodes")


@pytest.mark.parametrize(
    ("successes", "timeouts", "config", "reason"),
    [
        (40, 1, FAST, "too few risk episodes for the validation part: 0 of 1, at least 1 needed"),
        (0, 9, FAST, "too few safe episodes for the calibration part: 0 of 0, at least 1 needed"),
        (2, 9, FAST, "too few safe episodes for the training part: 0 of 2, at least 1 needed"),
        (40, 5, dataclasses.replace(FAST, min_risk_episodes=3),
         "too few risk episodes for the validation part: 2 of 5, at least 3 needed"),
        (5, 9, dataclasses.replace(FAST, min_safe_episodes=2), "too few safe episodes for the training part: 1 of 5"),
    ],
)  # fmt: skip
def test_failures_name_the_part_that_lacks_support(
    successes: int, timeouts: int, config: ShieldConfig, reason: str
) -> None:
    outcome = train_shield(make_episodes(successes, timeouts), config)
    assert (outcome.status, outcome.shield) == ("failed", None)
    assert reason in outcome.reason
    assert outcome.metadata["label_source"] == "timeout_tail"


def test_few_risk_episodes_reach_training_and_validation() -> None:
    """Two among a hundred: by a share of 0.1 alone, validation would have none in most draws."""
    counts = train_shield(make_episodes(98, 2), FAST).metadata["counts"]
    assert (counts["train"]["risk_episodes"], counts["validation"]["risk_episodes"]) == (1, 1)


def test_unsafe_attempts_are_the_label_source_where_they_suffice() -> None:
    outcome = train_shield(make_episodes(attempts=20), FAST)
    assert outcome.metadata["label_source"] == "unsafe_attempt"
    assert outcome.metadata["risk_positive_episodes"] == 16
    assert (
        outcome.metadata["counts"]["train"]["weak_safe_steps"]
        == 7 * outcome.metadata["counts"]["train"]["risk_steps"]
    )


def test_divergence_is_a_status() -> None:
    outcome = train_shield(make_episodes(), dataclasses.replace(FAST, learning_rate=1e30))
    assert (outcome.status, outcome.shield) == ("failed", None)
    assert "training diverged" in outcome.reason
    assert all(math.isfinite(v) for v in outcome.metadata.values() if isinstance(v, float))


def test_fields_select_columns() -> None:
    outcome = train_shield(make_episodes(), dataclasses.replace(FAST, fields=("eef_pos_z", "eef_pos_x")))
    assert outcome.shield is not None
    assert outcome.shield.fields == ("eef_pos_z", "eef_pos_x")
    assert outcome.metadata["feature_names"][:3] == ["eef_pos_z", "eef_pos_x", "action_0"]
    with pytest.raises(UnknownNameError, match="Unknown observation field 'bowl_pos_x'"):
        train_shield(make_episodes(), dataclasses.replace(FAST, fields=("bowl_pos_x",)))


def test_mixed_up_episodes_are_refused() -> None:
    episode = make_episode("a", "success")
    with pytest.raises(InvalidInputError, match=re.escape("each bootstrap episode once, got 'a' twice")):
        train_shield([episode, episode])
    other = dataclasses.replace(make_episode("b", "timeout"), fields=("p", "q", "r", "s"))
    with pytest.raises(
        InvalidInputError,
        match=re.escape("equal fields, action size and control mode, but 'a' and 'b' differ"),
    ):
        train_shield([episode, other])
