"""A shield whose acts depend on the step alone, and an environment with safe and unsafe episodes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from roep_gym.shields import Assessment


class RareShield:
    """Halves the translation of every 7th action and refuses every 50th; its risk is the step's share of 100."""

    fields = ("eef_pos_x",)
    action_size = 7
    action_bounds = (-1.0, 1.0)
    control_mode = "relative"

    def __init__(self) -> None:
        self.steps = 0

    def assess(self, low: Any, action: Any) -> Assessment:
        self.steps += 1
        risk = (self.steps % 100) / 100
        if self.steps % 50 == 0:
            held = np.zeros(7, dtype=np.float32)
            return Assessment(risk, 0.5, True, "threshold_reached", "refused_not_reduced", held, True)
        if self.steps % 7 == 0:
            return Assessment(
                risk, 0.5, True, "threshold_reached", "projected", action * np.float32(0.5), False
            )
        return Assessment(risk, 0.5, False, "below_threshold", "none", action, False)


class Guided(gym.Wrapper[Any, Any, Any, Any]):
    """Reaches the disc in every second episode and leaves the workspace in the others, whatever the learner does."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.episodes = 0

    def reset(self, **arguments: Any) -> Any:
        self.episodes += 1
        self.observation, info = self.env.reset(**arguments)
        return self.observation, info

    def step(self, action: Any) -> Any:
        move = (self.observation["object_state"][:3] - self.observation["proprio"][:3]) / 0.025
        guided = np.array([*np.clip(move, -1, 1), 0, 0, 0, -1], dtype=np.float32)
        if self.episodes % 2:
            guided[0] = 1.0
        self.observation, *rest = self.env.step(guided)
        return self.observation, *rest
