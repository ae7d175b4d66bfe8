"""Exports of runs on the Tabletop environment, read back with Minari itself and from LeRobot's files."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import minari
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
from minari.dataset.minari_dataset import MinariDataset
from PIL import Image

from roep_gym.cli.main import main
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.tabletop_env import TabletopEnv
from roep_gym.error import DependencyNotInstalledError, InvalidInputError, UnknownNameError
from roep_gym.evaluate.export import lerobot_dataset
from roep_gym.evaluate.export.lerobot_dataset import (
    image_counts,
    image_statistics,
    vector_statistics,
    write_lerobot,
)
from roep_gym.evaluate.export.minari_dataset import write_minari
from roep_gym.evaluate.export.run_export import CONTROL_RATE, RunExport
from roep_gym.evaluate.export.settings import ExportSettings
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.store.storage import load_dataset, save_dataset

READER = Path(__file__).with_name("read_lerobot_dataset.py")
SCRIPTED = "evaluation_policies:Scripted"
# Held-still episodes differ from solved ones in every step, so a few of them suffice to learn from.
SHIELD = {"prefix_support": "none", "tail_horizon": 20, "learning_rate": 0.01, "max_epochs": 20}
SHIELDED = ["baseline", "perturb", "bootstrap_clean", "bootstrap_perturb", "full"]
STEP_BUDGET = 60


def run(out: Path, models: Sequence[Mapping[str, Any]] = (), **changes: Any) -> Path:
    """Evaluate on Tabletop and return the run's folder."""
    plan = {
        "name": "small run",
        "models": models
        or [{"name": "noisy", "policy": SCRIPTED, "arguments": changes.pop("arguments", {})}],
        "tasks": ["tabletop/carry"],
        "conditions": ["baseline", "perturb"],
        "seed_groups": 2,
        "episodes": 2,
        "step_budget": STEP_BUDGET,
        "shield": SHIELD,
        **changes,
    }
    summary = evaluate(resolve(plan_from_mapping(plan)), out, InProcessExecutor)
    assert summary.incomplete == ()
    return out


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every frame, a shield, successes and timeouts."""
    arguments = {"failure_rate": 0.4}
    out = run(
        tmp_path_factory.mktemp("whole") / "run",
        name="test",
        arguments=arguments,
        conditions=SHIELDED,
        seed_groups=3,
        frames="all",
    )
    assert load_dataset(out / "episodes.nc")["shield_status"].values.tolist() == ["trained"]
    return out


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that kept frames only at decisions, one in four steps."""
    out = tmp_path_factory.mktemp("looked") / "run"
    arguments = {"chunk": 4, "failure_rate": 0.3}
    return run(out, arguments=arguments, tasks=["tabletop/reach"], step_budget=22, frames="looked")


@pytest.fixture(scope="module")
def without_frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without frames, of a model that sees and one that does not."""
    models = [
        {"name": "noisy", "policy": SCRIPTED, "arguments": {"failure_rate": 0.4}},
        {"name": "blind", "policy": "random"},
    ]
    out = tmp_path_factory.mktemp("without") / "run"
    return run(out, models, tasks=["tabletop/carry", "tabletop/reach"], step_budget=10)


def records(folder: Path) -> Iterator[tuple[xr.Dataset, xr.Dataset, dict[str, np.ndarray]]]:
    """Yield every episode as the files hold it, in the order of the records: outcome, steps, frames."""
    data = load_dataset(folder / "episodes.nc")
    stored = {path.stem: load_dataset(path) for path in (folder / "steps").iterdir()}
    for position in range(data.sizes["episode"]):
        at = data.isel(episode=position)
        row, condition = int(at["row_index"]), str(data["condition"].values[int(at["condition_index"])])
        steps = stored[f"{row:04d}-{condition}"]
        owner = np.repeat(np.arange(steps.sizes["episode"]), steps["row_size"].values)
        group, episode = int(at["seed_group"]), int(at["episode_index"])
        number = np.flatnonzero((steps["seed_group"] == group) & (steps["episode_index"] == episode))[0]
        path = folder / "frames" / f"{row:04d}-{condition}-{group}-{episode}.npz"
        frames = dict(np.load(path)) if path.exists() else {}
        yield at.assign_attrs(condition=condition), steps.isel(step=owner == number), frames


def to_minari(folder: Path, out: Path, **settings: Any) -> MinariDataset:
    """Export and load the dataset with Minari."""
    written = write_minari(RunExport(folder, ExportSettings(**settings)), out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(out))
        dataset = minari.load_dataset(written.dataset_id)
    assert (dataset.total_episodes, dataset.total_steps) == (written.episodes, written.rows)
    return dataset


def to_lerobot(folder: Path, out: Path, **settings: Any) -> Path:
    write_lerobot(RunExport(folder, ExportSettings(**settings)), out)
    return out


def table(folder: Path) -> pd.DataFrame:
    """Return the rows of a LeRobot dataset."""
    return pd.concat(
        [pq.read_table(path).to_pandas() for path in sorted(folder.glob("data/*/*.parquet"))],
        ignore_index=True,
    )


def episode_lines(folder: Path) -> pd.DataFrame:
    return pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pandas()


def pictures(column: pd.Series) -> np.ndarray:
    return np.stack([np.asarray(Image.open(io.BytesIO(entry["bytes"]))) for entry in column])


# Minari


@pytest.mark.parametrize("frames", ["given", "clean"])
def test_minari_gives_the_records_back(whole: Path, tmp_path: Path, frames: str) -> None:
    dataset = to_minari(whole, tmp_path / "datasets", frames=frames, depth=True)
    ended = set()
    for episode, (outcome, steps, stored) in zip(dataset.iterate_episodes(), records(whole), strict=True):
        n, success = steps.sizes["step"], bool(outcome["success"] == 1)
        rows = n if success else n - 1
        assert len(episode.actions) == len(episode.rewards) == rows
        np.testing.assert_array_equal(episode.actions, steps["executed_action"].values[:rows])
        np.testing.assert_array_equal(episode.rewards, steps["reward"].values[:rows])
        np.testing.assert_array_equal(episode.infos["step"], np.arange(rows + 1))
        np.testing.assert_array_equal(
            episode.observations["proprio"][:n], steps["proprio"].values, err_msg="observation t, action t"
        )
        for key in ("agentview_image", "agentview_depth"):
            np.testing.assert_array_equal(episode.observations[key][:n], stored[f"{frames}_{key}"][:n])
            assert episode.observations[key].dtype == stored[f"{frames}_{key}"].dtype
            assert len(episode.observations[key]) == rows + 1
        assert (episode.terminations[-1], episode.truncations[-1]) == (success, not success)
        assert not episode.terminations[:-1].any()
        assert not episode.truncations[:-1].any()
        if success:
            np.testing.assert_array_equal(*episode.observations["proprio"][-2:])
        ended.add(success)
    assert ended == {True, False}
    assert all(dataset.observation_space.contains(first_observation(e)) for e in dataset.iterate_episodes())


def first_observation(episode: Any) -> dict[str, np.ndarray]:
    return {key: values[0] for key, values in episode.observations.items()}


def test_an_exported_episode_can_be_begun_again(whole: Path, tmp_path: Path) -> None:
    dataset = to_minari(whole, tmp_path, frames="clean", depth=True)
    env = gym.make("roep_gym/Tabletop-v0", image_size=32, depth=True)
    for number in (0, 7):
        (known,) = dataset.storage.get_episode_metadata([number])
        options = {"episode": {name: _plain(value) for name, value in known["options"]["episode"].items()}}
        observation, info = env.reset(seed=known["seed"], options=options)
        assert info["scene_hash"] == known["scene_hash"]
        assert info["instruction"] == known["instruction"]
        first = first_observation(next(iter(dataset.iterate_episodes([number]))))
        for key, value in first.items():
            np.testing.assert_array_equal(observation[key], value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def test_minari_keeps_what_is_known_of_every_episode(whole: Path, tmp_path: Path) -> None:
    dataset = to_minari(whole, tmp_path)
    described = dataset.storage.get_episode_metadata(range(dataset.total_episodes))
    for known, (outcome, _, _) in zip(described, records(whole), strict=True):
        shielded = outcome.attrs["condition"] == "full"
        expected = {
            "model": "noisy",
            "suite": "tabletop",
            "task": "carry",
            "instruction": "carry the red disc to the green square",
            "action_mode": "relative",
            "condition": outcome.attrs["condition"],
            "profile": "clean" if outcome.attrs["condition"] in ("baseline", "bootstrap_clean") else "medium",
            "shielded": shielded,
            "run_id": f"test/noisy/tabletop/carry/{outcome.attrs['condition']}",
            "reason": "success" if outcome["success"] == 1 else "timeout",
        }
        assert {name: known[name] for name in expected} == expected
        for name in ("seed_group", "init_state", "env_seed", "success", "steps", "scene_hash", "fingerprint"):
            assert int(known[name]) == int(outcome[name]), name
    metadata = dataset.storage.metadata["roep_gym"]
    provenance = json.loads(load_dataset(whole / "episodes.nc").attrs["provenance"])
    assert {name: metadata[name] for name in provenance} == provenance
    assert metadata["export"]["action"] == "executed"


def test_a_proposed_action_differs_where_the_shield_intervened(whole: Path, tmp_path: Path) -> None:
    proposed, executed = (
        to_minari(whole, tmp_path / action, action=action, conditions=("full",), frames="none")
        for action in ("proposed", "executed")
    )
    changed = 0
    shielded = [r for r in records(whole) if r[0].attrs["condition"] == "full"]
    pairs = zip(proposed.iterate_episodes(), executed.iterate_episodes(), shielded, strict=True)
    for first, second, (_, steps, _) in pairs:
        np.testing.assert_array_equal(first.actions, steps["proposed_action"].values[: len(first)])
        differs = (first.actions != second.actions).any(axis=1)
        assert (steps["intervened"].values[: len(first)][differs] == 1).all()
        changed += int(differs.sum())
    assert changed > 0, "the shield of this run never changed an action, so nothing was tested"


def test_an_action_that_was_never_executed_is_no_row(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", arguments={"fault": "nan"}, conditions=["baseline"])
    dataset = to_minari(folder, tmp_path / "datasets", frames="none")
    invalid = [s for o, s, _ in records(folder) if o["steps"] == 4]
    lengths = [len(episode.rewards) for episode in dataset.iterate_episodes()]
    assert len(invalid) == 1, "the policy gives NaN at step 3 of one episode"
    assert np.isnan(invalid[0]["executed_action"].values[3]).all()
    assert lengths[1] == 2, "three actions were executed, the third leads to an observation that is not kept"
    rows = table(to_lerobot(folder, tmp_path / "lerobot", frames="none"))
    assert (rows["episode_index"] == 1).sum() == 3
    assert np.isfinite(np.stack(rows["action"])).all()


# Selection


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 32),
        ({"models": ("noisy",)}, 16),
        ({"models": ("noisy",), "tasks": ("carry",)}, 8),
        ({"tasks": ("tabletop/reach",)}, 16),
        ({"tasks": ("reach the red disc", "carry")}, 32),
        ({"models": ("blind",), "conditions": ("perturb",)}, 8),
    ],
)
def test_episodes_are_selected(without_frames: Path, settings: dict[str, Any], expected: int) -> None:
    export = RunExport(without_frames, ExportSettings(frames="none", **settings))
    episodes = list(export.episodes())
    assert len(episodes) == len(export) == expected
    for episode in episodes:
        known = episode.metadata
        assert known["model"] in settings.get("models", [known["model"]])
        assert known["condition"] in settings.get("conditions", [known["condition"]])
        names = {known["task"], f"{known['suite']}/{known['task']}", known["instruction"]}
        assert names & set(settings.get("tasks", names))


def test_only_successes(whole: Path) -> None:
    every, successes = (
        list(RunExport(whole, ExportSettings(frames="none", success_only=only)).episodes())
        for only in (False, True)
    )
    assert [e.metadata for e in every if e.metadata["success"]] == [e.metadata for e in successes]
    assert 0 < len(successes) < len(every)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"models": ("nosy",)}, "Unknown model of the run 'nosy'. Did you mean 'noisy'?"),
        ({"tasks": ("carri",)}, "Unknown task of the run 'carri'."),
        ({"conditions": ("full",)}, "Unknown condition of the run 'full'. Known: baseline, perturb."),
        ({"action": "planned"}, "Unknown value of export.action 'planned'."),
        ({"frames": "seen"}, "Unknown value of export.frames 'seen'."),
        ({"rate": "seconds"}, "Unknown value of export.rate 'seconds'."),
    ],
)
def test_unknown_names_are_refused(without_frames: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        RunExport(without_frames, ExportSettings(**{"frames": "none", **settings}))


def test_a_selection_without_episodes_is_refused(without_frames: Path) -> None:
    settings = ExportSettings(models=("blind",), tasks=("carry",), success_only=True, frames="none")
    with pytest.raises(InvalidInputError, match="8 recorded episodes of which none succeeded"):
        RunExport(without_frames, settings)


# What a run holds


def test_a_run_without_frames_gives_none(without_frames: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"the run kept none \(frames: none\).*`frames: all`"):
        RunExport(without_frames, ExportSettings(models=("noisy",)))
    with pytest.raises(InvalidInputError, match="the environment drew no camera"):
        RunExport(without_frames, ExportSettings(models=("blind",)))


def test_frames_of_decisions_are_no_frames_of_every_step(looked: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"only at decisions \(frames: looked\); export at the decision rate"
    ):
        RunExport(looked, ExportSettings())


def test_depth_that_was_not_drawn_is_refused(tmp_path: Path) -> None:
    shape = {"arguments": {"depth": False}, "conditions": ["baseline"], "seed_groups": 1, "step_budget": 3}
    folder = run(tmp_path / "run", frames="all", **shape)
    with pytest.raises(InvalidInputError, match="the environment drew none; leave depth out"):
        RunExport(folder, ExportSettings(depth=True))
    with pytest.raises(InvalidInputError, match="got frames 'none'; leave depth out"):
        ExportSettings(depth=True, frames="none")
    (path,) = folder.glob("frames/0000-baseline-0-1.npz")
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(InvalidInputError, match="reading them failed"):
        RunExport(folder, ExportSettings())


def test_episodes_that_differ_in_what_they_hold_are_refused(tmp_path: Path) -> None:
    models = [
        {"name": "sees", "policy": SCRIPTED},
        {"name": "blind", "policy": "random"},
    ]
    cameras = {"environment": {"cameras": ["agentview"]}}
    folder = run(
        tmp_path / "run",
        models,
        frames="all",
        conditions=["baseline"],
        step_budget=3,
        seed_groups=1,
        **cameras,
    )
    with pytest.raises(InvalidInputError, match="differ from those before; select one model or suite"):
        RunExport(folder, ExportSettings())
    assert len(RunExport(folder, ExportSettings(models=("sees",)))) == 2


def test_actions_of_two_modes_are_refused(without_frames: Path, tmp_path: Path) -> None:
    """Tabletop has one mode, so the records are told that the second model's was another."""
    shutil.copytree(without_frames, tmp_path / "run")
    data = load_dataset(without_frames / "episodes.nc")
    data["action_mode"].values[data["model"].values == "blind"] = "absolute"
    save_dataset(data, tmp_path / "run" / "episodes.nc")
    with pytest.raises(InvalidInputError, match="differ from those before; select one model"):
        RunExport(tmp_path / "run", ExportSettings(frames="none"))
    dataset = to_minari(tmp_path / "run", tmp_path / "datasets", frames="none", models=("blind",))
    assert np.isinf(dataset.action_space.high).all()


def test_imported_outcomes_are_refused(whole: Path, tmp_path: Path) -> None:
    tables = [str(whole / name) for name in ("episodes.csv", "rows.csv", "manifest.csv")]
    assert main(["import", *tables, "--out", str(tmp_path / "imported")]) == 0
    with pytest.raises(InvalidInputError, match="holds imported outcomes, which have no steps"):
        RunExport(tmp_path / "imported")


def test_missing_steps_are_refused(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    (tmp_path / "run" / "steps" / "0000-perturb.nc").unlink()
    with pytest.raises(InvalidInputError, match=r"0000-perturb\.nc"):
        RunExport(tmp_path / "run")


# The decision rate


def test_a_decision_holds_its_chunk_and_the_reward_until_the_next(looked: Path, tmp_path: Path) -> None:
    dataset = to_minari(looked, tmp_path, rate="decisions")
    assert dataset.action_space.shape == (4, 7)
    shorter = 0
    for episode, (outcome, steps, stored) in zip(dataset.iterate_episodes(), records(looked), strict=True):
        n = steps.sizes["step"]
        starts = np.arange(0, n, 4)
        rows = len(starts) if outcome["success"] == 1 else len(starts) - 1
        ends = np.append(starts, n)[1 : rows + 1]
        np.testing.assert_array_equal(episode.infos["step"], [*starts[:rows], ends[-1]])
        for row, (start, end) in enumerate(zip(starts, ends, strict=False)):
            chunk = steps["executed_action"].values[start:end]
            np.testing.assert_array_equal(episode.actions[row][: end - start], chunk)
            assert (episode.actions[row][end - start :] == chunk[-1]).all()
            assert episode.rewards[row] == steps["reward"].values[start:end].sum()
            shorter += end - start < 4
        for key in ("proprio", "agentview_image"):
            held = steps[key].values[starts] if key == "proprio" else stored[f"given_{key}"]
            np.testing.assert_array_equal(episode.observations[key][: len(starts)], held)
        assert episode.rewards.sum() == float(outcome["success"])
    assert shorter > 0, "no episode ended within a chunk, so the shorter chunk was not tested"


def test_lerobot_at_the_decision_rate(looked: Path, tmp_path: Path) -> None:
    folder = to_lerobot(looked, tmp_path / "data", rate="decisions")
    info = json.loads((folder / "meta/info.json").read_text())
    rows = table(folder)
    assert info["fps"] == 5
    assert info["features"]["action"]["shape"] == [28]
    assert info["features"]["action"]["names"][:8:7] == ["x_0", "x_1"]
    assert rows["step_count"].max() == 4
    sizes = [steps.sizes["step"] for _, steps, _ in records(looked)]
    assert rows.groupby("episode_index")["step_count"].sum().tolist() == sizes
    first = next(steps for _, steps, _ in records(looked))["executed_action"].values
    np.testing.assert_array_equal(rows["action"].iloc[1].reshape(4, 7), first[4:8])
    images = pictures(rows["observation.images.agentview"])
    np.testing.assert_array_equal(
        images, np.concatenate([f["given_agentview_image"] for *_, f in records(looked)])
    )


def test_state_alone_of_a_run_with_frames_at_decisions(looked: Path, tmp_path: Path) -> None:
    dataset = to_minari(looked, tmp_path, frames="none")
    assert list(dataset.observation_space.spaces) == ["proprio"]
    assert dataset[0].actions.shape[1:] == (7,)


# LeRobot


def test_lerobot_gives_the_records_back(whole: Path, tmp_path: Path) -> None:
    folder = to_lerobot(whole, tmp_path / "data")
    rows, expected = table(folder), list(records(whole))
    steps = xr.concat(
        [s for _, s, _ in expected], "step", data_vars="minimal", coords="minimal", compat="override"
    )
    sizes = [s.sizes["step"] for _, s, _ in expected]
    np.testing.assert_array_equal(np.stack(rows["observation.state"]), steps["proprio"].values)
    np.testing.assert_array_equal(np.stack(rows["action"]), steps["executed_action"].values)
    np.testing.assert_array_equal(rows["next.reward"], steps["reward"].values)
    np.testing.assert_array_equal(
        pictures(rows["observation.images.agentview"]),
        np.concatenate([f["given_agentview_image"][:n] for n, (*_, f) in zip(sizes, expected, strict=True)]),
    )
    np.testing.assert_array_equal(rows["index"], np.arange(len(rows)))
    np.testing.assert_array_equal(rows["episode_index"], np.repeat(np.arange(len(sizes)), sizes))
    frame = np.concatenate([np.arange(n) for n in sizes])
    np.testing.assert_array_equal(rows["frame_index"], frame)
    np.testing.assert_allclose(rows["timestamp"], frame / 20, atol=1e-6)
    np.testing.assert_array_equal(rows["next.done"], frame == np.repeat(sizes, sizes) - 1)
    assert rows["next.success"].sum() == sum(int(o["success"]) for o, *_ in expected)
    assert (rows["next.done"] | ~rows["next.success"]).all()
    lines = episode_lines(folder)
    assert lines["roep/condition"].tolist() == [o.attrs["condition"] for o, *_ in expected]
    assert lines["roep/env_seed"].tolist() == [int(o["env_seed"]) for o, *_ in expected]


def test_lerobot_describes_its_files_as_the_format_says(without_frames: Path, tmp_path: Path) -> None:
    folder = to_lerobot(without_frames, tmp_path / "data", frames="none")
    info = json.loads((folder / "meta/info.json").read_text())
    rows, lines = table(folder), episode_lines(folder)
    assert {name: info[name] for name in ("codebase_version", "robot_type", "fps", "video_path", "splits")} == {
        "codebase_version": "v3.0", "robot_type": None, "fps": 20, "video_path": None, "splits": {"train": "0:32"},
    }  # fmt: skip
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (32, len(rows), 2)
    assert list(info["features"]) == list(rows.columns)
    types = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}
    schema = pq.read_schema(folder / "data/chunk-000/file-000.parquet")
    for name, feature in info["features"].items():
        scalar = feature["shape"] == [1]
        kind = types[feature["dtype"]]
        assert schema.field(name).type == (kind if scalar else pa.list_(kind, feature["shape"][0])), name
        assert scalar or len(feature["names"]) == feature["shape"][0]
    tasks = pd.read_parquet(folder / "meta/tasks.parquet")
    assert tasks["task_index"].to_dict() == {
        "carry the red disc to the green square": 0, "reach the red disc": 1,
    }  # fmt: skip
    assert lines["episode_index"].tolist() == list(range(32))
    for _, line in lines.iterrows():
        path = info["data_path"].format(
            chunk_index=line["data/chunk_index"], file_index=line["data/file_index"]
        )
        inside = pq.read_table(folder / path).to_pandas()
        own = inside[inside["episode_index"] == line["episode_index"]]
        assert own["index"].tolist() == list(range(line["dataset_from_index"], line["dataset_to_index"]))
        assert len(own) == line["length"]
        assert set(own["task_index"]) == {tasks.loc[line["tasks"][0], "task_index"]}
        assert line["tasks"].tolist() == [line["roep/instruction"]]


def test_lerobot_statistics_are_those_of_the_rows(whole: Path, tmp_path: Path) -> None:
    folder = to_lerobot(whole, tmp_path / "data", conditions=("baseline", "perturb"))
    rows, lines = table(folder), episode_lines(folder)
    stored = json.loads((folder / "meta/stats.json").read_text())
    assert set(stored) == set(rows.columns)
    actions = np.stack(rows["action"]).astype(float)
    images = pictures(rows["observation.images.agentview"]) / 255
    for name, function in (("mean", np.mean), ("std", np.std), ("min", np.min), ("max", np.max)):
        np.testing.assert_allclose(stored["action"][name], function(actions, axis=0), atol=1e-12)
        image = np.array(stored["observation.images.agentview"][name])
        assert image.shape == (3, 1, 1)
        np.testing.assert_allclose(image.ravel(), function(images, axis=(0, 1, 2)), atol=1e-9)
    assert stored["action"]["count"] == [len(rows)]
    own = actions[rows["episode_index"] == 3]
    np.testing.assert_allclose(lines["stats/action/q10"][3], np.quantile(own, 0.1, axis=0))
    assert lines["stats/action/count"][3].tolist() == [len(own)]


def test_data_files_are_split_between_episodes(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undivided = to_lerobot(whole, tmp_path / "undivided", frames="none")
    monkeypatch.setattr(lerobot_dataset, "_FILE_MEGABYTES", 0)
    monkeypatch.setattr(lerobot_dataset, "_FILES_PER_CHUNK", 4)
    divided = to_lerobot(whole, tmp_path / "divided", frames="none")
    lines = episode_lines(divided)
    numbers = 4 * lines["data/chunk_index"] + lines["data/file_index"]
    assert numbers.tolist() == list(range(30))
    assert len(list(divided.glob("data/*/*.parquet"))) == 30
    for number, line in lines.iterrows():
        place = "data/chunk-{data/chunk_index:03d}/file-{data/file_index:03d}.parquet".format(**line)
        assert set(pq.read_table(divided / place)["episode_index"].to_pylist()) == {number}
    pd.testing.assert_frame_equal(table(divided), table(undivided))


def test_depth_is_refused_for_lerobot(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match="holds no depth arrays, got depth; leave it out or export to Minari"
    ):
        to_lerobot(whole, tmp_path / "data", depth=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    "LEROBOT_PYTHON" not in os.environ, reason="LEROBOT_PYTHON names no interpreter with lerobot"
)
@pytest.mark.parametrize("rate", ["steps", "decisions"])
def test_lerobots_own_loader_reads_it(looked: Path, whole: Path, tmp_path: Path, rate: str) -> None:
    source = whole if rate == "steps" else looked
    folder = to_lerobot(source, tmp_path / "data", rate=rate)
    done = subprocess.run(
        [os.environ["LEROBOT_PYTHON"], str(READER), str(folder)],
        env={
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "cache"),
            "CUDA_VISIBLE_DEVICES": "",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen, rows = json.loads(done.stdout.splitlines()[-1]), table(folder)
    assert (seen["rows"], seen["episodes"]) == (len(rows), rows["episode_index"].nunique())
    np.testing.assert_array_equal(np.array(seen["state"], np.float32), np.stack(rows["observation.state"]))
    np.testing.assert_array_equal(np.array(seen["action"], np.float32), np.stack(rows["action"]))
    images = pictures(rows["observation.images.agentview"])
    assert seen["image_sums"] == images.sum(axis=(1, 2)).tolist()
    assert seen["task"] == episode_lines(folder)["roep/instruction"].iloc[-1]
    assert seen["policy_features"] == {
        "observation.state": [9], "observation.images.agentview": [3, 32, 32], "action": [7 if rate == "steps" else 28],
    }  # fmt: skip


# Statistics


def test_statistics_of_vectors_by_hand() -> None:
    got = vector_statistics(
        np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]], np.float32)
    )
    assert got["mean"].tolist() == [2.0, 5.0]
    assert got["std"].tolist() == [np.sqrt(2.0), 0.0]
    assert got["q10"].tolist() == pytest.approx([0.4, 5.0])
    assert got["q50"].tolist() == [2.0, 5.0]
    assert (got["min"][0], got["max"][0], got["count"].tolist()) == (0.0, 4.0, [5])


def test_statistics_of_images_by_hand() -> None:
    """99 pixels of level 0 and one of 255 in the first channel, all 51 (a fifth) in the others."""
    image = np.full((1, 10, 10, 3), 51, np.uint8)
    image[..., 0] = 0
    image[0, 0, 0, 0] = 255
    got = image_statistics(image_counts(image) + image_counts(image), rows=2)
    assert got["mean"].ravel().tolist() == pytest.approx([0.01, 0.2, 0.2])
    assert got["std"].ravel().tolist() == pytest.approx([np.sqrt(0.01 * 0.99), 0.0, 0.0])
    assert got["max"].ravel().tolist() == pytest.approx([1.0, 0.2, 0.2])
    assert got["min"].ravel().tolist() == pytest.approx([0.0, 0.2, 0.2])
    assert got["q99"].ravel().tolist() == pytest.approx([0.0, 0.2, 0.2])
    assert got["count"].tolist() == [2]


# Around it


@pytest.mark.parametrize("write", [write_minari, write_lerobot])
def test_what_is_there_is_never_overwritten(without_frames: Path, tmp_path: Path, write: Any) -> None:
    export = RunExport(without_frames, ExportSettings(frames="none"))
    write(export, tmp_path / "data")
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match="holds something; choose another"):
        write(export, tmp_path / "data")
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("write", [write_minari, write_lerobot])
def test_an_export_that_fails_leaves_nothing(
    whole: Path, tmp_path: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    export, episodes = RunExport(whole), RunExport.episodes

    def broken(self: RunExport) -> Iterator[Any]:
        yield next(episodes(self))
        raise KeyboardInterrupt

    monkeypatch.setattr(RunExport, "episodes", broken)
    with pytest.raises(KeyboardInterrupt):
        write(export, tmp_path / "data")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("write", "package"), [(write_minari, "minari"), (write_lerobot, "lerobot")])
def test_a_missing_package_is_named_with_its_command(
    without_frames: Path, tmp_path: Path, write: Any, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DependencyNotInstalledError, match=re.escape(f'pip install "roep-gym[{package}]"')):
        write(RunExport(without_frames, ExportSettings(frames="none")), tmp_path / "data")


@pytest.mark.parametrize("name", ["with space-v0", "/x-v0", "a-v0/b", "../x"])
def test_a_malformed_dataset_id_is_refused(without_frames: Path, tmp_path: Path, name: str) -> None:
    export = RunExport(without_frames, ExportSettings(frames="none"))
    with pytest.raises(InvalidInputError, match=re.escape(f"got {name!r}")):
        write_minari(export, tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_may_lie_in_a_namespace_and_beside_others(without_frames: Path, tmp_path: Path) -> None:
    export = RunExport(without_frames, ExportSettings(frames="none"))
    for name in ("tabletop/noisy-v0", "tabletop/noisy-v1"):
        assert write_minari(export, tmp_path, name).dataset_id == name
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        assert list(minari.list_local_datasets()) == ["tabletop/noisy-v0", "tabletop/noisy-v1"]
        assert minari.load_dataset("tabletop/noisy-v1").total_episodes == 32


def test_the_control_rate_is_that_of_the_environments() -> None:
    assert LiberoEnv.metadata["render_fps"] == TabletopEnv.metadata["render_fps"] == CONTROL_RATE


def test_the_command(looked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["export", str(looked), "--condition", "perturb", "--success-only"]
    assert main([*common, "--to", "lerobot", "--out", str(tmp_path / "a"), "--rate", "decisions"]) == 0
    assert "episodes with" in (out := capsys.readouterr().out)
    assert f"root='{tmp_path / 'a'}'" in out
    assert set(episode_lines(tmp_path / "a")["roep/condition"]) == {"perturb"}
    command = [*common, "--to", "minari", "--out", str(tmp_path / "b"), "--frames", "none", "--name", "x-v3"]
    assert main([*command, "--action", "proposed"]) == 0
    assert "minari.load_dataset('x-v3')" in capsys.readouterr().out
    assert main([*common, "--to", "lerobot", "--out", str(tmp_path / "c")]) == 2
    assert "export at the decision rate (rate decisions)" in (said := capsys.readouterr().err)
    assert said.count("\n") == 1
    assert main([*common, "--to", "lerobot", "--out", str(tmp_path / "c"), "--name", "x-v0"]) == 2
    assert "a LeRobot dataset is named by its folder" in capsys.readouterr().err


def test_reading_a_run_for_export_loads_no_format_and_no_simulator(without_frames: Path) -> None:
    code = f"""
import sys
from pathlib import Path
from roep_gym.cli import export
from roep_gym.evaluate.export.run_export import RunExport, ExportSettings
RunExport(Path({str(without_frames)!r}), ExportSettings(frames="none"))
print([n for n in ("minari", "libero", "robosuite", "torch") if n in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
