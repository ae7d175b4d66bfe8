"""The environment of a row and the wrappers of a condition.

`environment_arguments` works out, from plan and policy, what the environment is built with; `make_environment`
builds it; `wrap` stacks perturbation, shield, step budget and recorder around it for one condition; `check_runnable`
finds out before the first rollout which policies and environments cannot be built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.plan import EnvironmentSettings, ResolvedPlan, Row, check_bootstrap_scenes
from roep_gym.evaluate.run.rollout import check_observations
from roep_gym.policies.base import KnowsSpaces, Policy
from roep_gym.policies.registry import make_policy
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.shield import untrained_shield
from roep_gym.typing import JSON
from roep_gym.wrappers import PerturbObservation, RecordEpisode, ShieldAction, StepBudget
from roep_gym.wrappers.episode_trace import FrameChoice
from roep_gym.wrappers.frame_keys import find_frame_keys
from roep_gym.wrappers.stack_order import find_attribute

__all__ = ["check_runnable", "environment_arguments", "make_environment", "wrap"]


def environment_arguments(row: Row, settings: EnvironmentSettings, policy: Policy) -> dict[str, Any]:
    """Return what the suite makes a row's environment with.

    The policy's observation request and contract fill what the plan's settings leave open.
    """
    request, contract = policy.observations, policy.contract
    chosen: dict[str, Any] = {
        "cameras": list(request.cameras),
        "image_size": request.image_size,
        "depth": request.depth,
        "object_state": request.object_state,
        "control_mode": _declared(contract.control_mode, "relative"),
        "settle_steps": _declared(contract.settle_steps, 10),
        "terminate_on_unsafe": False,
        **settings.given(),
    }
    if request.controller_pose:
        chosen["controller_pose"] = True
    suite = row.find_suite()
    return {name: value for name, value in chosen.items() if name in suite.settings}


def make_environment(row: Row, arguments: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Build the environment of a row."""
    env = row.find_suite().make_environment(row.task, **arguments)
    if not isinstance(env, gym.Env):
        raise InvalidInputError(
            f"Expected the suite {row.suite!r} to make a gymnasium.Env of {row.task!r}, got {type(env).__name__}."
        )
    return env


def wrap(
    env: gym.Env[Any, Any],
    *,
    profile: dict[str, JSON],
    shield: str | None,
    step_budget: int,
    frames: FrameChoice,
    replan: bool,
    terminate_on_refusal: bool,
) -> RecordEpisode:
    """Return the environment of a row with the wrappers of one condition.

    The clean profile changes nothing, bit for bit; `shield` is a file; `replan` says whether the policy looks again
    after an intervention, so that its frames are drawn.
    """
    # What has no frames runs under every condition; its records tell that no frame was given.
    keys = None if any(find_frame_keys(env.observation_space)) else list[str]()
    env = PerturbObservation(
        env,
        profile=profile,
        keep_clean=frames != "none",
        image_keys=keys,
        depth_keys=keys,
        step_budget=step_budget,
    )
    if shield is not None:
        env = ShieldAction(
            env, shield=shield, frames_on_intervention=replan, terminate_on_refusal=terminate_on_refusal
        )
    return RecordEpisode(StepBudget(env, max_steps=step_budget), frames=frames)


def check_runnable(plan: ResolvedPlan) -> dict[int, dict[str, Any]]:
    """Build every policy and every row's environment once; no simulator is started and no server is asked.

    Refused are policies and environments that cannot be built or do not fit, a shield that would be trained on scenes
    that it is evaluated on, and shielded conditions in a row that no shield would fit.

    Returns:
        What the environment of each row is built with, by the row's index.
    """
    shielded = any(condition.shielded for condition in plan.conditions)
    check_bootstrap_scenes(plan)
    built_with: dict[int, dict[str, Any]] = {}
    for model in plan.plan.models:
        policy = make_policy(model.policy, **model.arguments)
        try:
            for row in plan.rows:
                if row.model is model:
                    arguments = environment_arguments(row, plan.plan.environment, policy)
                    env, built_with[row.index] = make_environment(row, arguments), arguments
                    try:
                        check_observations(env.observation_space, policy.observations)
                        if isinstance(policy, KnowsSpaces):
                            policy.check_environment(env.observation_space, env.action_space)
                        if shielded:
                            _check_shield_fits(env, row, plan.plan.shield)
                    finally:
                        env.close()
        finally:
            if not model.is_object:  # an object is its maker's to close
                policy.close()
    return built_with


def _check_shield_fits(env: gym.Env[Any, Any], row: Row, config: ShieldConfig) -> None:
    """Put a shield that has learned nothing around the environment, which refuses what it would refuse in the run."""
    if not isinstance(env.action_space, gym.spaces.Box):
        raise InvalidInputError(
            f"Expected Box actions for the shielded conditions of {row.label!r}, since a shield moves an action a "
            f"little, got {env.action_space}; plan the unshielded conditions alone."
        )
    known = find_attribute(env, "observation_fields", {})
    mode = find_attribute(env, "control_mode", "relative")
    size = math.prod(env.action_space.shape or (0,))
    try:
        ShieldAction(env, untrained_shield(config.fields or known.get("proprio", ()), size, config, mode))
    except RoepError as error:
        raise InvalidInputError(
            f"Expected an environment that a shield fits for the shielded conditions of {row.label!r}, got: {error}"
        ) from error


def _declared(value: Any, default: Any) -> Any:
    return default if value in (None, "n/a", "any") else value
