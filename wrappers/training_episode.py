"""`TrainingEpisode`: the identity that a training episode begins with, and the outcome that it ends with."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym

from roep_gym import seeding
from roep_gym.arguments import read_integer
from roep_gym.episode import EpisodeTracker
from roep_gym.error import InvalidInputError
from roep_gym.typing import Info
from roep_gym.wrappers.episode_trace import termination_reason
from roep_gym.wrappers.perturb_observation import PerturbObservation
from roep_gym.wrappers.stack_order import find_wrapper

__all__ = ["TrainingEpisode"]


class TrainingEpisode(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Give every episode an identity where no plan does, and its outcome in the last `info`.

    The identity is (run id, index of the environment, number of the episode in it), the run id with the seed of the
    last seeded `reset` appended. It goes down to everything below through the reset options, and the environment's
    generator is seeded from it, so that scene, initial state and perturbation of an episode are a function of it
    alone. An identity that the caller passes goes down as it is.

    The last step has `info["is_success"]` and `info["termination"]`, whatever the environment.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> from roep_gym.wrappers import TrainingEpisode
        >>> env = TrainingEpisode(gym.make("roep_gym/Tabletop-v0"), run_id="ppo", index=2)
        >>> observation, info = env.reset(seed=7)
        >>> observation, info = env.reset()
        >>> [info["episode_identity"][name] for name in ("run_id", "seed_group", "episode")]
        ['ppo/seed-7', 2, 1]
    """

    def __init__(self, env: gym.Env[Any, Any], run_id: str, index: int = 0, first: int = 0) -> None:
        """Name the run and the environment.

        Args:
            env: The environment.
            run_id: Name of the training run.
            index: Index of the environment among those that run side by side, from 0.
            first: Number of the first episode, above 0 where a training is continued.

        Raises:
            InvalidInputError: The name is empty, or index or number are not integers >= 0.
        """
        if not isinstance(run_id, str) or not run_id:
            raise InvalidInputError(f"Expected run_id to be a name, got {run_id!r}.")
        index = read_integer("the index of an environment", index, 0)
        first = read_integer("the number of the first episode", first, 0)
        gym.utils.RecordConstructorArgs.__init__(self, run_id=run_id, index=index, first=first)
        gym.Wrapper.__init__(self, env)
        perturbation = find_wrapper(env, PerturbObservation)
        self._profile = "clean" if perturbation is None else perturbation.profile.name
        self._tracker = EpisodeTracker(run_id, index, first)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin the next episode; a seed begins to count from the first again."""
        identity = self._tracker.begin(seed, options)
        if options is not None and options.get("episode") is not None:
            return self.env.reset(seed=seed, options=options)
        episode = {**identity.to_options()["episode"], "profile": self._profile}
        return self.env.reset(
            seed=seeding.seed("training", *identity.key), options={**(options or {}), "episode": episode}
        )

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Make a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            outcome = termination_reason(info, truncated=truncated)
            info = {**info, "is_success": bool(info.get("is_success", False)), "termination": outcome}
        return observation, reward, terminated, truncated, info
