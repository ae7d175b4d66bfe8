"""Runtime contracts: every claim of a built-in policy has somebody who measures it."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import roep_gym  # noqa: F401 (registers the environments)
from roep_gym.contracts import FIELDS, RuntimeContract
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies.registry import make_policy

EVALUATION = {
    "cameras", "resolution", "control_mode", "settle_steps", "suite", "gripper_sign", "eef_orientation", "chunk_length",
    "executed_steps", "replan_after_intervention", "mujoco", "robosuite",
}  # fmt: skip
"""What the evaluation measures of every policy."""


def test_replaced_changes_the_named_fields_alone_and_refuses_others() -> None:
    contract = RuntimeContract.applicable(suite="any")
    assert contract.replaced(None) == contract
    changed = contract.replaced({"suite": "libero_goal"}).to_dict()
    assert {name for name, value in contract.to_dict().items() if changed[name] != value} == {"suite"}
    with pytest.raises(UnknownNameError, match=r"Unknown contract field 'siute'\. Did you mean 'suite'"):
        contract.replaced({"siute": "any"})


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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"executed_steps": "5"}, "Expected contract.executed_steps to be an integer or one of 'n/a', 'any', got '5'"),
        ({"executed_steps": 0}, "Expected contract.executed_steps to be at least 1, got 0"),
        ({"executed_steps": -1}, "Expected contract.executed_steps to be at least 1, got -1"),
        ({"executed_steps": True}, "Expected contract.executed_steps to be an integer"),
        ({"chunk_length": 7.5}, "Expected contract.chunk_length to be an integer"),
        ({"settle_steps": -1}, "Expected contract.settle_steps to be at least 0"),
        ({"resolution": 0}, "Expected contract.resolution to be at least 1"),
        ({"cameras": "agentview"}, "Expected contract.cameras to be a list or one of 'n/a', 'any'"),
        ({"cameras": []}, "Expected contract.cameras to name a camera"),
        ({"control_mode": "absolut"}, "Expected contract.control_mode to be one of 'relative', 'absolute'"),
        ({"precision": 32}, "Expected contract.precision to be text, got 32"),
        ({"replan_after_intervention": "no"}, "Expected contract.replan_after_intervention to be true or false or"),
        ({"by_suite": {"libero_goal": {"unnorm": "x"}}}, "Unknown contract field 'unnorm'. Did you mean 'unnorm_key'"),
        ({"by_suite": {"libero_goal": {"suite": 7}}}, "Expected contract.suite to be text, got 7"),
        ({"by_suite": {"libero_goal": {"executed_steps": 3}}}, "which is the same in every suite"),
    ],
)  # fmt: skip
def test_a_contract_is_checked_when_it_is_made(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        RuntimeContract(**values)


def test_a_contract_has_the_fields_of_its_suite() -> None:
    keys = {suite: {"unnorm_key": f"{suite}_no_noops"} for suite in ("libero_goal", "libero_10")}
    contract = RuntimeContract(precision="bfloat16", unnorm_key="none", by_suite=keys)
    assert contract.for_suite("libero_goal").unnorm_key == "libero_goal_no_noops"
    assert contract.for_suite("libero_goal_swap").unnorm_key == "libero_goal_no_noops"
    assert contract.for_suite("libero_100").unnorm_key == "none"
    assert contract.for_suite("libero_10").precision == "bfloat16"
    replaced = contract.replaced({"unnorm_key": "mine"})
    assert replaced.for_suite("libero_goal").unnorm_key == "mine"
    assert set(contract.to_dict()) == set(FIELDS)
    assert "by_suite" not in FIELDS


def test_lists_and_numbers_of_numpy_become_plain() -> None:
    contract = RuntimeContract(cameras=("agentview",), chunk_length=np.int64(8))  # type: ignore[arg-type]
    assert contract.cameras == ["agentview"]
    assert type(contract.chunk_length) is int
