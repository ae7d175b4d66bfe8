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
from roep_gym.shields.calibration import calibrate, threshold
from roep_gym.shields.labels import label_steps
from roep_gym.shields.model import fit_zscore
from roep_gym.shields.split import assign_part
from roep_gym.shields.training import Samples, class_weights, train_risk_model

FAST = ShieldConfig(hidden_sizes=(16, 8), max_epochs=15)


@pytest.fixture(scope="module")
def outcome() -> TrainingOutcome:
    return train_shield(episodes())


def episodes() -> list[BootstrapEpisode]:
    """Return 40 successes and 22 timeouts, two of them in the calibration part."""
    return [*make_episodes(), *in_part("calibration", "timeout", 2)]


def in_part(part: str, reason: str, count: int, config: ShieldConfig = FAST) -> list[BootstrapEpisode]:
    """Return episodes whose identifiers fall into a part."""
    names = (f"{reason}-{i}" for i in range(10_000))
    chosen = [name for name in names if assign_part(name, config) == part][:count]
    return [make_episode(name, reason) for name in chosen]


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
    assert meta["risk_positive_episodes"] == 22
    assert meta["episode_counts"]["success"] == 40
    assert meta["episode_counts"]["timeout"] == 22
    assert meta["tau"] == outcome.shield.threshold
    assert meta["feature_names"] == [*FIELDS, *(f"action_{i}" for i in range(7))]
    assert (meta["learning_rate"], meta["batch_size"], meta["hidden_sizes"]) == (1e-3, 256, [128, 64, 32])
    assert 1 <= meta["best_epoch"] <= meta["epochs"] <= 40
    assert meta["monitored_part"] == "validation"
    for part, count in meta["counts"].items():
        members = [e for e in episodes() if assign_part(e.identifier, ShieldConfig()) == part]
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
    held_out = [e for e in episodes() if assign_part(e.identifier, config) == "calibration"]
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


def test_without_validation_steps_all_epochs_run_and_that_is_recorded() -> None:
    given = [
        *in_part("train", "success", 6),
        *in_part("train", "timeout", 3),
        *in_part("calibration", "success", 1),
    ]
    outcome = train_shield(given, FAST)
    assert outcome.status == "trained"
    assert outcome.metadata["monitored_part"] == "none"
    assert outcome.metadata["epochs"] == outcome.metadata["best_epoch"] == FAST.max_epochs


def test_no_risk_positive_support() -> None:
    outcome = train_shield(make_episodes(timeouts=0), FAST)
    assert (outcome.status, outcome.reason, outcome.shield) == ("failed", NO_RISK_SUPPORT, None)
    assert NO_RISK_SUPPORT == "no risk-positive support"
    assert (outcome.metadata["label_source"], outcome.metadata["risk_positive_episodes"]) == ("", 0)
    assert outcome.metadata["episode_counts"]["success"] == 40


def test_no_episodes() -> None:
    outcome = train_shield([])
    assert (outcome.status, outcome.reason) == ("failed", "no bootstrap episodes")


def test_failures_name_the_part_that_lacks_support() -> None:
    safe, held_out = in_part("train", "success", 5), in_part("calibration", "success", 2)
    risk = in_part("train", "timeout", 2)
    cases = [
        ([*safe, *held_out, *in_part("calibration", "timeout", 2)],
         "no risk-positive support in the training part: 0 of 2 risk episodes fell into it, at least 1 needed"),
        ([*safe, *risk], "no safe calibration support: none of the 0 episodes of the calibration part"),
        ([*safe, *risk, *in_part("calibration", "timeout", 3)], "none of the 3 episodes of the calibration part"),
    ]  # fmt: skip
    for given, reason in cases:
        outcome = train_shield(given, FAST)
        assert outcome.status == "failed"
        assert reason in outcome.reason
        assert outcome.metadata["label_source"] == "timeout_tail"
    no_safe = train_shield([*risk, *held_out], dataclasses.replace(FAST, prefix_support="none"))
    assert "no safe support in the training part: none of its 2 episodes" in no_safe.reason
    more = train_shield([*safe, *risk, *held_out], dataclasses.replace(FAST, min_risk_episodes=3))
    assert "2 of 2 risk episodes fell into it, at least 3 needed" in more.reason


def test_unsafe_attempts_are_the_label_source_where_they_suffice() -> None:
    outcome = train_shield(make_episodes(attempts=20), FAST)
    assert outcome.metadata["label_source"] == "unsafe_attempt"
    assert outcome.metadata["risk_positive_episodes"] == 20
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
        InvalidInputError, match=re.escape("equal fields and action size, but 'a' and 'b' differ")
    ):
        train_shield([episode, other])
