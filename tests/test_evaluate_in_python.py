"""An evaluation from Python: what `evaluate` takes and returns, and policies that are Python objects."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roep_gym import InvalidInputError, RuntimeContract
from roep_gym.envs import sighted_policy
from roep_gym.evaluate import EvaluationPlan, LocalExecutor, ModelSpec, evaluate, judge, load_run, resolve
from roep_gym.policies import FunctionPolicy, ObservationRequest, PolicyInput
from roep_gym.typing import Array

SMALL: dict[str, Any] = {
    "name": "small",
    "tasks": ["tabletop/reach"],
    "conditions": ["baseline", "perturb"],
    "seed_groups": 1,
    "episodes": 2,
    "step_budget": 20,
}
RANDOM = {"name": "random", "policy": "random"}


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


class Remembering(FunctionPolicy):
    """A policy that cannot be copied, and says when it was closed."""

    def __init__(self) -> None:
        super().__init__(sighted_policy, ObservationRequest(cameras=("agentview",)), RuntimeContract())
        self.calls, self.closed = 0, False

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        assert not self.closed
        self.calls += 1
        return super().act(inputs)

    def close(self) -> None:
        self.closed = True

    def __deepcopy__(self, memo: object) -> Remembering:
        raise TypeError("cannot be copied")

    __reduce__ = __deepcopy__  # type: ignore[assignment]


def test_plan_mapping_and_resolved_plan_are_the_same_run(tmp_path: Path) -> None:
    plan = EvaluationPlan(
        name="small",
        models=(ModelSpec("random", "random"),),
        tasks=("tabletop/reach",),
        conditions=("baseline", "perturb"),
        seed_groups=1,
        episodes=2,
        step_budget=20,
    )
    forms = {"mapping": {**SMALL, "models": [RANDOM]}, "plan": plan, "resolved": resolve(plan)}
    runs = {name: evaluate(form, str(tmp_path / name)) for name, form in forms.items()}
    for name, run in runs.items():
        assert run.path == tmp_path / name
        assert run.recorded == 4
        assert run.data.drop_vars(("wall_time", "policy_latency")).identical(
            load_run(tmp_path / "mapping").drop_vars(("wall_time", "policy_latency"))
        )


def test_without_a_folder_each_run_has_a_new_one() -> None:
    first, second = (evaluate({**SMALL, "models": [RANDOM]}) for _ in range(2))
    assert first.path != second.path
    assert first.data.success.groupby("condition").count().values.tolist() == [2, 2]


def test_workers_run_the_same_episodes(tmp_path: Path) -> None:
    plan = {**SMALL, "models": [RANDOM]}
    here, there = evaluate(plan, tmp_path / "here"), evaluate(plan, tmp_path / "there", workers=1)
    assert here.data.scene_hash.equals(there.data.scene_hash)
    assert here.data.max_abs_action.equals(there.data.max_abs_action)


def test_an_object_runs_here_and_is_neither_copied_nor_closed(tmp_path: Path) -> None:
    policy = Remembering()
    run = evaluate({**SMALL, "models": [{"name": "mine", "policy": policy}]}, tmp_path / "run")
    assert run.recorded == 4
    assert run.aborts == ()
    assert policy.calls == int(run.data.decisions.sum()) > 4
    assert not policy.closed
    assert judge(run.data).verdicts.sizes["row"] == 1


def test_a_run_of_an_object_says_so_and_is_not_continued(tmp_path: Path) -> None:
    plan = {**SMALL, "models": [{"name": "mine", "policy": Remembering()}]}
    run = evaluate(plan, tmp_path / "run")
    (stored,) = json.loads((run.path / "plan.json").read_text())["models"]
    assert stored["policy"] == "Python object test_evaluate_in_python.Remembering"
    with pytest.raises(
        InvalidInputError, match=r"its policy 'mine' was a Python object .* choose another output"
    ):
        evaluate(plan, run.path)


def test_an_object_does_not_leave_the_process(tmp_path: Path) -> None:
    plan = {**SMALL, "models": [{"name": "mine", "policy": Remembering()}]}
    for choice in ({"workers": 1}, {"make_executor": lambda plan: LocalExecutor(plan, 1)}):
        with pytest.raises(
            InvalidInputError, match="that of 'mine' is a Python object; name it as 'module:attribute'"
        ):
            evaluate(plan, tmp_path / "run", **choice)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_an_episode_that_an_object_fails_is_aborted_and_the_object_kept(tmp_path: Path) -> None:
    class Failing(Remembering):
        def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
            if self.calls == 0:
                self.calls = 1
                raise ConnectionError("once")
            return super().act(inputs)

    run = evaluate({**SMALL, "models": [{"name": "mine", "policy": Failing()}]}, tmp_path / "run")
    assert [abort.cause for abort in run.aborts] == ["ConnectionError: once."]
    assert run.recorded == 4


@pytest.mark.parametrize("policy", [None, 3, True, ["random"], {"name": "random"}])
def test_what_is_no_policy_is_refused(policy: object) -> None:
    with pytest.raises(InvalidInputError, match="the name of a policy, a policy or a function, got"):
        ModelSpec("mine", policy)


def test_workers_and_another_executor_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"got both \(2 workers\)"):
        evaluate({**SMALL, "models": [RANDOM]}, tmp_path, lambda plan: LocalExecutor(plan, 1), workers=2)


def test_success_is_a_rate_and_a_plot_takes_five_lines() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    plt.figure()  # the plot draws on the current axes, which may be another test's
    plan = {**SMALL, "models": [{"name": "mine", "policy": Remembering()}]}
    rates = evaluate(plan).data.success.groupby("condition").mean()
    axes = rates.to_series().plot.bar()
    assert [bar.get_height() for bar in axes.patches] == rates.values.tolist()
    assert ((rates.values >= 0) & (rates.values <= 1)).all()
    assert np.isfinite(rates.values).all()
