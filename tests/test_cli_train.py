"""`roep-gym train`: from a file to a model that `roep-gym evaluate` loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from one_thread import one_thread  # noqa: F401
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from roep_gym.cli.main import main
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.run.environment_stack import check_runnable, environment_arguments
from roep_gym.policies.base import Policy
from roep_gym.policies.registry import make_policy
from roep_gym.training import EnvironmentConfig, write_evaluation_plan

EXAMPLE = Path(__file__).parents[1] / "examples" / "train_tabletop.yaml"
SHORT = {
    "total_timesteps": 64,
    "n_envs": 2,
    "hyperparameters": {"n_steps": 16, "batch_size": 16, "device": "cpu"},
    "eval_every": 32,
    "eval_episodes": 2,
    "checkpoint_every": 32,
    "environment": {
        "env_id": "roep_gym/Tabletop-v0",
        "arguments": {"task": "reach", "image_size": 36},
        "profile": "strong",
        "severity": {"uniform": [0, 1]},
        "step_budget": 8,
    },
}


def written(folder: Path, **changes: Any) -> str:
    path = folder / "short.yaml"
    path.write_text(yaml.safe_dump({**SHORT, **changes}))
    return str(path)


def test_a_training_leaves_model_best_model_checkpoints_and_logs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["train", written(tmp_path, normalize=True), "--out", str(out)]) == 0
    names = {path.name for path in out.iterdir()}
    assert {"model.zip", "best_model.zip", "evaluations.npz", "evaluate.yaml"} < names
    assert {"normalization.pkl", "best_normalization.pkl"} < names
    assert len(list((out / "checkpoints").glob("*_steps.zip"))) == 2
    assert len(list((out / "monitor").iterdir())) == 2
    assert np.load(out / "evaluations.npz")["timesteps"].tolist() == [32, 64]
    (file,) = (out / "tensorboard").rglob("events.out.tfevents.*")
    events = EventAccumulator(str(file)).Reload()
    assert {"outcome/episodes", "perturbation/severity_mean", "eval/success_rate"} <= {
        *events.Tags()["scalars"]
    }
    assert events.Scalars("total/outcome/episodes")[-1].value == 8
    model = yaml.safe_load((out / "evaluate.yaml").read_text())["models"][0]
    assert isinstance(make_policy(model["policy"], **model["arguments"]), Policy)


def test_an_evaluation_in_training_may_go_without_profile_and_shield(tmp_path: Path) -> None:
    shielded = {"shield": "training_shields:RareShield", "intervention_penalty": 0.1}
    file = written(
        tmp_path,
        environment={**SHORT["environment"], **shielded},
        eval_environment={"profile": None, "shield": None},
    )
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 0
    assert len(np.load(tmp_path / "run" / "evaluations.npz")["timesteps"]) == 2


class Interrupted(gym.RewardWrapper[Any, Any]):
    """Ctrl-C at the 21st step."""

    steps = 0

    def reward(self, reward: Any) -> Any:
        self.steps += 1
        if self.steps > 20:
            raise KeyboardInterrupt
        return reward


def test_an_interrupted_training_keeps_its_model_and_its_logs(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "run"
    environment = {**SHORT["environment"], "wrapper": "test_cli_train:Interrupted"}
    file = written(tmp_path, environment=environment, normalize=True, eval_every=0, log_interval=100)
    assert main(["train", file, "--out", str(out)]) == 130
    assert f"Ended early; the model until then: {out / 'model.zip'}" in capsys.readouterr().err
    model = yaml.safe_load((out / "evaluate.yaml").read_text())["models"][0]
    assert isinstance(make_policy(model["policy"], **model["arguments"]), Policy)
    (events,) = (out / "tensorboard").rglob("events.out.tfevents.*")
    logged = EventAccumulator(str(events)).Reload()
    assert logged.Scalars("outcome/episodes")[-1].value == 4


def test_a_training_that_cannot_begin_leaves_no_model(tmp_path: Path, capsys: Any) -> None:
    file = written(tmp_path, hyperparameters={"learning_rate": -1.0})
    assert main(["train", file, "--out", str(tmp_path)]) == 2
    assert "Ended early" not in capsys.readouterr().err
    assert not (tmp_path / "model.zip").exists()


class BoundlessReward(gym.RewardWrapper[Any, Any]):
    """A reward from which no learner recovers."""

    def reward(self, reward: Any) -> float:
        return float("inf")


@pytest.mark.parametrize("steps", [32, 64])  # It diverges in the last update, or goes on and raises.
def test_a_model_that_diverged_is_not_saved(tmp_path: Path, capsys: Any, steps: int) -> None:
    environment = {**SHORT["environment"], "wrapper": "test_cli_train:BoundlessReward"}
    file = written(tmp_path, environment=environment, eval_every=0, total_timesteps=steps)
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "Expected finite weights after " in said
    assert "Ended early" not in said
    assert not (tmp_path / "run" / "model.zip").exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text("")
    assert main(["train", written(tmp_path), "--out", str(tmp_path / "file")]) == 2
    assert f"Expected to write to {tmp_path / 'file'}, got " in capsys.readouterr().err


class FolderGone(gym.Wrapper[Any, Any, Any, Any]):
    """Moves the folder of the training away at the tenth step."""

    folder = Path()
    steps = 0

    def step(self, action: Any) -> Any:
        FolderGone.steps += 1
        if FolderGone.steps == 10:
            self.folder.rename(self.folder.with_name("elsewhere"))
        return super().step(action)


@pytest.mark.parametrize("eval_every", [0, 32])
def test_a_folder_that_goes_away_under_a_training_is_an_error(
    tmp_path: Path, capsys: Any, eval_every: int
) -> None:
    FolderGone.folder, FolderGone.steps = tmp_path / "run", 0
    environment = {**SHORT["environment"], "wrapper": "test_cli_train:FolderGone"}
    file = written(tmp_path, environment=environment, eval_every=eval_every)
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 2
    assert "to stay where it is while the training goes on" in capsys.readouterr().err
    assert (tmp_path / "run" / "model.zip").exists()


def test_the_plan_rebuilds_the_environment_of_the_training(tmp_path: Path) -> None:
    environment = {"env_id": "roep_gym/Tabletop-v0", "observation_keys": "proprio", "step_budget": 8}
    environment["arguments"] = {
        "task": "reach",
        "settle_steps": 3,
        "terminate_on_unsafe": True,
        "cameras": [],
    }
    file = written(tmp_path, environment=environment, eval_every=0, normalize=True)
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 0
    plan = resolve(plan_from_mapping(yaml.safe_load((tmp_path / "run" / "evaluate.yaml").read_text())))
    (row,) = plan.rows
    policy = make_policy(row.model.policy, **row.model.arguments)
    built = environment_arguments(row, plan.plan.environment, policy)
    assert built.items() >= {"settle_steps": 3, "terminate_on_unsafe": True, "cameras": []}.items()
    assert policy.contract.settle_steps == 3
    assert row.step_budget == 8
    check_runnable(plan)


def test_the_plan_carries_what_libero_was_trained_with(tmp_path: Path) -> None:
    arguments = {"control_mode": "absolute", "settle_steps": 0, "placement_shift": 0.02, "task": "goal_stove"}
    arguments |= {
        "unsafe_channels": ["workspace"],
        "safety_limits": {"contact_force": 1.0},
        "suite": "libero_goal",
    }
    file = tmp_path / "plan.yaml"
    config = EnvironmentConfig(arguments=arguments, step_budget=30)
    write_evaluation_plan(file, name="m", algorithm="PPO", model=tmp_path / "m.zip", environment=config)
    written_plan = yaml.safe_load(file.read_text())
    contract = written_plan["models"][0]["arguments"]["contract"]
    assert contract == {"control_mode": "absolute", "settle_steps": 0}
    assert {**contract, **written_plan["environment"]}.items() <= arguments.items()
    assert written_plan["tasks"] == ["libero_goal/turn_on_the_stove"]
    assert written_plan["step_budget"] == 30


class HalvedAction(gym.ActionWrapper[Any, Any, Any]):
    """Executes half of what it is given."""

    def action(self, action: Any) -> Any:
        return action / 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"wrapper": "test_cli_train:HalvedAction"}, "got the wrapper 'test_cli_train:HalvedAction'"),
        (
            {"env_id": "Pendulum-v1", "arguments": {}, "profile": None, "severity": 1.0},
            "got 'Pendulum-v1', which names no suite",
        ),
        ({"env_id": "Pendulum-v1", "arguments": {"g": 9}, "profile": None, "severity": 1.0}, "'Pendulum-v1'"),
    ],
)
def test_what_no_evaluation_rebuilds_gets_no_plan(
    tmp_path: Path, capsys: Any, changes: dict[str, Any], message: str
) -> None:
    file = written(tmp_path, environment={**SHORT["environment"], **changes}, eval_every=0)
    assert main(["train", file, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().out
    assert "No plan evaluates it. Expected a training environment that an evaluation can rebuild" in said
    assert message in said
    assert not (tmp_path / "run" / "evaluate.yaml").exists()


def test_the_same_configuration_gives_the_same_model(tmp_path: Path) -> None:
    from stable_baselines3 import PPO

    vectors = []
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        out = tmp_path / name
        main(["train", written(tmp_path, eval_every=0), "--out", str(out), "--seed", seed])
        parameters = PPO.load(out / "model.zip", device="cpu").policy.state_dict().values()
        vectors.append(np.concatenate([value.numpy().ravel() for value in parameters]))
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.array_equal(vectors[0], vectors[2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algoritm": "PPO"}, "Unknown field of training 'algoritm'. Did you mean 'algorithm'?"),
        ({"algorithm": "PPPO"}, "Unknown Stable-Baselines3 algorithm 'PPPO'. Did you mean 'PPO'"),
        ({"environment": {"env": "x"}}, "Unknown field of training.environment 'env'."),
        ({"environment": 3}, "Expected training.environment to be a mapping, got 3."),
        ({"eval_environment": {"profil": None}}, "Did you mean 'profile'?"),
        (
            {"eval_environment": {"observation_keys": "proprio"}},
            "to have the observations of training, Dict(",
        ),
        ({"algorithm": 3}, "Expected training.algorithm to be text, got 3."),
        ({"total_timesteps": 0}, "Expected training.total_timesteps to be an integer >= 1, got 0."),
        ({"hyperparameters": {"n_step": 1}}, "Expected hyperparameters that PPO takes, got: "),
        (
            {"hyperparameters": {"gamma": "x"}},
            "Expected the hyperparameter gamma to be a number, got 'x'; YAML takes 3e-4 for text",
        ),
        ({"hyperparameters": {"n_epochs": None}}, "hyperparameter n_epochs to be a number, got None"),
        ({"name": "a/b"}, "Expected a name without slashes or line breaks, got 'a/b'."),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, capsys: Any, changes: Any, message: str) -> None:
    assert main(["train", written(tmp_path, **changes), "--out", str(tmp_path / "run")]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_with_a_model_is_left_alone(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "model.zip").write_text("mine")
    assert main(["train", written(tmp_path), "--out", str(tmp_path)]) == 2
    assert "Expected a folder without a model" in capsys.readouterr().err
    assert (tmp_path / "model.zip").read_text() == "mine"


@pytest.mark.slow
def test_the_example_learns_and_is_evaluated(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["train", str(EXAMPLE), "--out", str(out)]) == 0
    plan = out / "evaluate.yaml"
    assert (
        main(["evaluate", str(plan), "--quick", "--workers", "1", "--out", str(tmp_path / "evaluation")]) == 0
    )
    successes = np.load(out / "evaluations.npz")["successes"].mean(axis=1)
    assert successes[-1] >= 0.8
