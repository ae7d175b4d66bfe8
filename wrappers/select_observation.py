"""`SelectObservation`: the entries of an observation that a learner gets."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
from gymnasium import spaces

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.wrappers.frame_keys import find_frame_keys

__all__ = ["SelectObservation"]


class SelectObservation(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Keep some entries of a Dict observation, or one of them as the observation itself.

    One key gives that array as a Box, as `MlpPolicy` and `CnnPolicy` of Stable-Baselines3 take it; a list of keys
    gives a Dict, as `MultiInputPolicy` takes it. Camera frames are not rendered where none of them is kept.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> from roep_gym.wrappers import SelectObservation
        >>> env = SelectObservation(gym.make("roep_gym/Tabletop-v0"), "proprio")
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape, info["frames_rendered"]
        ((9,), False)
    """

    def __init__(self, env: gym.Env[Any, Any], keys: str | list[str]) -> None:
        """Work out the space.

        Args:
            env: An environment with a Dict observation.
            keys: One key, or a list of keys.

        Raises:
            InvalidInputError: The observation is no Dict, or the keys are no list of at least one key.
            UnknownNameError: The observation has no such key.
        """
        space = env.observation_space
        if not isinstance(space, spaces.Dict):
            raise InvalidInputError(f"Expected a Dict observation to select from, got {space}.")
        if not isinstance(keys, str | list | tuple):
            raise InvalidInputError(f"Expected one observation key or a list of them, got {keys!r}.")
        named = [keys] if isinstance(keys, str) else list(keys)
        if not named:
            raise InvalidInputError("Expected at least one observation key, got none.")
        check_names("observation key", named, space.spaces)
        gym.utils.RecordConstructorArgs.__init__(self, keys=keys)
        gym.ObservationWrapper.__init__(self, env)
        self._keys = keys if isinstance(keys, str) else named
        self.observation_space = (
            space[keys] if isinstance(keys, str) else spaces.Dict({key: space[key] for key in named})
        )
        frames = find_frame_keys(space)
        if not {*named} & {*frames.images, *frames.depths} and env.has_wrapper_attr("request_frames"):
            env.get_wrapper_attr("request_frames")(False)

    def observation(self, observation: Any) -> Any:
        """Return the entries that are kept."""
        if isinstance(self._keys, str):
            return observation[self._keys]
        return {key: observation[key] for key in self._keys}
