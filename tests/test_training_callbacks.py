"""Training logs, read back from TensorBoard's event files, and shields from training rollouts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_thread import one_thread  # noqa: F401
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback
from stable_baselines3.common.logger import configure
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from training_shields import Guided

from roep_gym.error import InvalidInputError
from roep_gym.shields import ShieldConfig, save_shield, train_shield
from roep_gym.training import (
    EnvironmentConfig,
    EpisodeCollector,
    InterventionCallback,
    make_env,
    make_sb3_vec_env,
)
from roep_gym.training.training_statistics import TrainingStatistics

SHIELD = "training_shields:RareShield"


def config(**settings: Any) -> EnvironmentConfig:
    arguments = {"task": "reach", "cameras": []}
    return EnvironmentConfig(
        "roep_gym/Tabletop-v0", arguments, **{"observation_keys": "proprio", "step_budget": 9, **settings}
    )


class Witness(BaseCallback):
    """Counts for itself, from the raw infos."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = Counter[str]()

    def _on_step(self) -> bool:
        for info, done in zip(self.locals["infos"], self.locals["dones"], strict=True):
            self.counts["shield/refusals"] += info["shield"]["refused"]
            self.counts["shield/interventions"] += info["shield"]["intervened"]
            self.counts["unsafe/workspace"] += info["unsafe"]["workspace"]
            self.counts["outcome/episodes"] += bool(done)
            if done:
                self.counts[f"outcome/{info['termination']}"] += 1
        return True


def scalars(folder: Path) -> dict[str, list[float]]:
    (file,) = folder.rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file), size_guidance={"scalars": 0}).Reload()
    return {tag: [event.value for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def learner(name: str, env: Any, folder: Path) -> Any:
    small = {"net_arch": [8]}
    if name == "PPO":
        return PPO(
            "MlpPolicy",
            env,
            n_steps=32,
            batch_size=32,
            n_epochs=1,
            policy_kwargs=small,
            tensorboard_log=str(folder),
        )
    return SAC(
        "MlpPolicy",
        env,
        learning_starts=500,
        buffer_size=500,
        policy_kwargs=small,
        tensorboard_log=str(folder),
    )


@pytest.mark.parametrize("log_interval", [1, 3, 1000])
@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_an_event_is_in_the_event_file_exactly_as_often_as_it_happened(
    name: str, log_interval: int, tmp_path: Path
) -> None:
    env = make_sb3_vec_env(config(shield=SHIELD, terminate_on_refusal=True), 2, seed=0)
    witness = Witness()
    learner(name, env, tmp_path).learn(320, CallbackList([InterventionCallback(), witness]), log_interval)
    written = scalars(tmp_path)
    assert witness.counts["shield/refusals"] == 6
    assert witness.counts["outcome/safe_refusal"] > 0
    for tag, count in witness.counts.items():
        assert sum(written[tag]) == count, tag
        assert written[f"total/{tag}"][-1] == count, tag
    assert len(written["shield/refusals"]) == len(written["total/shield/refusals"])


@pytest.mark.parametrize("name", ["PPO", "SAC"])
def test_the_success_rate_of_stable_baselines3_is_that_of_the_episodes(name: str, tmp_path: Path) -> None:
    guided = EnvironmentConfig(
        "roep_gym/Tabletop-v0",
        {"task": "reach", "cameras": [], "object_state": True},
        wrapper=Guided,
        observation_keys="proprio",
        step_budget=40,
    )
    learner(name, make_sb3_vec_env(guided, 2, seed=0), tmp_path).learn(
        320, InterventionCallback(), log_interval=1
    )
    written = scalars(tmp_path)
    successes, episodes = (written[f"total/outcome/{what}"][-1] for what in ("success", "episodes"))
    assert 0 < successes < episodes < 100  # the window of Stable-Baselines3
    assert written["rollout/success_rate"][-1] == pytest.approx(successes / episodes)


def test_what_an_evaluation_writes_in_between_loses_nothing(tmp_path: Path) -> None:
    env = make_sb3_vec_env(config(shield=SHIELD), 2, seed=0)
    evaluation = EvalCallback(make_sb3_vec_env(config()), n_eval_episodes=1, eval_freq=11, verbose=0)
    witness = Witness()
    model = learner("PPO", env, tmp_path)
    model.learn(128, CallbackList([evaluation, InterventionCallback(), witness]))
    written = scalars(tmp_path)
    assert len(written["shield/refusals"]) > 4
    for tag, count in witness.counts.items():
        assert sum(written[tag]) == count, tag


def test_learning_in_two_parts_counts_on(tmp_path: Path) -> None:
    callback, witness = InterventionCallback(), Witness()
    model = learner("PPO", make_sb3_vec_env(config(shield=SHIELD), 2, seed=0), tmp_path)
    for first in (True, False):
        model.learn(64, CallbackList([callback, witness]), reset_num_timesteps=first, tb_log_name="run")
    files = sorted(tmp_path.rglob("events.out.tfevents.*"))
    last = [
        EventAccumulator(str(file), size_guidance={"scalars": 0})
        .Reload()
        .Scalars("total/shield/interventions")[-1]
        for file in files
    ]
    assert max(event.value for event in last) == witness.counts["shield/interventions"]


def test_statistics_of_steps_and_episodes() -> None:
    statistics = TrainingStatistics(quantiles=(0.5,))
    shield = {"risk": 0.2, "intervened": False, "refused": False}
    hit = {"risk": 0.8, "intervened": True, "refused": False}
    broken = {"risk": float("nan"), "intervened": True, "refused": True}
    end = {"termination": "timeout", "perturbation": {"severity": 0.25}}
    statistics.observe(0, {"shield": hit}, done=False)
    first = statistics.drain()
    assert first["shield/interventions"] == 1
    assert not {"shield/intervention_rate", "outcome/success_rate"} & first.keys()
    statistics.observe(0, {"shield": broken, **end}, done=True)
    statistics.observe(1, {"shield": shield, **end, "termination": "success"}, done=True)
    second = statistics.drain()
    assert second["shield/intervention_steps"] == 1.0
    assert second["shield/intervention_rate"] == 0.5
    assert second["shield/risk_not_finite"] == second["shield/refusals"] == 1
    assert second["shield/risk_q50"] == second["shield/risk_max"] == 0.2
    assert second["outcome/success_rate"] == second["outcome/timeout_rate"] == 0.5
    assert second["perturbation/severity_mean"] == 0.25
    assert second["total/shield/interventions"] == 2
    assert statistics.drain()["outcome/timeout"] == 0


class Stop(BaseCallback):
    """An error at the n-th step of the callback."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._stop = step

    def _on_step(self) -> bool:
        if self.n_calls == self._stop:
            raise RuntimeError("stop")
        return True


def test_a_training_that_broke_off_does_not_speak_in_the_next_one(tmp_path: Path) -> None:
    model = learner("PPO", make_sb3_vec_env(config(shield=SHIELD), 2, seed=0), tmp_path)
    model.set_logger(configure(str(tmp_path), ["tensorboard"]))
    with pytest.raises(RuntimeError, match="stop"):
        model.learn(64, CallbackList([InterventionCallback(), Stop(5)]))
    witness = Witness()
    model.learn(128, CallbackList([InterventionCallback(), witness]))
    written = scalars(tmp_path)
    for tag, count in witness.counts.items():
        assert sum(written[tag]) == count, tag


def test_an_abandoned_episode_lends_no_steps_to_the_next() -> None:
    statistics = TrainingStatistics()
    shield = {"risk": 0.8, "intervened": True, "refused": False}
    statistics.observe(0, {"shield": shield}, done=False)
    statistics.abandon_episodes()
    statistics.observe(0, {"shield": shield, "termination": "timeout"}, done=True)
    assert statistics.drain()["shield/intervention_steps"] == 1.0


def test_nothing_is_said_about_what_is_not_there() -> None:
    statistics = TrainingStatistics()
    statistics.observe(0, {"is_success": True}, done=True)
    assert {tag.split("/")[-2] for tag in statistics.drain()} == {"outcome"}


def test_quantiles_out_of_range_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"Expected a quantile to be a finite number in 0\.\.1, got 95"
    ):
        InterventionCallback(quantiles=(95,))


def test_a_shield_from_training_rollouts_acts_frozen_in_the_next_training(tmp_path: Path) -> None:
    collector = EpisodeCollector(limit=60)
    arguments = {"task": "reach", "cameras": [], "object_state": True}
    base = {"wrapper": Guided, "observation_keys": "proprio", "step_budget": 30}
    env = make_sb3_vec_env(
        EnvironmentConfig("roep_gym/Tabletop-v0", arguments, record=True, **base), 2, seed=0
    )
    learner("PPO", env, tmp_path).learn(2048, collector)
    episodes = collector.episodes
    assert len({episode.identifier for episode in episodes}) == 60
    assert {episode.attempted_unsafe for episode in episodes} == {True, False}
    settings = ShieldConfig(
        train_fraction=0.5, validation_fraction=0.1, calibration_fraction=0.4, max_epochs=2
    )
    outcome = train_shield(episodes, settings)
    assert outcome.shield is not None, outcome.reason
    file = save_shield(outcome.shield, tmp_path / "shield.npz")
    content = file.read_bytes()
    shielded = EnvironmentConfig("roep_gym/Tabletop-v0", arguments, shield=str(file), **base)
    witness = Witness()
    learner("PPO", make_sb3_vec_env(shielded, 2, seed=1), tmp_path / "second").learn(256, witness)
    assert witness.counts["shield/interventions"] > 0
    assert file.read_bytes() == content


def test_episodes_without_record_or_with_a_shield_are_refused(tmp_path: Path) -> None:
    for settings, message in (
        ({}, "record=True"),
        ({"record": True, "shield": SHIELD}, "leave the shield out"),
    ):
        model = learner("PPO", make_sb3_vec_env(config(**settings)), tmp_path)
        with pytest.raises(InvalidInputError, match=message):
            model.learn(32, EpisodeCollector())


def test_a_policy_that_diverges_ends_its_episode_only_where_it_is_recorded() -> None:
    env = make_env(config(record=True))
    env.reset()
    *_, terminated, truncated, info = env.step(np.full(7, np.nan, dtype=np.float32))
    assert (terminated, truncated, info["termination"]) == (True, False, "invalid_execution")
