"""A shield in absolute control on LIBERO: what it commands starts from the measured pose of the end effector."""

from __future__ import annotations

import numpy as np
import pytest

from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.run.environment_stack import check_runnable
from roep_gym.shields import ProjectionConfig, ShieldConfig
from roep_gym.shields.shield import untrained_shield
from roep_gym.wrappers import ShieldAction

pytestmark = pytest.mark.libero

STEPS = 30
AWAY = np.array([0.0, 0.0, -0.25])
"""From the first position to the one that is commanded, in metres."""


class Reached:
    """A shield whose threshold every step reaches."""

    def __init__(self, env: LiberoEnv, min_risk_reduction: float) -> None:
        config = ShieldConfig(projection=ProjectionConfig(min_risk_reduction=min_risk_reduction))
        fields = env.observation_fields["proprio"]
        self._shield = untrained_shield(fields, 7, config, "absolute")
        object.__setattr__(self._shield, "threshold", 0.5)
        self.fields, self.action_size, self.control_mode = fields, 7, "absolute"
        self.action_bounds, self.assess = self._shield.action_bounds, self._shield.assess


def drive(min_risk_reduction: float | None) -> tuple[np.ndarray, np.ndarray, list[dict[str, object]]]:
    """Command one pose below the first one at every step.

    Returns:
        Positions (STEPS + 1, 3) in metres, quaternions (STEPS + 1, 4), and what the shield did at each step.
    """
    env = LiberoEnv("goal_stove", cameras=[], control_mode="absolute")
    try:
        names = env.observation_fields["proprio"]
        position, quaternion = (
            [names.index(name) for name in names if name.startswith(prefix)]
            for prefix in ("eef_pos", "eef_quat")
        )
        stack = env if min_risk_reduction is None else ShieldAction(env, Reached(env, min_risk_reduction))
        observation, _ = stack.reset(options={"init_state": 0})
        seen, shields = [observation["proprio"]], []
        # Gripper down, as it starts: half a turn about the diagonal of x and y, in the frame of the controller.
        down = np.array([*(seen[0][position] + AWAY), -np.pi / np.sqrt(2), -np.pi / np.sqrt(2), 0.0, -1.0])
        for _ in range(STEPS):
            observation, _, _, _, info = stack.step(down.astype(np.float32))
            seen.append(observation["proprio"])
            shields.append(info.get("shield", {}))
    finally:
        env.close()
    path = np.array(seen)
    return path[:, position], path[:, quaternion], shields


def test_a_refusal_in_absolute_control_holds_the_measured_pose() -> None:
    positions, quaternions, shields = drive(min_risk_reduction=1.0)
    assert all(shield["refused"] for shield in shields)
    assert np.linalg.norm(positions - positions[0], axis=1).max() < 0.005
    assert np.abs(quaternions - quaternions[0]).max() < 0.02


def test_a_projection_in_absolute_control_goes_towards_the_commanded_pose_and_less_far() -> None:
    projected, _, shields = drive(min_risk_reduction=0.0)
    free, _, _ = drive(None)
    assert {shield["projection"] for shield in shields} == {"projected"}
    down_projected, down_free = (path[0, 2] - path[:, 2] for path in (projected, free))
    assert 0.02 < down_projected[-1] < 0.8 * down_free[-1]
    # At most 2.5 cm from the measured position are commanded at once.
    assert np.linalg.norm(np.diff(projected, axis=0), axis=1).max() < 0.025
    assert np.abs(projected[:, :2] - projected[0, :2]).max() < 0.02


def test_a_plan_of_absolute_control_with_shields_can_run() -> None:
    model = {"name": "m", "policy": "random"}
    plan = {"models": [model], "tasks": ["goal_stove"], "environment": {"control_mode": "absolute"}}
    check_runnable(resolve(plan_from_mapping(plan)))
