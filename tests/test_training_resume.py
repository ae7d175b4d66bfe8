"""A training that was ended or killed is continued: once, completely, and from nothing but its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
import yaml
from stable_baselines3 import PPO, SAC
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from roep_gym.cli.main import main
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import read_mapping
from roep_gym.training.config import TrainingConfig
from roep_gym.training.resume import find_resume_point
from roep_gym.training.run import train

PPO_FILE: dict[str, Any] = {
    "name": "short",
    "total_timesteps": 96,
    "n_envs": 2,
    "hyperparameters": {
        "n_steps": 16,
        "batch_size": 16,
        "device": "cpu",
        "learning_rate": {"linear": 1e-3},
        "policy_kwargs": {"net_arch": [8]},
    },
    "eval_every": 32,
    "eval_episodes": 1,
    "checkpoint_every": 32,
    "normalize": True,
    "environment": {
        "env_id": "roep_gym/Tabletop-v0",
        "arguments": {"task": "reach", "cameras": []},
        "observation_keys": "proprio",
        "wrapper": "test_training_resume:Ended",
        "step_budget": 5,
    },
}
SAC_FILE: dict[str, Any] = {
    **PPO_FILE,
    "algorithm": "SAC",
    "n_envs": 1,
    "normalize": False,
    "save_replay_buffer": True,
    "hyperparameters": {
        "learning_starts": 8,
        "batch_size": 8,
        "buffer_size": 200,
        "device": "cpu",
        "policy_kwargs": {"net_arch": [8]},
    },
}


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Ended(gym.RewardWrapper[Any, Any]):
    """Calls `what` at the step `at` of all environments together."""

    at = -1
    steps = 0

    @staticmethod
    def what() -> None:
        """Do nothing."""

    def reward(self, reward: Any) -> Any:
        Ended.steps += 1
        if Ended.steps == Ended.at:
            Ended.what()
        return reward


class Killed(BaseException):
    """Stands for a death in which nothing is saved any more."""


def interrupt() -> None:
    raise KeyboardInterrupt


def kill() -> None:
    raise Killed


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def written(folder: Path, given: dict[str, Any], **changes: Any) -> str:
    path = folder / "short.yaml"
    path.write_text(yaml.safe_dump({**given, **changes}))
    return str(path)


def ended(
    tmp_path: Path, given: dict[str, Any], what: Any, at: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Path, Any]:
    """Begin a training that ends at a step, and return its file, its folder and the status."""
    out, file = tmp_path / "run", written(tmp_path, given)
    monkeypatch.setattr(Ended, "what", staticmethod(what))
    monkeypatch.setattr(Ended, "at", at)
    monkeypatch.setattr(Ended, "steps", 0)
    status: Any
    try:
        with monkeypatch.context() as patch:
            if what is kill:
                patch.setattr("roep_gym.training.run._save", lambda *given: kill())
            status = main(["train", file, "--out", str(out)])
    except (SystemExit, Killed) as error:
        status = getattr(error, "code", "killed")
    monkeypatch.setattr(Ended, "at", -1)
    return file, out, status


def scalars(out: Path, tag: str) -> list[tuple[int, float]]:
    (folder,) = (out / "tensorboard").iterdir()
    return [(event.step, event.value) for event in EventAccumulator(str(folder)).Reload().Scalars(tag)]


@pytest.mark.parametrize(
    ("what", "status", "reached"), [(interrupt, 130, 70), (terminate, 143, 70), (kill, "killed", 64)]
)
def test_a_training_continues_without_losing_or_doubling_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, what: Any, status: Any, reached: int
) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    # Each evaluation takes five steps of an environment of its own: 70 of the training come before the 81st reward.
    file, out, got = ended(tmp_path, PPO_FILE, what, 81, monkeypatch)
    assert got == status
    assert (out / "model.zip").exists() == (what is not kill)
    point = find_resume_point(out)
    assert point is not None
    assert point.timesteps == reached

    assert main(["train", file, "--out", str(out)]) == 2
    assert f"continue it from step {reached} with --resume" in capsys.readouterr().err
    assert main(["train", file, "--out", str(out), "--resume"]) == 0

    model = PPO.load(out / "model.zip", device="cpu")
    assert model.num_timesteps >= 96
    assert model._current_progress_remaining <= 0
    assert model.policy.optimizer.state_dict()["state"]
    steps = np.load(out / "evaluations.npz")["timesteps"].tolist()
    assert steps == sorted(set(steps))
    assert steps[:2] == [32, 64]
    assert [step for step, _ in scalars(out, "eval/mean_reward")] == steps
    totals = [value for _, value in scalars(out, "total/outcome/episodes")]
    assert totals == sorted(totals)
    rows = [line for file in (out / "monitor").iterdir() for line in file.read_text().splitlines()[2:]]
    assert len(rows) == totals[-1] == sum(value for _, value in scalars(out, "outcome/episodes"))
    assert len(list((out / "tensorboard").iterdir())) == 1
    assert not (out / "resume").exists()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_continued_training_begins_new_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, int, int]] = []
    from roep_gym.wrappers.training_episode import TrainingEpisode

    reset = TrainingEpisode.reset

    def recorded(self: Any, **given: Any) -> Any:
        observation, info = reset(self, **given)
        tracker = self._tracker
        begun.append((tracker._run_id, tracker._seed_group, tracker._episodes - 1))
        return observation, info

    monkeypatch.setattr(TrainingEpisode, "reset", recorded)
    file, out, _ = ended(tmp_path, {**PPO_FILE, "eval_every": 0}, interrupt, 71, monkeypatch)
    first = len(begun)
    assert main(["train", file, "--out", str(out), "--resume"]) == 0
    assert first < len(begun)
    assert len(set(begun)) == len(begun)
    for index in (0, 1):
        numbers = [number for _, group, number in begun if group == index]
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("saved", [True, False])
def test_the_replay_buffer_is_continued_where_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: bool
) -> None:
    given = {**SAC_FILE, "save_replay_buffer": saved, "eval_every": 0, "checkpoint_every": 0}
    file, out, _ = ended(tmp_path, given, interrupt, 61, monkeypatch)
    starts = []
    learn = SAC.learn

    def watched(self: Any, *args: Any, **named: Any) -> Any:
        starts.append((self.replay_buffer.size(), self.learning_starts, self.num_timesteps))
        return learn(self, *args, **named)

    monkeypatch.setattr(SAC, "learn", watched)
    assert main(["train", file, "--out", str(out), "--resume"]) == 0
    assert starts == [(60, 8, 60) if saved else (0, 68, 60)]


def test_a_training_killed_before_its_first_checkpoint_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    given = {**PPO_FILE, "checkpoint_every": 0}
    file, out, _ = ended(tmp_path, given, kill, 70, monkeypatch)
    assert find_resume_point(out) is None
    assert main(["train", file, "--out", str(out)]) == 2
    assert "continue it from its beginning with --resume" in capsys.readouterr().err
    assert main(["train", file, "--out", str(out), "--resume"]) == 0
    rows = [line for file in (out / "monitor").iterdir() for line in file.read_text().splitlines()[2:]]
    assert len(rows) == scalars(out, "total/outcome/episodes")[-1][1]


def test_only_the_same_unfinished_training_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file, out, _ = ended(tmp_path, PPO_FILE, interrupt, 71, monkeypatch)
    kept = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main(["train", file, "--out", str(out), "--resume", "--seed", "4"]) == 2
    assert "got other values of seed" in capsys.readouterr().err
    state = out / "resume" / "state.json"
    content = state.read_bytes()
    state.write_text("[]")
    assert main(["train", file, "--out", str(out), "--resume"]) == 2
    assert "got a damaged file" in capsys.readouterr().err
    state.write_bytes(content)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == kept
    assert main(["train", file, "--out", str(out), "--resume"]) == 0
    assert main(["train", file, "--out", str(out), "--resume"]) == 2
    assert "where a training is finished" in capsys.readouterr().err


def test_the_logs_of_an_unknown_training_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "tensorboard" / "short_1").mkdir(parents=True)
    with pytest.raises(InvalidInputError, match=r"cannot be continued, since it has no training\.json"):
        train(read_mapping(TrainingConfig, PPO_FILE, "training"), tmp_path, resume=True)
