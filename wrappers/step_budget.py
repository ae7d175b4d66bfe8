"""`StepBudget`: the step budget of an episode (protocol sections 1 and 3)."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from roep_gym.arguments import read_integer
from roep_gym.typing import Info
from roep_gym.wrappers.stack_order import check_order

__all__ = ["StepBudget"]


class StepBudget(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """End an episode that has not ended after a number of steps: truncated, for the reason `timeout`.

    An episode that terminates in the last step of its budget keeps its own reason, and one whose environment reports
    success there without terminating is a `success`. Steps that a reset makes (settling)
    do not count. `info["TimeLimit.truncated"]` is set on the last step, as Stable-Baselines3 reads it: True when the
    budget alone ended the episode.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> from roep_gym.wrappers import StepBudget
        >>> env = StepBudget(gym.make("roep_gym/Tabletop-v0"), max_steps=1)
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        >>> truncated, info["termination"]
        (True, 'timeout')
    """

    def __init__(self, env: gym.Env[Any, Any], max_steps: int) -> None:
        """Set the budget.

        Args:
            env: The environment.
            max_steps: Steps after which the episode is truncated, at least 1; the paper's is 280.

        Raises:
            InvalidInputError: The budget is not a positive integer, or the stack below has a `RecordEpisode`.
        """
        max_steps = read_integer("max_steps", max_steps, 1)
        check_order(env, StepBudget, once=False)
        gym.utils.RecordConstructorArgs.__init__(self, max_steps=max_steps)
        gym.Wrapper.__init__(self, env)
        self._max_steps = max_steps
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode with a full budget."""
        self._steps = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Make a step; truncate when it was the last of the budget."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._steps >= self._max_steps and not terminated:
            truncated = True
            reason = "success" if info.get("is_success") else "timeout"
            info = {**info, "termination": info.get("termination", reason)}
        if terminated or truncated:
            info = {**info, "TimeLimit.truncated": truncated and not terminated}
        return observation, reward, terminated, truncated, info
