"""The plan with which `roep-gym evaluate` judges a model, in the environment that it was trained in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml

from roep_gym.arguments import plain
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.suites.registry import find_suite
from roep_gym.training.environment import EnvironmentConfig, find_environment_wrapper, make_env

__all__ = ["write_evaluation_plan"]

_OF_THE_POLICY = {"control_mode": "relative", "settle_steps": 10}
"""Arguments that the policy's contract declares, with what it declares by itself."""
_OF_THE_PLAN = ("placement_shift", "unsafe_channels", "safety_limits", "terminate_on_unsafe")
_WITHOUT_EFFECT = (
    *("task", "suite", "initial_states", "reward", "reward_discount", "render_mode", "render_camera"),
    *("cameras", "image_size", "depth", "object_state"),
)
"""Arguments that the plan names elsewhere, that the model's observations ask for, or that no policy notices."""


def write_evaluation_plan(
    file: Path,
    *,
    name: str,
    algorithm: str,
    model: Path,
    environment: EnvironmentConfig,
    normalization: Path | None = None,
    step_budget: int | None = None,
) -> None:
    """Write a plan of all main conditions, in the environment of the training.

    The conditions bring their own perturbation and shield, and the stored initial states in place of sampled ones.

    Args:
        file: Where the plan goes, as YAML.
        name: Name of the evaluation, and the model's label in its tables.
        algorithm: Algorithm of Stable-Baselines3 or sb3-contrib, or "module:attribute" of its class.
        model: File that the model's `save` wrote.
        environment: What the model was trained on.
        normalization: File of `VecNormalize.save`.
        step_budget: Control steps that an episode may take; None: that of the training.

    Raises:
        InvalidInputError: No plan reproduces the environment.
    """
    suite, task, given = _rebuilt(environment)
    arguments: dict[str, Any] = {"algorithm": algorithm, "path": str(model.resolve())}
    if isinstance(environment.observation_keys, str):
        arguments["observation_key"] = environment.observation_keys
    arguments["normalization"] = "none" if normalization is None else str(normalization.resolve())
    contract = {key: given[key] for key, value in _OF_THE_POLICY.items() if given.get(key, value) != value}
    if contract:
        arguments["contract"] = contract
    plan: dict[str, Any] = {
        "name": name,
        "models": [{"name": name, "policy": "sb3", "arguments": arguments}],
        "tasks": [f"{suite}/{task}"],
        "conditions": ["main"],
        "step_budget": environment.step_budget if step_budget is None else step_budget,
    }
    settings = {key: plain(given[key]) for key in _OF_THE_PLAN if key in given}
    if settings:
        plan["environment"] = settings
    file.write_text(yaml.safe_dump(plan, sort_keys=False))


def _rebuilt(environment: EnvironmentConfig) -> tuple[str, str, Mapping[str, Any]]:
    """Return suite and task of an environment and what it was made with, or refuse what no plan can say."""
    env = make_env(replace(environment, wrapper=None), monitor=False)
    spec = env.unwrapped.spec
    given = {} if spec is None else spec.kwargs
    suite, task = (getattr(env.unwrapped, name, None) for name in ("suite", "task"))
    env.close()
    wrapper = None if environment.wrapper is None else find_environment_wrapper(environment.wrapper)
    foreign = [name for name in given if name not in (*_OF_THE_POLICY, *_OF_THE_PLAN, *_WITHOUT_EFFECT)]
    if wrapper is not None and not (isinstance(wrapper, type) and issubclass(wrapper, gym.RewardWrapper)):
        what = f"the wrapper {environment.wrapper!r}, which is no class of gymnasium.RewardWrapper"
    elif not isinstance(suite, str) or not isinstance(task, str):
        what = f"{environment.env_id!r}, which names no suite and task"
    elif not _is_of_suite(env, suite, task):
        what = f"{environment.env_id!r}, which is not what the suite {suite!r} makes"
    elif foreign:
        what = f"the arguments {foreign}"
    else:
        return suite, task, given
    raise InvalidInputError(
        f"Expected a training environment that an evaluation can rebuild, got {what}; evaluate the model where it was "
        "trained, or train without."
    )


def _is_of_suite(env: gym.Env[Any, Any], suite: str, task: str) -> bool:
    try:
        made = find_suite(suite).make_environment(task)
    except UnknownNameError:
        return False
    made.close()
    return type(made.unwrapped) is type(env.unwrapped)
