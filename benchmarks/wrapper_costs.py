"""Time a step of each wrapper, without the environment's own time: `python benchmarks/wrapper_costs.py`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

import roep_gym  # noqa: F401
from roep_gym.wrappers import PerturbObservation, RecordEpisode, StepBudget

STEPS, ROUNDS = 280, 5


class Replay(gym.Env[Any, Any]):
    """Returns one RGB-D observation of two cameras again and again."""

    def __init__(self, image_size: int) -> None:
        cameras = ["agentview", "robot0_eye_in_hand"]
        env = gym.make("roep_gym/Tabletop-v0", cameras=cameras, depth=True, image_size=image_size)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.first = env.reset(seed=0)
        self.then = env.step(np.zeros(7, dtype=np.float32))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self.first

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.then


def milliseconds(env: gym.Env[Any, Any]) -> float:
    """Return the best mean time of a step over the rounds."""
    action, times = np.zeros(7, dtype=np.float32), []
    for _ in range(ROUNDS):
        env.reset(seed=0)
        start = time.perf_counter()
        for _ in range(STEPS):
            env.step(action)
        times.append((time.perf_counter() - start) / STEPS * 1e3)
    return min(times)


def main() -> None:
    wrappers: dict[str, Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = {
        "none": lambda env: env,
        "PerturbObservation clean": lambda env: PerturbObservation(env, "clean"),
        "PerturbObservation medium": lambda env: PerturbObservation(env, "medium"),
        "StepBudget": lambda env: StepBudget(env, STEPS),
        "RecordEpisode, budget included": lambda env: RecordEpisode(StepBudget(env, STEPS)),
    }
    for image_size in (128, 256):
        for name, wrap in wrappers.items():
            print(f"{image_size:4d} px  {name:32s} {milliseconds(wrap(Replay(image_size))):7.4f} ms a step")


if __name__ == "__main__":
    main()
