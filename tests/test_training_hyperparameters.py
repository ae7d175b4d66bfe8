"""Hyperparameters that JSON cannot hold, and the algorithms by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

from roep_gym.documents import read_yaml
from roep_gym.error import DependencyNotInstalledError, InvalidInputError
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.run.environment_stack import check_runnable
from roep_gym.mapping_reader import read_mapping
from roep_gym.policies.sb3 import ALGORITHMS
from roep_gym.training.config import TrainingConfig
from roep_gym.training.hyperparameters import read_hyperparameters
from roep_gym.training.run import train

ACTIONS = spaces.Box(-1, 1, (7,), np.float32)
REACH = {
    "env_id": "roep_gym/Tabletop-v0",
    "arguments": {"task": "reach", "cameras": []},
    "observation_keys": "proprio",
    "step_budget": 4,
}
OFF_POLICY = {"learning_starts": 4, "batch_size": 4, "buffer_size": 50}
SMALL: dict[str, dict[str, Any]] = {
    "A2C": {"n_steps": 8},
    **{name: {"n_steps": 8, "batch_size": 8} for name in ("PPO", "RecurrentPPO", "TRPO")},
    **dict.fromkeys(("DDPG", "SAC", "TD3", "TQC", "CrossQ"), OFF_POLICY),
    "ARS": {"n_delta": 1},
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(algorithm: str, **changes: Any) -> Any:
    given = {"algorithm": algorithm, "total_timesteps": 16, "eval_every": 8, "eval_episodes": 1}
    hyperparameters = {"device": "cpu", **SMALL[algorithm]}
    source = {"environment": REACH, "hyperparameters": hyperparameters, **given, **changes}
    return read_mapping(TrainingConfig, source, "training")


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_trains_by_name_and_is_evaluated(tmp_path: Path, algorithm: str) -> None:
    pytest.importorskip(ALGORITHMS[algorithm])
    trained = train(config(algorithm), tmp_path)
    assert trained.plan is not None
    check_runnable(resolve(plan_from_mapping(read_yaml(trained.plan, "a plan"))))
    assert np.load(tmp_path / "evaluations.npz")["timesteps"][0] == 8


@pytest.mark.parametrize("algorithm", ["ARS", "CrossQ"])
def test_an_observation_that_an_algorithm_has_no_policy_for_is_one_sentence(
    tmp_path: Path, algorithm: str
) -> None:
    pytest.importorskip("sb3_contrib")
    environment = {**REACH, "observation_keys": ["proprio"]}
    with pytest.raises(
        InvalidInputError, match=f"that {algorithm} has a policy for .*observation_keys: proprio"
    ):
        train(config(algorithm, environment=environment), tmp_path)


def test_ars_takes_one_environment(tmp_path: Path) -> None:
    pytest.importorskip("sb3_contrib")
    with pytest.raises(InvalidInputError, match="Expected one environment in this process for ARS"):
        train(config("ARS", n_envs=2), tmp_path)


def test_a_missing_package_of_an_algorithm_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sb3_contrib", None)
    with pytest.raises(DependencyNotInstalledError, match="run pip install sb3-contrib"):
        train(config("ARS"), tmp_path)


def test_values_that_json_cannot_hold_are_read() -> None:
    read = read_hyperparameters(
        SAC,
        {
            "learning_rate": {"linear": [3e-4, 1e-4]},
            "action_noise": {"normal": 0.1},
            "train_freq": [1, "episode"],
            "replay_buffer_class": "stable_baselines3.common.buffers:ReplayBuffer",
            "policy_kwargs": {"activation_fn": "elu", "optimizer_class": "AdamW", "net_arch": [8]},
        },
        ACTIONS,
    )
    assert [read["learning_rate"](left) for left in (1.0, 0.5, 0.0)] == pytest.approx([3e-4, 2e-4, 1e-4])
    assert isinstance(read["action_noise"], NormalActionNoise)
    assert read["action_noise"]().shape == (7,)
    assert read["train_freq"] == (1, "episode")
    assert read["replay_buffer_class"] is ReplayBuffer
    kinds = {"activation_fn": torch.nn.ELU, "optimizer_class": torch.optim.AdamW, "net_arch": [8]}
    assert read["policy_kwargs"] == kinds
    walk = read_hyperparameters(SAC, {"action_noise": {"ornstein_uhlenbeck": [0.1] * 7}}, ACTIONS)
    assert isinstance(walk["action_noise"], OrnsteinUhlenbeckActionNoise)
    falling = read_hyperparameters(PPO, {"clip_range": {"linear": 0.2}}, ACTIONS)["clip_range"]
    assert falling(0.5) == pytest.approx(0.1)


def test_noise_is_trained_with_in_several_environments(tmp_path: Path) -> None:
    hyperparameters = {**OFF_POLICY, "device": "cpu", "action_noise": {"normal": 0.1}}
    hyperparameters["policy_kwargs"] = {"activation_fn": "Tanh"}
    train(config("TD3", n_envs=2, hyperparameters=hyperparameters), tmp_path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rate": {"linear": "3e-4"}}, "Expected the schedule of learning_rate as {linear: start}"),
        ({"learning_rate": {"cosine": 3e-4}}, "Expected the schedule of learning_rate as {linear: start}"),
        (
            {"learning_rate": {"linear": [1, 2, 3]}},
            "Expected the schedule of learning_rate as {linear: start}",
        ),
        ({"gamma": {"linear": 0.9}}, "Expected the hyperparameter gamma to be a number, got {'linear': 0.9}"),
        ({"action_noise": 0.1}, "Expected action_noise as {normal: sigma}"),
        ({"action_noise": {"pink": 0.1}}, "Expected action_noise as {normal: sigma}"),
        ({"action_noise": {"normal": [0.1, 0.2]}}, "Expected sigma of action_noise to be a number >= 0 or 7"),
        ({"policy_kwargs": {"activation_fn": "RelU6x"}}, "Unknown activation_fn 'RelU6x'"),
        (
            {"policy_kwargs": {"features_extractor_class": "Flat"}},
            "features_extractor_class as 'module:attribute'",
        ),
        ({"device": "gpu"}, "Expected a device of PyTorch or 'auto', got 'gpu'"),
    ],
)
def test_other_values_are_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_hyperparameters(SAC, given, ACTIONS)
    assert message in str(caught.value)


def test_a_gpu_that_is_not_there_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInputError, match="Expected a GPU for the device 'cuda'"):
        train(config("PPO", hyperparameters={"device": "cuda"}), tmp_path)
