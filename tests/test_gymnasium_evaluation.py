"""Registered Gymnasium environments in evaluations: from a plan to a claim, and what is measured before a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from roep_gym.cli import main as cli
from roep_gym.error import InvalidInputError
from roep_gym.evaluate import evaluate, load_run

ARM_ID = "gymnasium_environments:roep_test/Arm-v0"
ARM = f"gym:{ARM_ID}"
PROJECTION = {"translation": [0], "vertical": None, "gripper": []}


def _plan(
    arguments: dict[str, Any], *, task: str = ARM, policy: str = "turn", **changes: Any
) -> dict[str, Any]:
    return {
        "name": "described",
        "models": [{"name": "m", "policy": f"gymnasium_environments:{policy}"}],
        "tasks": [task],
        "suites": {task: arguments},
        "conditions": ["baseline"],
        "seed_groups": 1,
        "episodes": 2,
        **changes,
    }


def test_a_described_environment_is_evaluated_under_all_main_conditions_and_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = _plan(
        {"success": {"info": "task.done"}},
        conditions=["main"],
        seed_groups=5,
        episodes=6,
        shield={"projection": PROJECTION},
    )
    out = tmp_path / "run"
    data = evaluate(plan, out).data
    rate = data.success.groupby("condition").mean()
    assert 0.4 < float(rate.sel(condition="baseline")) < 1
    assert float(rate.sel(condition="baseline")) == float(rate.sel(condition="baseline_clone"))
    assert set(data.coords["suite"].values) == {"roep_test.Arm-v0"}
    assert set(data["shield_status"].values) == {"trained"}
    assert (data.sel(condition="full")["risk_steps"].values > 0).all()
    assert set(data["contract_status"].values) == {"match"}
    provenance = json.loads(data.attrs["provenance"])
    (measured,) = provenance["determinism"].values()
    assert (measured["after_another_episode"], measured["in_another_process"]) == ("equal", "equal")
    assert provenance["plan"]["suites"] == {ARM: {"success": {"info": "task.done"}}}
    hashes = data.sel(condition="baseline")["scene_hash"].values
    assert len(set(hashes)) == 30
    assert (data.sel(condition="full")["scene_hash"].values == hashes).all()
    assert cli.main(["gate", str(out)]) == 0
    assert "roep_test.Arm-v0" in capsys.readouterr().out
    again = evaluate(plan, out)  # continues: nothing is left to run or to measure
    assert again.recorded == 240
    assert not again.aborts


def test_flags_describe_an_environment_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tasks", "--suite", ARM]) == 0
    assert f"roep_test.Arm-v0  default               {ARM_ID}  1000" in capsys.readouterr().out
    flags = ["--policy", "gymnasium_environments:turn", "--task", ARM, "--quick", "--seed-groups", "1"]
    flags += ["--episodes", "2", "--out", str(tmp_path / "run"), "--workers", "1"]
    assert cli.main(["evaluate", *flags]) == 2
    assert (
        "Expected a success rule for gymnasium_environments:roep_test/Arm-v0, got none"
        in capsys.readouterr().err
    )
    arguments = [
        "--suite-argument",
        "success={info: task.done}",
        "--suite-argument",
        "arguments={fault: unseeded reset}",
    ]
    assert cli.main(["evaluate", *flags, *arguments]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"must be trusted: suite {ARM}, policy gymnasium_environments:turn" in output
    assert (
        "Expected roep_test.Arm-v0/default to repeat an episode with the same seed and actions, got after another"
        in output
    )
    (measured,) = json.loads((tmp_path / "run" / "determinism.json").read_text()).values()
    assert measured["after_another_episode"] == "the reset differs"
    assert float(load_run(tmp_path / "run").success.count()) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (_plan({"success": {"info": "finished"}}), r"Expected info\['finished'\] from step\(\) of .*, got only"),
        (_plan({"success": {"info": "task.done"}, "arguments": {"bound": None}}, conditions=["main"],
               shield={"projection": PROJECTION}), r"Expected the action bounds .* got the action space Box\(-inf"),
        (_plan({"success": {"length_at_least": 9}}, task="gym:CartPole-v1", conditions=["main"]),
         r"Expected Box actions for the shielded conditions of 'm/CartPole-v1/default'"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_before_the_first_episode(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        evaluate(changes, tmp_path / "run")
    assert not (tmp_path / "run" / "episodes.nc").exists()


def test_numbered_actions_are_learned_and_evaluated_by_the_plan_that_a_training_leaves(
    tmp_path: Path,
) -> None:
    environment = {
        "env_id": "roep_gym/Gymnasium-v0",
        "arguments": {"env_id": "CartPole-v1", "description": {"success": {"length_at_least": 5}}},
        "observation_keys": "observation",
        "step_budget": 30,
    }
    hyperparameters = {"n_steps": 32, "batch_size": 32, "device": "cpu"}
    training = {"environment": environment, "total_timesteps": 64, "hyperparameters": hyperparameters}
    (tmp_path / "training.yaml").write_text(yaml.safe_dump(training))
    assert cli.main(["train", str(tmp_path / "training.yaml"), "--out", str(tmp_path / "training")]) == 0
    plan = yaml.safe_load((tmp_path / "training" / "evaluate.yaml").read_text())
    plan["models"].append({"name": "right", "policy": "gymnasium_environments:push_right"})
    summary = evaluate({**plan, "seed_groups": 1, "episodes": 2}, tmp_path / "run")
    assert (summary.recorded, len(summary.aborts)) == (2 * 4 * 2, 0)
    assert (summary.data.success.values == 1).all()
    assert set(summary.data["contract_status"].values) == {"match"}
