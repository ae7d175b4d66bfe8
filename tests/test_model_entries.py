"""A model with a checkpoint for each suite or task is one model: several entries of a plan share its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.plan import ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.inference_server import InferenceSettings
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.store.storage import read_run


def plan(*tasks: str) -> ResolvedPlan:
    entries = [
        {
            "name": "mine",
            "policy": "evaluation_policies:Scripted",
            "arguments": {"failure_rate": rate},
            "tasks": [task],
        }
        for rate, task in zip((0.0, 1.0), tasks, strict=True)
    ]
    source = {
        "name": "entries",
        "models": entries,
        "conditions": ["baseline"],
        "seed_groups": 1,
        "episodes": 3,
    }
    return resolve(plan_from_mapping({**source, "step_budget": 60}))


@pytest.mark.parametrize("inference", [None, InferenceSettings()], ids=["worker", "shared"])
def test_each_task_gets_the_checkpoint_of_its_entry(
    tmp_path: Path, inference: InferenceSettings | None
) -> None:
    summary = evaluate(
        plan("tabletop/carry", "tabletop/reach"),
        tmp_path / "run",
        lambda resolved: LocalExecutor(resolved, 1, inference=inference),
    )
    assert summary.recorded == 6
    data = read_run(tmp_path / "run")
    assert data["model"].values.tolist() == ["mine", "mine"]
    assert data["success"].values.tolist() == [1, 1, 1, 0, 0, 0]
    assert judge(data).verdicts["model"].values.tolist() == ["mine", "mine"]


def test_a_task_with_two_entries_is_refused() -> None:
    with pytest.raises(InvalidInputError) as raised:
        plan("tabletop/carry", "tabletop/carry")
    assert str(raised.value) == (
        "Expected one entry of the model 'mine' for the task tabletop/carry, got 2; give each entry tasks of its own, "
        "or another name."
    )


def by_suite(**changes: object) -> ResolvedPlan:
    model = {
        "name": "mine",
        "policy": "random",
        "arguments": {"chunk": 2},
        "by_suite": {"libero_goal": {"chunk": 3}, "libero_object": {"chunk": 4}},
        **changes,
    }
    tasks = ["goal_stove", "object_bbq_sauce", "goal_bowl_plate"]
    return resolve(
        plan_from_mapping({"name": "p", "models": [model], "tasks": tasks, "conditions": ["baseline"]})
    )


def test_arguments_by_suite_are_one_model_with_an_entry_a_suite() -> None:
    resolved = by_suite(accept={"mujoco": "as installed"})
    rows = [(row.model.name, row.task, row.model.arguments["chunk"]) for row in resolved.rows]
    assert rows == [
        ("mine", "goal_stove", 3),
        ("mine", "goal_bowl_plate", 3),
        ("mine", "object_bbq_sauce", 4),
    ]
    assert [resolved.model_index(row.model) for row in resolved.rows] == [0, 0, 1]
    assert all(row.model.accept == {"mujoco": "as installed"} for row in resolved.rows)


def test_a_stored_plan_with_arguments_by_suite_is_the_same_plan() -> None:
    resolved = by_suite()
    again = resolve(plan_from_mapping(json.loads(resolved.plan.to_json())))
    assert again.digest == resolved.digest
    assert [row.label for row in again.rows] == [row.label for row in resolved.rows]


def test_a_plan_without_arguments_by_suite_is_stored_as_before() -> None:
    assert "by_suite" not in plan("tabletop/carry", "tabletop/reach").plan.to_json()


def test_a_suite_without_its_arguments_is_refused() -> None:
    with pytest.raises(InvalidInputError) as raised:
        by_suite(by_suite={"libero_goal": {"port": 1}})
    assert str(raised.value) == (
        "Expected by_suite of the model 'mine' to name every suite of its tasks, got none for 'libero_object'; add its "
        "arguments, or evaluate only tasks of libero_goal."
    )
