"""Environments for tests that return what they are told to."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class ScriptedEnv(gym.Env[Any, Any]):
    """Returns the same observation object again and again, as an environment with a reused buffer does.

    `infos[t]` is the info of step t, `end` the step that terminates; actions are kept in `actions`.
    """

    def __init__(
        self,
        observation: Any,
        observation_space: spaces.Space[Any],
        *,
        infos: list[dict[str, Any]] | None = None,
        end: int | None = None,
        action_space: spaces.Space[Any] | None = None,
    ) -> None:
        self.observation, self.observation_space = observation, observation_space
        self.action_space = action_space or spaces.Box(-1.0, 1.0, (7,), np.float32)
        self.infos, self.end = infos or [], end
        self.actions: list[Any] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.actions = []
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = len(self.actions)
        self.actions.append(action)
        info = dict(self.infos[step]) if step < len(self.infos) else {}
        return self.observation, 0.5, step == self.end, False, info


def image_env(shape: tuple[int, ...] = (40, 32, 3), **kwargs: Any) -> ScriptedEnv:
    """An environment whose observation is one image without black pixels."""
    image = np.random.default_rng(0).integers(1, 256, shape, dtype=np.uint8)
    return ScriptedEnv(image, spaces.Box(0, 255, shape, np.uint8), **kwargs)


def vector_env(**kwargs: Any) -> ScriptedEnv:
    """An environment whose observation is a vector."""
    return ScriptedEnv(np.arange(5, dtype=np.float32), spaces.Box(-10.0, 10.0, (5,), np.float32), **kwargs)
