"""The training examples in a shortened form, from the training to the verdict."""

from __future__ import annotations

import csv
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from shield_data import make_episodes
from stable_baselines3.common.logger import configure

from roep_gym.cli.main import main
from roep_gym.shields import ShieldConfig, save_shield, train_shield

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def judge(out: Path) -> list[dict[str, str]]:
    """Evaluate the model of a folder in one episode, and return the lines of its episodes."""
    plan, run = out / "evaluation.yaml", out / "evaluation"
    quick = ["--condition", "baseline", "--seed-groups", "1", "--episodes", "1", "--step-budget", "20"]
    assert main(["evaluate", str(plan), "--out", str(run), "--workers", "1", *quick]) == 0
    with (run / "episodes.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.libero
def test_the_stove_is_trained_drawn_and_judged(tmp_path: Path) -> None:
    train, curve = example("train_stove"), example("learning_curve")
    out = tmp_path / "stove"
    train.main(train.Settings(out=out, demonstrations=1, steps=80, warm_up=40, step_budget=20))
    assert (out / "model.zip").is_file()
    assert not (out / "shield.npz").exists(), "no shield can be trained from timeouts alone"
    curve.main(curve.Settings(runs=(out,), csv=tmp_path / "curve.csv", figure=tmp_path / "curve.png"))
    with (tmp_path / "curve.csv").open(encoding="utf-8") as stream:
        (line,) = csv.DictReader(stream)
    assert (line["run"], line["steps"], line["success_rate"], line["episode_length"]) == (
        "stove",
        "80",
        "0.0",
        "20.0",
    )
    assert (tmp_path / "curve.png").stat().st_size > 0
    (episode,) = judge(out)
    assert (episode["model"], episode["task"], episode["reason"]) == ("stove", "goal_stove", "timeout")


@pytest.mark.libero
def test_the_expert_is_cloned_and_judged(tmp_path: Path) -> None:
    clone = example("clone_expert")
    out = tmp_path / "clone"
    clone.main(clone.Settings(out=out, demonstrations=1, batches=20))
    (episode,) = judge(out)
    assert (episode["model"], episode["reason"]) == ("clone", "timeout")


@pytest.mark.libero
def test_a_time_limit_ends_the_training(tmp_path: Path) -> None:
    train = example("train_stove")
    train.main(train.Settings(out=tmp_path, demonstrations=1, minutes=0.0, step_budget=20))
    assert (tmp_path / "model.zip").is_file()


@pytest.mark.libero
def test_a_shielded_training_tells_of_its_interventions(tmp_path: Path) -> None:
    train, curve = example("train_stove"), example("learning_curve")
    fields = ("eef_pos_x", "eef_pos_y", "eef_pos_z", "gripper_qpos_0")
    outcome = train_shield([replace(episode, fields=fields) for episode in make_episodes()], ShieldConfig())
    assert outcome.shield is not None
    shield = save_shield(
        replace(outcome.shield, threshold=0.0), tmp_path / "shield.npz"
    )  # it always intervenes
    out = tmp_path / "shielded"
    train.main(
        train.Settings(out=out, demonstrations=1, steps=80, warm_up=40, step_budget=20, shield=str(shield))
    )
    (line,) = curve.read_run(out)
    assert (line["intervention_rate"], line["intervention_steps"]) == (1.0, 20.0)
    assert not (out / "shield.npz").exists()


def test_curves_lie_side_by_side(tmp_path: Path) -> None:
    curve = example("learning_curve")
    for name, more in (("plain", {}), ("shielded", {"shield/intervention_steps": 3.0})):
        logger = configure(str(tmp_path / name / "tensorboard"), ["tensorboard"])
        for step, success in ((100, 0.25), (200, 0.75)):
            values: dict[str, Any] = {"rollout/success_rate": success, "rollout/ep_len_mean": 50.0, **more}
            for tag, value in values.items():
                logger.record(tag, value)
            logger.dump(step)
        logger.close()
    runs = (tmp_path / "plain", tmp_path / "shielded")
    curve.main(curve.Settings(runs=runs, csv=tmp_path / "curve.csv", figure=tmp_path / "curve.png"))
    with (tmp_path / "curve.csv").open(encoding="utf-8") as stream:
        lines = [
            (line["run"], line["steps"], line["success_rate"], line["intervention_steps"])
            for line in csv.DictReader(stream)
        ]
    assert lines == [
        ("plain", "100", "0.25", ""),
        ("plain", "200", "0.75", ""),
        ("shielded", "100", "0.25", "3.0"),
        ("shielded", "200", "0.75", "3.0"),
    ]
    assert (tmp_path / "curve.png").stat().st_size > 0
