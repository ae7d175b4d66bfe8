"""What happens to an action between the shield and the actuator.

`ActionChannel` applies a profile's operators on actions, one after the other, each with the actions that it was given
before; `check_actions` refuses operators that mean nothing for an environment.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from roep_gym.error import InvalidInputError
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import Metadata
from roep_gym.wrappers.profiles import Profile, perturbation_key

__all__ = ["ActionChannel", "Actuated", "check_actions"]


class Actuated(NamedTuple):
    """The action that the actuators are given, and the metadata of each operator."""

    action: Array
    metadata: list[Metadata]


class ActionChannel:
    """The operators on actions of one episode.

    Args:
        profile: The profile as it acts in the episode.
        space: The action space.
        stream: Run id, seed group and episode.
    """

    def __init__(self, profile: Profile, space: spaces.Space[Any], stream: tuple[str, int, int]) -> None:
        """Begin with no action before."""
        self._settings, self._stream = profile.action_settings(), stream
        self._space = space
        self._before = [deque[Array](maxlen=operator.max_age + 1) for operator, _ in self._settings]

    def act(self, action: Any, step: int) -> Actuated | None:
        """Return what the actuators are given for the action of a step; None where the action is to be refused.

        An action that is not finite or wrongly shaped is the environment's to refuse, as it came.
        """
        given = np.asarray(action)
        numeric = given.dtype.kind in "fiu" and np.isfinite(given).all()
        if given.shape != self._space.shape or not numeric:
            return None
        actuated, metadata = given.copy(), list[Metadata]()
        for (operator, setting), before in zip(self._settings, self._before, strict=True):
            before.append(actuated)
            key = perturbation_key(self._stream, step, "action", operator.name)
            actuated, done = operator.apply(list(before), setting.severity_at(step), key)
            metadata.append(done)
        assert isinstance(self._space, spaces.Box)
        low, high = np.minimum(self._space.low, given), np.maximum(self._space.high, given)
        return Actuated(np.clip(actuated, low, high).astype(given.dtype), metadata)


def check_actions(profile: Profile, space: spaces.Space[Any], control_mode: str) -> None:
    """Refuse a profile whose operators on actions mean nothing for an environment.

    Raises:
        InvalidInputError: The actions are no Box, or zeros would be sent where they are a pose and not no motion.
    """
    acting = [operator for operator, setting in profile.action_settings() if setting.severity > 0]
    if acting and not isinstance(space, spaces.Box):
        raise InvalidInputError(f"Expected a Box action space for {acting[0].name!r} to act on, got {space}.")
    for operator in acting:
        if operator.stops_motion and control_mode != "relative":
            raise InvalidInputError(
                f"Expected relative control for {operator.name!r}, which sends zeros for no motion, got "
                f"{control_mode} control; take action_hold, action_noise or action_bias."
            )
