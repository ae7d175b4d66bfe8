"""Demonstrations: what is collected, and which half of a batch they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import SAC

from roep_gym.contracts import RuntimeContract
from roep_gym.envs.tabletop_policies import scripted_policy
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.training import EnvironmentConfig, make_env, make_sb3_vec_env
from roep_gym.training.demonstrations import (
    DemonstrationReplayBuffer,
    Demonstrations,
    collect_demonstrations,
)
from roep_gym.training.networks import NormalizedReLU, SelectEntries, relevant_entries
from roep_gym.typing import Array


class ScriptedPolicy:
    """The scripted policy of the Tabletop environment, in chunks of two actions."""

    contract = RuntimeContract.applicable()
    observations = ObservationRequest(object_state=True)

    def observed(self) -> Mapping[str, Any]:
        return {}

    def begin(self, episode: PolicyEpisode) -> None:
        self.fields = episode.fields

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        return [np.repeat(scripted_policy(given.observation)[np.newaxis], 2, axis=0) for given in inputs]

    def end(self, episode: str) -> None:
        del self.fields

    def close(self) -> None:
        pass


def config(step_budget: int = 60) -> EnvironmentConfig:
    return EnvironmentConfig(
        "roep_gym/Tabletop-v0",
        {"task": "reach", "cameras": [], "object_state": True, "reward": "dense"},
        observation_keys=["proprio", "object_state"],
        step_budget=step_budget,
    )


def collect(episodes: int = 3, step_budget: int = 60, noise: float = 0.0) -> Demonstrations:
    policy: Policy = ScriptedPolicy()
    return collect_demonstrations(make_env(config(step_budget)), policy, episodes, noise)


def test_episodes_are_whole_and_chained() -> None:
    shown = collect()
    assert shown.successes.tolist() == [True] * 3
    assert shown.dones.sum() == 3
    assert shown.dones[-1]
    assert not shown.truncated.any()
    inside = np.flatnonzero(~shown.dones)
    for key in ("proprio", "object_state"):
        np.testing.assert_array_equal(
            shown.next_observations[key][inside], shown.observations[key][inside + 1]
        )
    assert (shown.rewards[shown.dones] >= 1.0).all()


def test_noise_is_executed_and_not_the_choice() -> None:
    quiet, noisy = collect(episodes=1), collect(episodes=1, noise=0.3)
    np.testing.assert_array_equal(quiet.actions, quiet.chosen)
    difference = noisy.actions - noisy.chosen
    assert 0.1 < difference[:, :-1].std() < 0.4
    assert (difference[:, -1] == 0.0).all()
    assert np.abs(noisy.actions).max() <= 1.0


def test_running_out_of_steps_is_no_end() -> None:
    shown = collect(episodes=2, step_budget=3)
    assert shown.successes.tolist() == [False, False]
    np.testing.assert_array_equal(shown.truncated, [False, False, True] * 2)
    np.testing.assert_array_equal(shown.dones, shown.truncated)


def test_the_same_run_shows_the_same() -> None:
    for first, second in zip(collect(1)[2:], collect(1)[2:], strict=True):
        np.testing.assert_array_equal(first, second)


def test_half_of_a_batch_are_demonstrations() -> None:
    shown = collect(episodes=2, step_budget=3)
    model = SAC(
        "MultiInputPolicy",
        make_sb3_vec_env(config()),
        replay_buffer_class=DemonstrationReplayBuffer,
        policy_kwargs={"activation_fn": NormalizedReLU},
        learning_starts=20,
        buffer_size=100,
        seed=0,
    )
    buffer = model.replay_buffer
    assert isinstance(buffer, DemonstrationReplayBuffer)
    model.learn(20)
    plain = buffer.sample(6)
    assert plain.actions.shape == (6, 7)
    buffer.set_demonstrations(shown)
    batch = buffer.sample(7)
    assert batch.actions.shape == (7, 7)
    for action, reward, done in zip(batch.actions[4:], batch.rewards[4:], batch.dones[4:], strict=True):
        match = (shown.actions == action.numpy()).all(axis=1) & np.isclose(shown.rewards, reward.item())
        assert match.any()
        assert done.item() == 0.0  # running out of steps is no end
    for action in batch.actions[:4]:
        assert (buffer.actions[:, 0] == action.numpy()).all(axis=1).any()
    model.learn(30, reset_num_timesteps=False)  # and it learns from such batches
    assert model._n_updates > 0


def test_refuses_what_cannot_be_shown() -> None:
    with pytest.raises(InvalidInputError, match="the number of episodes to be an integer >= 1, got 0"):
        collect(episodes=0)
    with pytest.raises(InvalidInputError, match="noise to be a finite number >= 0, got -1"):
        collect(noise=-1.0)
    with pytest.raises(InvalidInputError, match="Expected a Dict observation and a Box of actions"):
        collect_demonstrations(gym.make("Pendulum-v1"), ScriptedPolicy(), 1)


def test_normalized_relu_does_not_grow_with_its_input() -> None:
    inputs = torch.linspace(-1.0, 2.0, 8).reshape(1, 8)
    first, scaled = NormalizedReLU()(inputs), NormalizedReLU()(100.0 * inputs)
    assert first.min() == 0.0
    torch.testing.assert_close(first, scaled, rtol=1e-3, atol=1e-3)


FIELDS_OF_A_SCENE = {
    "proprio": ("joint_pos_0", "eef_quat_x", "gripper_qpos_0"),
    "object_state": tuple(
        f"{n}_{e}" for n in ("bowl", "plate") for e in ("pos_x", "pos_y", "pos_z", "quat_x")
    ),
}


def test_relevant_entries_leave_out_other_objects_and_quaternions() -> None:
    assert relevant_entries(FIELDS_OF_A_SCENE, ["plate"]) == {"proprio": [0, 2], "object_state": [4, 5, 6]}
    with pytest.raises(
        UnknownNameError, match=r"Unknown object of the scene 'plates'\. Did you mean 'plate'"
    ):
        relevant_entries(FIELDS_OF_A_SCENE, ["plates"])


def test_select_entries_shows_the_networks_nothing_else() -> None:
    space = spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "b": spaces.Box(-1, 1, (2,))})
    extractor = SelectEntries(space, {"b": [1], "a": [2, 0]})
    seen = extractor({"a": torch.tensor([[1.0, 2.0, 3.0]]), "b": torch.tensor([[4.0, 5.0]])})
    assert seen.tolist() == [[5.0, 3.0, 1.0]]
    assert extractor.features_dim == 3


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"c": [0]}, "Expected a vector observation 'c'"),
        ({"image": [0]}, "Expected a vector observation 'image'"),
        ({"a": [3]}, r"Expected indices in 0..2 of the observation 'a', got \[3\]"),
    ],
)
def test_select_entries_refuses(entries: dict[str, list[int]], message: str) -> None:
    space = spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "image": spaces.Box(0, 255, (8, 8, 3), np.uint8)})
    with pytest.raises(InvalidInputError, match=message):
        SelectEntries(space, entries)
