"""Exports of a run on real LIBERO."""

from __future__ import annotations

import io
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest
from minari.dataset.minari_dataset import MinariDataset
from PIL import Image

from roep_gym.envs.registration import register_environments
from roep_gym.evaluate.export.lerobot_dataset import write_lerobot
from roep_gym.evaluate.export.minari_dataset import write_minari
from roep_gym.evaluate.export.run_export import RunExport
from roep_gym.evaluate.export.settings import ExportSettings
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.local_executor import LocalExecutor

pytestmark = [pytest.mark.libero, pytest.mark.slow]

ENVIRONMENT = {"cameras": ["agentview"], "image_size": 64}


def test_rollouts_of_libero_become_datasets(tmp_path: Path) -> None:
    plan = {
        "name": "stove",
        "models": [{"name": "expert", "policy": "expert", "arguments": {"chunk": 8}}],
        "tasks": ["goal_stove"],
        "conditions": ["perturb"],
        "seed_groups": 1,
        "episodes": 1,
        "environment": ENVIRONMENT,
        "frames": "looked",
    }
    summary = evaluate(
        resolve(plan_from_mapping(plan)), tmp_path / "run", lambda resolved: LocalExecutor(resolved, 1)
    )
    assert summary.incomplete == ()
    clean = RunExport(tmp_path / "run", ExportSettings(rate="decisions", frames="clean"))
    written = write_minari(clean, tmp_path / "minari")
    dataset = MinariDataset(written.folder / "data")
    assert dataset.observation_space["agentview_image"].shape == (64, 64, 3)
    assert dataset.action_space.shape == (8, 7)
    (known,), episode = dataset.storage.get_episode_metadata([0]), dataset[0]
    assert known["success"]
    assert episode.terminations[-1]
    assert episode.infos["step"][-1] == known["steps"]

    # The episode can be begun again, and its actions lead to success again: nothing was lost on the way.
    register_environments()
    env = gym.make("roep_gym/Libero-v0", suite=known["suite"], task=known["task"], **ENVIRONMENT)
    options = {
        "episode": {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in known["options"]["episode"].items()
        }
    }
    observation, info = env.reset(seed=known["seed"], options=options)
    assert info["scene_hash"] == known["scene_hash"]
    np.testing.assert_array_equal(observation["agentview_image"], episode.observations["agentview_image"][0])
    info = {"is_success": False}
    for chunk, length in zip(episode.actions, np.diff(episode.infos["step"]), strict=True):
        for action in chunk[:length]:
            assert not info["is_success"]
            *_, info = env.step(action)
    env.close()
    assert info["is_success"]

    given = RunExport(tmp_path / "run", ExportSettings(rate="decisions"))
    folder = write_lerobot(given, tmp_path / "lerobot").folder
    assert json.loads((folder / "meta/info.json").read_text())["robot_type"] == "panda"
    rows = pq.read_table(folder / "data/chunk-000/file-000.parquet").to_pylist()
    assert rows[-1]["next.success"]
    assert sum(row["step_count"] for row in rows) == known["steps"]
    first = np.asarray(Image.open(io.BytesIO(rows[0]["observation.images.agentview"]["bytes"])))
    black = (first == 0).all(axis=-1) & (episode.observations["agentview_image"][0] != 0).any(axis=-1)
    assert black.sum() > 300, "the given frame is occluded by a square of 19 pixels a side"
