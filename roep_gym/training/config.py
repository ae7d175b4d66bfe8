"""What `roep-gym train` reads: `TrainingConfig` and, for its file, `training_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.training.environment import EnvironmentConfig

__all__ = ["TrainingConfig", "training_config"]


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
        hyperparameters: Arguments of the algorithm.
        normalize: Whether vector observations are normalised (`VecNormalize`); images and rewards stay as they are.
        eval_every: Steps between two evaluations in training; 0: none.
        eval_episodes: Episodes of each of them.
        eval_environment: Fields of `EnvironmentConfig` that differ there; `{profile: null, shield: null}` also takes
            away what acts on these.
        checkpoint_every: Steps between two checkpoints; 0: none.
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
    log_interval: int = 1

    def __post_init__(self) -> None:
        least = {"total_timesteps": 1, "seed": 0, "n_envs": 1, "eval_every": 0, "eval_episodes": 1}
        least |= {"checkpoint_every": 0, "log_interval": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise InvalidInputError(f"Expected {name} to be an integer >= {smallest}, got {value!r}.")
        if not isinstance(self.algorithm, str):
            raise InvalidInputError(f"Expected algorithm to be a name, got {self.algorithm!r}.")
        for name in ("subprocesses", "normalize"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"Expected {name} to be true or false, got {getattr(self, name)!r}.")
        if not isinstance(self.name, str) or not self.name or any(c in self.name for c in "/\\\n\0"):
            raise InvalidInputError(f"Expected a name without slashes or line breaks, got {self.name!r}.")


def training_config(source: Mapping[str, Any]) -> TrainingConfig:
    """Return the configuration in nested mappings, as YAML gives them.

    Raises:
        UnknownNameError: A field is unknown; the message offers the closest.
        InvalidInputError: A field is missing or malformed.
    """
    values = _known(source, TrainingConfig, "training")
    if "environment" not in values:
        raise InvalidInputError(
            "Expected the training field 'environment', got none; say what is trained on."
        )
    environment = _known(values["environment"], EnvironmentConfig, "environment")
    _known(values.get("eval_environment", {}), EnvironmentConfig, "environment")
    for name in ("hyperparameters", "eval_environment"):
        if not isinstance(values.get(name, {}), Mapping):
            raise InvalidInputError(f"Expected {name} to be a mapping, got {values[name]!r}.")
    return TrainingConfig(**{**values, "environment": EnvironmentConfig(**environment)})


def _known(source: Any, target: type, kind: str) -> dict[str, Any]:
    if not isinstance(source, Mapping):
        raise InvalidInputError(f"Expected a mapping of {kind} fields, got {source!r}.")
    names = [entry.name for entry in fields(target)]
    for name in source:
        if name not in names:
            raise unknown_name(f"{kind} field", str(name), names)
    return dict(source)
