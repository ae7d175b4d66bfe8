"""A model with a checkpoint for each suite or task is one model: several entries of a plan share its name."""

from __future__ import annotations

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
