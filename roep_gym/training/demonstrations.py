"""Demonstrations of a policy, to imitate or to learn from beside one's own experience.

`collect_demonstrations` plays any policy of `roep_gym.policies` in a training environment. `DemonstrationReplayBuffer`
takes half of each batch from demonstrations, for the off-policy algorithms of Stable-Baselines3 (Ball et al. 2023,
"Efficient online reinforcement learning with offline data", section 4.1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer
from stable_baselines3.common.type_aliases import DictReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from roep_gym import seeding
from roep_gym.arguments import read_integer, read_number
from roep_gym.error import InvalidInputError
from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.typing import Array, FloatArray

__all__ = ["DemonstrationReplayBuffer", "Demonstrations", "collect_demonstrations"]


class Demonstrations(NamedTuple):
    """Transitions of whole episodes, one after the other.

    Attributes:
        observations: (n, ...) by key, what the action was chosen on.
        next_observations: (n, ...) by key.
        actions: (n, action dimension) float32, what was executed.
        chosen: (n, action dimension) float32, what the policy chose, without the noise.
        rewards: (n,) float32.
        dones: (n,) bool, the last step of an episode.
        truncated: (n,) bool, the last step of an episode that ran out of steps.
        successes: (episodes,) bool.
    """

    observations: dict[str, Array]
    next_observations: dict[str, Array]
    actions: FloatArray
    chosen: FloatArray
    rewards: FloatArray
    dones: Array
    truncated: Array
    successes: Array


def collect_demonstrations(
    env: gym.Env[Any, Any], policy: Policy, episodes: int, noise: float = 0.0
) -> Demonstrations:
    """Play a policy and return all of its steps, those of failed episodes included.

    Args:
        env: An environment as `make_env` returns it, whose observations hold what the policy reads.
        policy: The policy; the steps of a chunk are all executed.
        episodes: Number of episodes, >= 1.
        noise: Standard deviation of the Gaussian noise that is added to each action but for its last entry, the
            gripper, so that the demonstrations also show the way back (Laskey et al. 2017, "DART").

    Raises:
        InvalidInputError: The number is below 1, the noise is negative, or the spaces are others than Dict and Box.
    """
    read_integer("the number of episodes", episodes, 1)
    read_number("noise", noise, 0.0)
    if not isinstance(env.observation_space, spaces.Dict) or not isinstance(env.action_space, spaces.Box):
        raise InvalidInputError(
            "Expected a Dict observation and a Box of actions for the demonstrations, got "
            f"{env.observation_space} and {env.action_space}."
        )
    base: Any = env.unwrapped
    steps: list[tuple[Any, ...]] = []
    successes = []
    for number in range(episodes):
        observation, info = env.reset()
        seed = seeding.seed("demonstration", number)
        disturbance = seeding.generator("demonstration", "noise", number)
        policy.begin(
            PolicyEpisode("one", base.suite, base.task, base.instruction, seed, base.observation_fields)
        )
        step, done = 0, False
        while not done:
            chunk = policy.act([PolicyInput("one", step, base.instruction, observation)])[0]
            for chosen in chunk:
                action = np.array(chosen, dtype=np.float32)
                action[:-1] += noise * disturbance.standard_normal(len(action) - 1)
                action = np.clip(action, env.action_space.low, env.action_space.high)
                following, reward, terminated, truncated, info = env.step(action)
                done = terminated or truncated
                out_of_steps = truncated and not terminated
                steps.append((observation, following, action, chosen, reward, done, out_of_steps))
                observation, step = following, step + 1
                if done:
                    break
        policy.end("one")
        successes.append(bool(info["is_success"]))
    before, after, actions, choices, rewards, dones, cut_off = zip(*steps, strict=True)
    return Demonstrations(
        {key: np.stack([each[key] for each in before]) for key in env.observation_space},
        {key: np.stack([each[key] for each in after]) for key in env.observation_space},
        np.asarray(actions, dtype=np.float32),
        np.asarray(choices, dtype=np.float32),
        np.asarray(rewards, dtype=np.float32),
        np.asarray(dones),
        np.asarray(cut_off),
        np.asarray(successes),
    )


class DemonstrationReplayBuffer(DictReplayBuffer):
    """A replay buffer that takes half of each batch from demonstrations, once it has been given some.

    Pass the class as `replay_buffer_class` and call `model.replay_buffer.set_demonstrations(...)` before learning.
    """

    _demonstrations: DictReplayBuffer | None = None

    def set_demonstrations(self, demonstrations: Demonstrations) -> None:
        """Take demonstrations in place of earlier ones."""
        count = len(demonstrations.actions)
        buffer = DictReplayBuffer(count, self.observation_space, self.action_space, self.device)
        for index in range(count):
            buffer.add(
                {key: array[index] for key, array in demonstrations.observations.items()},
                {key: array[index] for key, array in demonstrations.next_observations.items()},
                demonstrations.actions[index],
                demonstrations.rewards[index],
                demonstrations.dones[index],
                [{"TimeLimit.truncated": bool(demonstrations.truncated[index])}],
            )
        self._demonstrations = buffer

    def sample(  # type: ignore[override]
        self, batch_size: int, env: VecNormalize | None = None
    ) -> DictReplayBufferSamples:
        """Return a batch whose second half are demonstrations."""
        if self._demonstrations is None:
            return super().sample(batch_size, env)
        own = super().sample(batch_size - batch_size // 2, env)
        shown = self._demonstrations.sample(batch_size // 2, env)
        return DictReplayBufferSamples(
            _join(own.observations, shown.observations),
            torch.cat([own.actions, shown.actions]),
            _join(own.next_observations, shown.next_observations),
            torch.cat([own.dones, shown.dones]),
            torch.cat([own.rewards, shown.rewards]),
        )


def _join(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: torch.cat([part, second[key]]) for key, part in first.items()}
