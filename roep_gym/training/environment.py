"""One environment to train on: `EnvironmentConfig` says which, `make_env` builds it.

The stack, from the inside out::

    gym.make -> config.wrapper -> PerturbObservation -> ShieldAction -> StepBudget -> RecordEpisode
             -> TrainingEpisode -> PenalizeIntervention -> SelectObservation -> Monitor

    env = make_env(EnvironmentConfig("roep_gym/Tabletop-v0", {"task": "reach"}, observation_keys=["proprio"]))

What is not asked for is left out. `Monitor` of Stable-Baselines3 stands outermost, where it sees the reward and the
length that the learner sees; the last `info` has `is_success`, `termination` and `TimeLimit.truncated`. Actions and
observations keep the spaces of the environment, images are (H, W, C): Stable-Baselines3 transposes them itself, and
`make_sb3_vec_env` does so for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import gymnasium as gym

from roep_gym.envs.registration import register_environments
from roep_gym.error import InvalidInputError, RoepError
from roep_gym.mapping_reader import check_fields, read_mapping
from roep_gym.registry import load_place
from roep_gym.typing import JSON
from roep_gym.wrappers import PerturbObservation, RecordEpisode, ShieldAction, StepBudget
from roep_gym.wrappers.penalize_intervention import PenalizeIntervention
from roep_gym.wrappers.select_observation import SelectObservation
from roep_gym.wrappers.training_episode import TrainingEpisode

__all__ = ["MONITORED", "EnvironmentConfig", "find_environment_wrapper", "make_env"]

MONITORED: tuple[str, ...] = ("is_success", "termination")
"""Entries of the last `info` that `Monitor` writes to its file."""

_DEPENDENT: Mapping[str, tuple[str, ...]] = {
    "profile": ("severity",),
    "shield": ("terminate_on_refusal", "intervention_penalty", "distance_penalty", "proposed_action"),
}
"""Fields that act on the perturbation, and on the shield."""

EnvironmentWrapper = Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]


@dataclass(frozen=True)
class EnvironmentConfig:
    """What is trained on.

    Attributes:
        env_id: Id of a registered environment.
        arguments: Arguments of the environment: task, cameras, object_state and so on.
        wrapper: A wrapper right around the environment, such as one that shapes the reward: a callable, or its name as
            `module:attribute`.
        observation_keys: What the learner sees: a list of keys, one key for that array itself, or None for all.
        profile: Perturbation profile, a name or a mapping; None: no perturbation.
        severity: Factor on the profile's severities by episode, a number or a mapping as `Severity.from_spec` reads it.
        shield: File of a stored shield, or `module:attribute`; it stays as it is during training. None: no shield.
        terminate_on_refusal: Whether a safe refusal ends the episode (terminated).
        intervention_penalty: What an intervention of the shield costs.
        distance_penalty: What it costs by distance between the proposed and the executed action.
        proposed_action: Whether `info` holds the action before the shield.
        step_budget: Control steps after which the episode is truncated.
        record: Whether the last `info` of each episode holds its record, to train a shield from.
    """

    env_id: str = "roep_gym/Libero-v0"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    wrapper: EnvironmentWrapper | str | None = None
    observation_keys: str | list[str] | None = None
    profile: str | dict[str, JSON] | None = None
    severity: float | dict[str, JSON] = 1.0
    shield: str | None = None
    terminate_on_refusal: bool = False
    intervention_penalty: float = 0.0
    distance_penalty: float = 0.0
    proposed_action: bool = False
    step_budget: int = 280
    record: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "environment")
        # The others are refused where no shield is found, which `wrapper` may bring.
        for name, needed in (("severity", "profile"), ("terminate_on_refusal", "shield")):
            if getattr(self, needed) is None and getattr(self, name) != getattr(EnvironmentConfig, name):
                raise InvalidInputError(
                    f"Expected a {needed} for {name}={getattr(self, name)!r} to act on, got none; name one or leave "
                    f"{name} out."
                )

    def with_changes(self, changes: Mapping[str, Any]) -> EnvironmentConfig:
        """Return the configuration with other values of these fields.

        Where they take the profile or the shield away, the fields that act on it fall back to their defaults.

        Raises:
            InvalidInputError: A field is unknown or malformed, or has no profile or shield to act on.
        """
        gone = [needed for needed in _DEPENDENT if needed in changes and changes[needed] is None]
        defaults = {name: getattr(EnvironmentConfig, name) for needed in gone for name in _DEPENDENT[needed]}
        own = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return read_mapping(EnvironmentConfig, {**own, **defaults, **changes}, "environment")


def make_env(
    config: EnvironmentConfig,
    *,
    run_id: str = "training",
    index: int = 0,
    first_episode: int = 0,
    monitor: bool = True,
    monitor_file: str | Path | None = None,
) -> gym.Env[Any, Any]:
    """Return one environment to train on.

    Args:
        config: What is trained on.
        run_id: Name of the training run; with `index`, the number of the episode and the seed, if one is given to
            `reset`, it decides everything random about an episode.
        index: Index of the environment among those that run side by side.
        first_episode: Number of its first episode; above 0, where a training is continued, `Monitor` appends to its
            file.
        monitor: Whether `Monitor` of Stable-Baselines3 stands around it. Without it, `gym.make(env.spec)` and
            `gym.make_vec(env.spec, ...)` build the environment again.
        monitor_file: File that `Monitor` writes a row to for each episode, with `is_success` and `termination`.

    Raises:
        InvalidInputError: An argument is out of its range, or names nothing.
    """
    register_environments()
    env = _made(config)
    if config.wrapper is not None:
        env = find_environment_wrapper(config.wrapper)(env)
    if config.profile is not None:
        env = PerturbObservation(
            env, profile=config.profile, severity=config.severity, step_budget=config.step_budget
        )
    if config.shield is not None:
        env = ShieldAction(env, shield=config.shield, terminate_on_refusal=config.terminate_on_refusal)
    env = StepBudget(env, max_steps=config.step_budget)
    if config.record:
        env = RecordEpisode(env)
    env = TrainingEpisode(env, run_id=run_id, index=index, first=first_episode)
    if config.intervention_penalty or config.distance_penalty or config.proposed_action:
        env = PenalizeIntervention(
            env, config.intervention_penalty, config.distance_penalty, config.proposed_action
        )
    if config.observation_keys is not None:
        env = SelectObservation(env, keys=config.observation_keys)
    if not monitor:
        return env
    from stable_baselines3.common.monitor import Monitor

    file = None if monitor_file is None else str(monitor_file)
    return Monitor(env, file, info_keywords=MONITORED, override_existing=first_episode == 0)


def _made(config: EnvironmentConfig) -> gym.Env[Any, Any]:
    try:
        return gym.make(config.env_id, disable_env_checker=True, **config.arguments)
    except RoepError:
        raise
    except (TypeError, ValueError, ImportError, gym.error.Error) as error:
        raise InvalidInputError(
            f"Expected env_id to be a registered environment that takes these arguments, got: {error}."
        ) from error


def find_environment_wrapper(given: EnvironmentWrapper | str) -> EnvironmentWrapper:
    """Return a wrapper, which may be named as `module:attribute`."""
    wrapper: EnvironmentWrapper = load_place(given, "wrapper") if isinstance(given, str) else given
    if not callable(wrapper):
        raise InvalidInputError(f"Expected a wrapper at {given!r}, got {wrapper!r}, which cannot be called.")
    return wrapper
