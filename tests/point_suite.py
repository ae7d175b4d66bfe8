"""A suite as another package would have it, where a point moves to a goal; its `fault` plants one."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.episode import SAMPLED, EpisodeIdentity
from roep_gym.error import unknown_name
from roep_gym.suites import SuiteTask

_COUNTER = itertools.count()
FIELDS = ("x", "y", "goal_x", "goal_y")


class PointEnv(gym.Env[Any, Any]):
    """Moves by the first two entries of an action; success within 0.1 of the goal."""

    observation_fields = {"proprio": FIELDS}  # noqa: RUF012
    unsafe_channels = ("workspace",)
    action_space = spaces.Box(-1.0, 1.0, (7,), np.float32)
    observation_space = spaces.Dict({"proprio": spaces.Box(-np.inf, np.inf, (4,), np.float32)})

    def __init__(self, task: str, fault: str = "") -> None:
        self.suite, self.task, self._fault = "point", task, fault
        self.control_mode = "relative"
        self._episodes = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        identity = EpisodeIdentity.from_options(options)
        scene, state = (0, 0) if identity is None else (identity.scene_seed or 0, identity.init_state or 0)
        if self._fault == "no sampled states":
            state = int(state)
        state = 1000 if state == SAMPLED else state
        draw = np.random.default_rng([scene, state])
        if self._fault == "unseeded reset":
            draw = np.random.default_rng([scene, state, next(_COUNTER)])
        if self._fault == "global stream":
            draw = np.random.default_rng([scene, state, np.random.randint(1000)])
        if self._fault == "seed of reset":
            draw = np.random.default_rng([scene, state, seed or 0])
        self._place, self._goal = draw.uniform(-1, 1, 2), draw.uniform(-1, 1, 2)
        if self._fault == "leak of history":
            self._place += 1e-9 * self._episodes
        self._episodes += 1
        self._steps = 0
        digits = self._place.tobytes() + self._goal.tobytes()
        info = {
            "instruction": f"{self.task} the point",
            "scene_hash": int.from_bytes(digits[1:7], "big") ^ int.from_bytes(digits[17:23], "big"),
        }
        if self._fault == "constant hash":
            info["scene_hash"] = 1
        if self._fault == "no hash":
            del info["scene_hash"]
        if self._fault == "no instruction":
            del info["instruction"]
        if self._fault == "other instruction":
            info["instruction"] = "do something else"
        return self._observe(), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._place = self._place + 0.1 * np.asarray(action[:2], dtype=np.float64)
        self._steps += 1
        if self._fault == "leak of dynamics":
            self._place = self._place + 1e-6 * self._episodes
        near = bool(np.linalg.norm(self._place - self._goal) < 0.1)
        info: dict[str, Any] = {
            "is_success": near,
            "unsafe": {"workspace": bool(np.abs(self._place).max() > 2)},
        }
        if self._fault == "no success":
            del info["is_success"]
        if self._fault == "unknown channel":
            info["unsafe"]["volcano"] = False
        limit = self._steps >= 7
        return (
            self._observe(),
            float(near),
            near or (limit and self._fault == "hidden end"),
            limit and self._fault == "hidden limit",
            info,
        )

    def _observe(self) -> Any:
        vector = np.concatenate([self._place, self._goal]).astype(np.float32)
        if self._fault == "wrong dtype":
            vector = vector.astype(np.float64)
        return {"proprio": vector[:3] if self._fault == "wrong shape" else vector}


class PointSuite:
    """Two tasks without frames."""

    name = "point"
    step_budget = 40
    settings = ("control_mode",)
    unsafe_channels = ("workspace",)
    needs_renderer = False
    robot_type = "point_robot"
    fault = ""

    def tasks(self) -> list[SuiteTask]:
        return [
            SuiteTask("push", "push the point", 8, ("shove",)),
            SuiteTask("pull", "pull the point", 8),
        ]

    def shield_fields(self, task: str) -> tuple[str, ...]:
        return FIELDS

    def make_environment(self, task: str, control_mode: str) -> gym.Env[Any, Any]:
        if control_mode != "relative":
            raise unknown_name("control mode", control_mode, ["relative"])
        return PointEnv(task, self.fault)


SUCCESSLESS = PointSuite()
SUCCESSLESS.fault, SUCCESSLESS.name = "no success", "successless"


def point_policy(observation: Any) -> Any:
    """Go towards the goal."""
    x, y, goal_x, goal_y = observation["proprio"]
    return np.clip(np.array([goal_x - x, goal_y - y, 0, 0, 0, 0, 0]) * 10, -1, 1).astype(np.float32)
