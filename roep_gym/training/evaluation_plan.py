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
from roep_gym.typing import JSON

__all__ = ["write_evaluation_plan"]

_OF_THE_POLICY = {"control_mode": "relative", "settle_steps": 10}
"""Arguments that the policy's contract declares, with what it declares by itself."""
_WITHOUT_SHIELD = ("baseline", "baseline_clone", "perturb", "perturb_clone")
_OF_THE_PLAN = ("placement_shift", "unsafe_channels", "safety_limits", "terminate_on_unsafe")
_WITHOUT_EFFECT = (
    *("task", "suite", "initial_states", "reward", "reward_discount", "render_mode", "render_camera"),
    *("cameras", "image_size", "depth", "object_state", "env_id", "description"),
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

    The conditions bring their own perturbation and shield, and the stored initial states in place of sampled ones. The
    shielded ones are left out where the actions are not those of the arm that a shield's defaults are for.

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
    env, given = _rebuilt(environment)
    source, described = _source(env)
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
        "tasks": [f"{source}/{env.task}"],
        "conditions": ["main"] if env.action_space.shape == (7,) else list(_WITHOUT_SHIELD),
        "step_budget": environment.step_budget if step_budget is None else step_budget,
    }
    if described:
        plan["suites"] = {source: plain(described)}
    settings = {key: plain(given[key]) for key in _OF_THE_PLAN if key in given}
    if settings:
        plan["environment"] = settings
    file.write_text(yaml.safe_dump(plan, sort_keys=False))


def _rebuilt(environment: EnvironmentConfig) -> tuple[Any, Mapping[str, Any]]:
    """Return an environment, closed, and what it was made with, or refuse what no plan can say."""
    env: Any = make_env(replace(environment, wrapper=None), monitor=False).unwrapped
    given = {} if env.spec is None else env.spec.kwargs
    suite, task = (getattr(env, name, None) for name in ("suite", "task"))
    env.close()
    wrapper = None if environment.wrapper is None else find_environment_wrapper(environment.wrapper)
    foreign = [name for name in given if name not in (*_OF_THE_POLICY, *_OF_THE_PLAN, *_WITHOUT_EFFECT)]
    if wrapper is not None and not (isinstance(wrapper, type) and issubclass(wrapper, gym.RewardWrapper)):
        what = f"the wrapper {environment.wrapper!r}, which is no class of gymnasium.RewardWrapper"
    elif not isinstance(suite, str) or not isinstance(task, str):
        what = f"{environment.env_id!r}, which names no suite and task"
    elif not _is_of_suite(env, task):
        what = f"{environment.env_id!r}, which is not what the suite {suite!r} makes"
    elif foreign:
        what = f"the arguments {foreign}"
    else:
        return env, given
    raise InvalidInputError(
        f"Expected a training environment that an evaluation can rebuild, got {what}; evaluate the model where it was "
        "trained, or train without."
    )


def _source(env: Any) -> tuple[str, Mapping[str, JSON]]:
    """Return how a plan refers to the suite of an environment, and the suite's arguments."""
    return getattr(env, "suite_source", env.suite), getattr(env, "suite_arguments", {})


def _is_of_suite(env: Any, task: str) -> bool:
    try:
        made = find_suite(*_source(env)).make_environment(task)
    except UnknownNameError:
        return False
    made.close()
    return type(made.unwrapped) is type(env)
