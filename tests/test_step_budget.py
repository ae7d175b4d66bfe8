"""StepBudget: the budget ends an episode, and only when nothing else did."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from fake_environments import vector_env

from roep_gym.error import InvalidInputError
from roep_gym.wrappers import StepBudget

HOLD = np.zeros(7, dtype=np.float32)


def last_steps(env: StepBudget, steps: int) -> list[tuple[Any, ...]]:
    env.reset(seed=0)
    return [env.step(HOLD)[2:] for _ in range(steps)]


def test_the_last_step_of_the_budget_is_a_timeout_and_each_episode_has_a_full_one() -> None:
    env = StepBudget(vector_env(), 3)
    for _ in range(2):
        *before, last = last_steps(env, 3)
        assert before == [(False, False, {})] * 2
        assert last == (False, True, {"termination": "timeout", "TimeLimit.truncated": True})


def test_an_episode_that_terminates_in_its_last_step_keeps_its_reason() -> None:
    env = StepBudget(vector_env(end=2, infos=[{}, {}, {"termination": "success", "is_success": True}]), 3)
    terminated, truncated, info = last_steps(env, 3)[-1]
    assert (terminated, truncated) == (True, False)
    assert info == {"termination": "success", "is_success": True, "TimeLimit.truncated": False}


def test_the_innermost_reason_wins() -> None:
    env = StepBudget(StepBudget(vector_env(infos=[{"termination": "safe_refusal"}]), 1), 1)
    assert last_steps(env, 1)[-1][2]["termination"] == "safe_refusal"


def test_success_seen_in_the_last_step_is_no_timeout() -> None:
    env = StepBudget(vector_env(infos=[{"is_success": True}]), 1)
    assert last_steps(env, 1)[-1][2]["termination"] == "success"


@pytest.mark.parametrize("budget", [0, -1, 2.5, True, "3"])
def test_a_budget_is_a_positive_integer(budget: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=re.escape(f"Expected max_steps to be an integer >= 1, got {budget!r}.")
    ):
        StepBudget(vector_env(), budget)
