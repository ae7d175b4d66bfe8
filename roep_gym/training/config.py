"""`TrainingConfig`: what `roep-gym train` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roep_gym.arguments import read_integer
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import check_fields
from roep_gym.training.environment import EnvironmentConfig

__all__ = ["TrainingConfig"]


@dataclass(frozen=True)
class TrainingConfig:
    """A training run.

    Attributes:
        environment: What is trained on, by field of `EnvironmentConfig`.
        name: Name of the run; part of the key of every episode, and the model's label in an evaluation.
        algorithm: Algorithm of Stable-Baselines3 or sb3-contrib ("PPO"), or "module:attribute" of its class.
        policy: Policy class of the algorithm; None: `MultiInputPolicy`, or `MlpPolicy` where the observation is one
            vector and `CnnPolicy` where it is one image.
        total_timesteps: Steps of all environments together.
        seed: Seed of the learner and of the environments.
        n_envs: Number of environments.
        subprocesses: Whether each environment runs in a process of its own.
        hyperparameters: Arguments of the algorithm; schedules, noise and classes as the page on training has them.
        normalize: Whether vector observations are normalised (`VecNormalize`); images and rewards stay as they are.
        eval_every: Steps between two evaluations in training; 0: none.
        eval_episodes: Episodes of each of them.
        eval_environment: Fields of `EnvironmentConfig` that differ there; `{profile: null, shield: null}` also takes
            away what acts on these.
        checkpoint_every: Steps between two checkpoints, from the last of which a killed training is continued; 0: none.
        save_replay_buffer: Whether the replay buffer is part of what the training is continued from, and costs its size
            on disk; without it, a continued off-policy training first fills a new one with `learning_starts` steps.
        log_interval: Rollouts (on-policy) or episodes (off-policy) between two writings of the logs.
    """

    environment: EnvironmentConfig
    name: str = "training"
    algorithm: str = "PPO"
    policy: str | None = None
    total_timesteps: int = 100_000
    seed: int = 0
    n_envs: int = 1
    subprocesses: bool = False
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    normalize: bool = False
    eval_every: int = 10_000
    eval_episodes: int = 10
    eval_environment: Mapping[str, Any] = field(default_factory=dict)
    checkpoint_every: int = 0
    save_replay_buffer: bool = False
    log_interval: int = 1

    def __post_init__(self) -> None:
        check_fields(self, "training")
        self.environment.with_changes(self.eval_environment)
        least = {"total_timesteps": 1, "seed": 0, "n_envs": 1, "eval_every": 0, "eval_episodes": 1}
        least |= {"checkpoint_every": 0, "log_interval": 1}
        for name, smallest in least.items():
            read_integer(f"training.{name}", getattr(self, name), smallest)
        if not self.name or any(c in self.name for c in "/\\\n"):
            raise InvalidInputError(f"Expected a name without slashes or line breaks, got {self.name!r}.")
