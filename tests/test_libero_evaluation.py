"""Whole evaluations on real LIBERO: the wire, the frames, kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openpi_servers
import pytest
import xarray as xr

from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import SilentObserver, evaluate
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.schema import EPISODE_VARIABLES
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset
from roep_gym.policies.expert import ExpertPolicy
from roep_gym.policies.openpi.server import client_arguments
from roep_gym.wrappers.profiles import PROFILES

pytestmark = [pytest.mark.libero, pytest.mark.slow]

VARYING = {name for name, spec in EPISODE_VARIABLES.items() if spec.timing} | {"aborts"}


def make_plan(policy: str, arguments: dict[str, Any], **changes: Any) -> ResolvedPlan:
    source = {
        "name": "libero test",
        "models": [{"name": "expert", "policy": policy, "arguments": arguments}],
        "tasks": ["goal_stove"],
        "conditions": ["perturb"],
        "seed_groups": 2,
        "episodes": 1,
        "environment": {"cameras": ["agentview"], "image_size": 64, "depth": True},
        "frames": "looked",
        **changes,
    }
    return resolve(plan_from_mapping(source))


def run(plan: ResolvedPlan, out: Path, workers: int = 1) -> xr.Dataset:
    summary = evaluate(plan, out, lambda p: LocalExecutor(p, workers))
    assert summary.incomplete == ()
    return load_dataset(RunDirectory(out).dataset)


@pytest.fixture(scope="module")
def in_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("in_process") / "run"
    run(make_plan("expert", {"chunk": 8}), out)
    return out


@pytest.fixture
def served_expert() -> Iterator[int]:
    with openpi_servers.serving(
        "-m", "roep_gym", "serve", "expert", "--argument", "chunk=8", "--port"
    ) as port:
        yield port


def test_the_served_expert_gives_the_outcomes_of_the_one_in_process(
    in_process: Path, served_expert: int, tmp_path: Path
) -> None:
    arguments = dict(client_arguments(ExpertPolicy(chunk=8), "127.0.0.1", served_expert))
    wired = run(make_plan("openpi", arguments), tmp_path / "run")
    direct = load_dataset(RunDirectory(in_process).dataset)
    assert direct["success"].values.tolist() == [1, 1]
    for name in EPISODE_VARIABLES:
        if name not in VARYING:
            np.testing.assert_array_equal(wired[name].values, direct[name].values, err_msg=name)
    steps = [
        load_dataset(RunDirectory(out).steps / "0000-perturb.nc") for out in (in_process, tmp_path / "run")
    ]
    np.testing.assert_array_equal(steps[0]["executed_action"].values, steps[1]["executed_action"].values)
    assert wired["contract_status"].values.tolist() == ["match"]


def test_a_given_frame_is_rebuilt_from_the_clean_one_and_the_metadata(in_process: Path) -> None:
    plan = make_plan("expert", {"chunk": 8})
    folder = RunDirectory(in_process)
    data, steps = load_dataset(folder.dataset), load_dataset(folder.steps / "0000-perturb.nc")
    offsets = np.concatenate([[0], np.cumsum(steps["row_size"].values)])
    profile = PROFILES["medium"]
    for index, planned in enumerate(plan.episodes()):
        identity = plan.identity(planned)
        path = folder.frames / f"0000-perturb-{planned.seed_group}-{planned.episode}.npz"
        with np.load(path) as stored:
            frames = dict(stored)
        assert len(frames["step"]) == data["decisions"].values[index]
        changed = 0
        for k, step in enumerate(frames["step"].tolist()):
            for modality in ("image", "depth"):
                key = f"agentview_{modality}"
                given, clean = frames[f"given_{key}"][k], frames[f"clean_{key}"][k]
                rebuilt, _ = profile.perturb(clean, modality, identity.key, step, key)
                np.testing.assert_array_equal(given, rebuilt)
                changed += bool((given != clean).any())
            row, column, side = steps["patch"].values[offsets[index] + step, 0]
            assert side == round(0.30 * 64)
            differs = (frames["given_agentview_image"][k] != frames["clean_agentview_image"][k]).any(axis=-1)
            inside = np.zeros_like(differs)
            inside[row : row + side, column : column + side] = True
            assert not differs[~inside].any()
            assert differs[inside].mean() > 0.9, "hardly a pixel of a LIBERO scene is black"
        assert changed == data["frames_perturbed"].values[index] == data["frames_given"].values[index]


def test_a_killed_worker_changes_nothing(in_process: Path, tmp_path: Path) -> None:
    executors: list[LocalExecutor] = []

    class KillOnce(SilentObserver):
        done = False

        def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
            if not self.done:
                self.done = True
                os.kill(executors[0].process_ids[-1], signal.SIGKILL)

    def make(plan: ResolvedPlan) -> LocalExecutor:
        executors.append(LocalExecutor(plan, 1))
        return executors[0]

    summary = evaluate(make_plan("expert", {"chunk": 8}), tmp_path / "run", make, KillOnce())
    assert summary.recorded == 2
    expected = load_dataset(RunDirectory(in_process).dataset).drop_vars(VARYING)
    xr.testing.assert_identical(
        load_dataset(RunDirectory(tmp_path / "run").dataset).drop_vars(VARYING), expected
    )
