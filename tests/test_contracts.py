"""Runtime contracts: every claim of a built-in policy has somebody who measures it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import roep_gym  # noqa: F401 (registers the environments)
from roep_gym.contracts import FIELDS
from roep_gym.policies.registry import make_policy

EVALUATION = {
    "cameras", "resolution", "control_mode", "settle_steps", "suite", "gripper_sign", "eef_orientation", "chunk_length",
    "executed_steps", "replan_after_intervention", "mujoco", "robosuite",
}  # fmt: skip
"""What the evaluation measures of every policy."""


@pytest.mark.parametrize("name", ["random", "expert", "visuomotor", "blind"])
def test_every_claim_of_a_built_in_policy_is_measured_by_somebody(name: str) -> None:
    policy = make_policy(name)
    declared, observed = policy.contract.to_dict(), policy.observed()
    assert None not in declared.values()
    claims = {field for field in FIELDS if declared[field] not in ("n/a", "any")}
    assert claims <= EVALUATION | set(observed) | ({"rotation"} if policy.observations.cameras else set())
    assert {field: declared[field] for field in observed} == dict(observed)
    policy.close()


def test_the_conventions_of_tabletop_are_what_its_actions_do() -> None:
    env = gym.make("roep_gym/Tabletop-v0")
    observation, _ = env.reset(seed=0)
    names = env.get_wrapper_attr("observation_fields")["proprio"]

    def opening(command: float) -> float:
        action = np.zeros(7, dtype=np.float32)
        action[6] = command
        observation, *_ = env.step(action)
        return float(observation["proprio"][names.index("gripper_qpos_0")])

    start = float(observation["proprio"][names.index("gripper_qpos_0")])
    closed = opening(1.0)
    assert closed < start < opening(-1.0) + 1e-6
    assert env.unwrapped.conventions["gripper_sign"] == "-1 open, +1 close"  # type: ignore[attr-defined]
    env.close()


@pytest.mark.libero
def test_the_conventions_of_libero_are_what_its_actions_do() -> None:
    env = gym.make("roep_gym/Libero-v0", task="goal_cream_cheese", cameras=[])
    env.reset(seed=0)
    names = env.get_wrapper_attr("observation_fields")["proprio"]

    def opening(command: float) -> float:
        action = np.zeros(7, dtype=np.float32)
        action[6] = command
        for _ in range(15):
            observation, *_ = env.step(action)
        return float(observation["proprio"][names.index("gripper_qpos_0")])

    assert opening(1.0) < 0.01 < 0.03 < opening(-1.0)
    assert env.unwrapped.conventions["gripper_sign"] == "-1 open, +1 close"  # type: ignore[attr-defined]
    env.close()
