"""Gymnasium's statistics around our environments: `info["episode"]` is theirs, the identity has its own key."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorStatistics

import roep_gym  # noqa: F401
from roep_gym.wrappers import PerturbObservation, StepBudget, TrainingEpisode

STEPS = 3


def _stack(index: int, inside: bool) -> gym.Env[Any, Any]:
    env = gym.make("roep_gym/Tabletop-v0", task="reach", image_size=16)
    env = TrainingEpisode(StepBudget(PerturbObservation(env, profile="medium"), STEPS), "run", index)
    return RecordEpisodeStatistics(env) if inside else env


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("inside", [True, False], ids=["statistics within", "statistics around"])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_gymnasiums_statistics_go_with_the_identity(kind: Any, inside: bool, mode: AutoresetMode) -> None:
    env = kind([lambda i=i: _stack(i, inside) for i in range(2)], autoreset_mode=mode)
    env = env if inside else RecordVectorStatistics(env)
    _, info = env.reset(seed=4)
    assert list(info["episode_identity"]["seed_group"]) == [0, 1]
    assert list(info["episode_identity"]["episode"]) == [0, 0]
    returns, begun = [], []
    for _ in range(10):
        _, _, _, truncated, info = env.step(np.zeros((2, 7), dtype=np.float32))
        if "episode_identity" in info:  # a reset's own
            begun.append(list(info["episode_identity"]["episode"]))
        if truncated.any():
            last = info["final_info"] if inside and mode is AutoresetMode.SAME_STEP else info
            returns.append([*last["episode"]["l"].tolist(), *last["episode"]["r"].tolist()])
    env.close()
    assert len(returns) >= 2
    assert all(entry == [STEPS, STEPS, 0.0, 0.0] for entry in returns)
    assert begun[:2] == [[1, 1], [2, 2]]


def test_the_statistics_of_one_environment() -> None:
    env = _stack(0, inside=True)
    _, info = env.reset(seed=1)
    assert "episode" not in info
    assert info["episode_identity"]["run_id"] == "run/seed-1"
    for _ in range(STEPS):
        *_, info = env.step(np.zeros(7, dtype=np.float32))
    assert info["episode"]["l"] == STEPS
