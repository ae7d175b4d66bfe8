"""Small environments as other packages register them, and policies for them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

_COUNTER = itertools.count()


class Arm(gym.Env[Any, Any]):
    """A joint turns towards 0, seen as nested vectors, an image, a depth frame and a mode; `fault` plants one."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Dict(
        {
            "arm": spaces.Dict(
                {
                    "joint": spaces.Box(-np.inf, np.inf, (1,), np.float64),
                    "speed": spaces.Box(-np.inf, np.inf, (1,), np.float32),
                }
            ),
            "mode": spaces.Discrete(3),
            "top": spaces.Box(0, 255, (16, 16, 3), np.uint8),
            "range": spaces.Box(0.0, 2.0, (16, 16), np.float32),
        }
    )

    def __init__(self, fault: str = "", render_mode: str | None = None, bound: float | None = 1.0) -> None:
        self._fault, self.render_mode = fault, render_mode
        bound = np.inf if bound is None else bound
        self.action_space = spaces.Box(-bound, bound, (2,), np.float32)
        self._episodes = self._steps = 0
        self.drawn = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        draw: Any = self.np_random
        if self._fault == "unseeded reset":
            draw = np.random.default_rng(next(_COUNTER))
        if self._fault == "global streams":
            draw = np.random
        self._joint = draw.uniform(-1, 1) + (random.uniform(-1, 1) if self._fault == "global streams" else 0)
        if self._fault == "leak of history":
            self._joint += 1e-6 * self._episodes
        self._episodes += 1
        self._steps, self._speed, self._mode = 0, 0.0, int(draw.uniform(0, 3))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._speed = 0.2 * float(action[0])
        self._joint += self._speed
        self._steps += 1
        success = abs(self._joint) < 0.2
        info = {"task": {"done": np.float32(success)}, "distance": abs(self._joint)}
        return (
            self._observe(),
            -abs(self._joint),
            False,
            self._fault == "hidden limit" and self._steps >= 7,
            info,
        )

    def render(self) -> Any:
        self.drawn += 1
        return np.full((20, 30, 3), 40 * (self._steps + 1) % 256, np.uint8)

    def _observe(self) -> Any:
        return {
            "arm": {"joint": np.array([self._joint]), "speed": np.array([self._speed], np.float32)},
            "mode": self._mode,
            "top": np.full((16, 16, 3), 100, np.uint8),
            "range": np.full((16, 16), 1.0, np.float32),
        }


class Spoken(gym.Env[Any, Any]):
    """Observes and acts in spaces that nobody can flatten into a vector."""

    def __init__(self, observations: str = "", actions: str = "") -> None:
        kinds = {
            "tuple": spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
            "text": spaces.Dict({"heard": spaces.Text(8)}),
            "several": spaces.MultiDiscrete([2, 2]),
            "matrix": spaces.Box(-1.0, 1.0, (2, 2), np.float32),
        }
        self.observation_space = kinds.get(observations, spaces.Box(-1.0, 1.0, (2,), np.float32))
        self.action_space = kinds.get(actions, spaces.Discrete(2))


gym.register("roep_test/Arm-v0", Arm, max_episode_steps=30)
gym.register("roep_test/Spoken-v0", Spoken)


def turn(observation: Any) -> Any:
    """Turn the joint towards 0, but in the first mode not at all."""
    moves = 1 - observation["mode"][0]
    return np.array([moves * np.clip(-5 * observation["arm.joint"][0], -1, 1), 0.1], np.float32)


def push_right(observation: Any) -> Any:
    """Take the second of two numbered actions."""
    return 1


def near(outcome: Any) -> bool:
    """Tell whether the joint is near 0."""
    return bool(outcome.info["distance"] < 0.2)


def perhaps(outcome: Any) -> Any:
    """Answer with what is neither true nor false."""
    return 0.5
