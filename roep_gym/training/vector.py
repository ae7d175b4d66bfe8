"""Several environments to train on: for Stable-Baselines3, and for learners that take Gymnasium's vector environments.

    env = make_sb3_vec_env(EnvironmentConfig("roep_gym/Tabletop-v0", {"task": "reach"}), n_envs=4, run_id="ppo")
    PPO("MultiInputPolicy", env, seed=0).learn(10_000)

Environment i of a run has episodes of its own, the same in the main process and in processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium import spaces

from roep_gym.arguments import read_integer
from roep_gym.training.environment import EnvironmentConfig, make_env

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

__all__ = ["make_gymnasium_vec_env", "make_sb3_vec_env"]

# A render context does not survive a fork.
_START_METHOD = "spawn"


def make_sb3_vec_env(
    config: EnvironmentConfig,
    n_envs: int = 1,
    *,
    run_id: str = "training",
    seed: int | None = None,
    subprocesses: bool = False,
    monitor_folder: str | Path | None = None,
    first_episodes: Sequence[int] = (),
) -> VecEnv:
    """Return environments for Stable-Baselines3, with `Monitor` around each and channel-first images.

    Args:
        config: What is trained on.
        n_envs: Number of environments.
        run_id: Name of the training run; see `make_env`.
        seed: Seed of the first reset, that of environment i is `seed + i`; a learner's own seed replaces it.
        subprocesses: Whether each environment runs in a process of its own (the script then needs its `__main__`
            guard), or all in this one.
        monitor_folder: Folder of `Monitor`'s files, `<index>.monitor.csv`.
        first_episodes: Number of the first episode of each environment, where a training is continued; empty: 0.

    Raises:
        InvalidInputError: The number is below 1, or an environment in this process cannot be made as asked for.
        InfrastructureError: The process of an environment ended.
    """
    from stable_baselines3.common.preprocessing import is_image_space
    from stable_baselines3.common.vec_env import DummyVecEnv, VecTransposeImage

    from roep_gym.training.environment_processes import EnvironmentProcesses

    if monitor_folder is not None:
        Path(monitor_folder).mkdir(parents=True, exist_ok=True)
    makers: list[Callable[[], gym.Env[Any, Any]]] = [
        partial(
            make_env,
            config,
            run_id=run_id,
            index=index,
            first_episode=first_episodes[index] if first_episodes else 0,
            monitor_file=None if monitor_folder is None else Path(monitor_folder) / str(index),
        )
        for index in range(read_integer("the number of environments", n_envs, 1))
    ]
    env: VecEnv = EnvironmentProcesses(makers, _START_METHOD) if subprocesses else DummyVecEnv(makers)
    env.seed(seed)
    space = env.observation_space
    boxes = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    return VecTransposeImage(env) if any(map(is_image_space, boxes)) else env


def make_gymnasium_vec_env(
    config: EnvironmentConfig, num_envs: int = 1, *, run_id: str = "training", subprocesses: bool = False
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Return a vector environment of Gymnasium, without `Monitor`; the arguments are those of `make_sb3_vec_env`."""
    makers: list[Callable[[], gym.Env[Any, Any]]] = [
        partial(make_env, config, run_id=run_id, index=index, monitor=False)
        for index in range(read_integer("the number of environments", num_envs, 1))
    ]
    if subprocesses:
        return gym.vector.AsyncVectorEnv(makers, context=_START_METHOD)
    return gym.vector.SyncVectorEnv(makers)
