"""`PenalizeIntervention`: a reward that tells the learner of the shield's interventions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from roep_gym.arguments import read_number
from roep_gym.error import InvalidInputError
from roep_gym.typing import Info
from roep_gym.wrappers.shield_action import ShieldAction
from roep_gym.wrappers.stack_order import find_wrapper

__all__ = ["PenalizeIntervention"]


class PenalizeIntervention(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Subtract a penalty from the reward of a step at which the shield intervened.

    The penalty is `penalty + distance_penalty * |proposed - executed|` (Euclidean, over all entries of the action). A
    step without intervention has the environment's reward as it is. `info["intervention_penalty"]` tells the penalty of
    every step, and, where asked for, `info["proposed_action"]` the action before the shield, beside `executed_action`,
    for penalties or corrections of one's own.

    Example:
        >>> import gymnasium as gym
        >>> import numpy as np
        >>> import roep_gym
        >>> from roep_gym.shields import Assessment
        >>> from roep_gym.wrappers import PenalizeIntervention, ShieldAction
        >>> class HalfSpeed:
        ...     fields, action_size, action_bounds, control_mode = ("eef_pos_x",), 7, (-1.0, 1.0), "relative"
        ...     def assess(self, low, action):
        ...         return Assessment(0.9, 0.5, True, "threshold_reached", "projected", action / 2, False)
        >>> env = ShieldAction(gym.make("roep_gym/Tabletop-v0"), HalfSpeed())
        >>> env = PenalizeIntervention(env, penalty=0.25, distance_penalty=0.5)
        >>> observation, info = env.reset(seed=0)
        >>> action = np.array([1, 0, 0, 0, 0, 0, 0], dtype=np.float32)
        >>> observation, reward, terminated, truncated, info = env.step(action)
        >>> reward, info["intervention_penalty"]
        (-0.5, 0.5)
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        penalty: float = 0.0,
        distance_penalty: float = 0.0,
        proposed_action: bool = False,
    ) -> None:
        """Set the penalties.

        Args:
            env: An environment with a `ShieldAction` in its stack.
            penalty: Penalty of an intervention, >= 0.
            distance_penalty: Penalty by distance between the proposed and the executed action, >= 0.
            proposed_action: Whether `info` holds the proposed action.

        Raises:
            InvalidInputError: A penalty is negative or not finite, or there is no shield below.
        """
        penalty = read_number("penalty", penalty, 0.0)
        distance_penalty = read_number("distance_penalty", distance_penalty, 0.0)
        if find_wrapper(env, ShieldAction) is None:
            raise InvalidInputError(
                "Expected a ShieldAction below PenalizeIntervention, got none; name a shield or leave the penalty out."
            )
        gym.utils.RecordConstructorArgs.__init__(
            self, penalty=penalty, distance_penalty=distance_penalty, proposed_action=proposed_action
        )
        gym.Wrapper.__init__(self, env)
        self._penalty, self._distance_penalty = penalty, distance_penalty
        self._tells_proposed = proposed_action

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Make a step and penalise it if the shield intervened."""
        # Copied before the step: an environment may write into the action it is given.
        proposed = np.array(action, dtype=np.float32)
        observation, reward, terminated, truncated, info = self.env.step(action)
        penalty = 0.0
        # An action that nobody could execute ends the episode without the shield's judgement.
        if info.get("shield", {}).get("intervened", False):
            distance = float(np.linalg.norm(proposed.ravel() - info["executed_action"]))
            penalty = self._penalty + self._distance_penalty * distance
        info = {**info, "intervention_penalty": penalty}
        if self._tells_proposed:
            info["proposed_action"] = proposed
        return observation, float(reward) - penalty, terminated, truncated, info
