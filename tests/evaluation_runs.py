"""Whole evaluations in tests: a small plan, the command that runs it, and whether two runs are the same."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from roep_gym.evaluate.plan import ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.schema import EPISODE_VARIABLES
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset

# Held-still episodes differ from solved ones in every step, so a few of them suffice to learn from.
SHIELD = {"prefix_support": "none", "tail_horizon": 20, "learning_rate": 0.01, "max_epochs": 20}
VARYING = {name for name, spec in EPISODE_VARIABLES.items() if spec.timing} | {"aborts"}


@pytest.fixture(autouse=True)
def importable_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of a file that imports this find the policies of the tests."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def make_plan(**changes: Any) -> ResolvedPlan:
    arguments = changes.pop("arguments", {"failure_rate": 0.5})
    source = {
        "name": "test",
        "models": [{"name": "noisy", "policy": "evaluation_policies:Scripted", "arguments": arguments}],
        "tasks": ["tabletop/carry"],
        "conditions": ["main"],
        "seed_groups": 3,
        "episodes": 2,
        "step_budget": 60,
        "shield": SHIELD,
        **changes,
    }
    return resolve(plan_from_mapping(source))


def without_varying(data: xr.Dataset) -> xr.Dataset:
    return data.drop_vars(VARYING)


def equal(first: Path, second: Path) -> None:
    xr.testing.assert_identical(
        without_varying(load_dataset(RunDirectory(first).dataset)),
        without_varying(load_dataset(RunDirectory(second).dataset)),
    )
    names = sorted(path.name for path in RunDirectory(first).steps.iterdir())
    assert names == sorted(path.name for path in RunDirectory(second).steps.iterdir())
    for name in names:
        xr.testing.assert_identical(
            load_dataset(RunDirectory(first).steps / name), load_dataset(RunDirectory(second).steps / name)
        )


def command_of(plan: ResolvedPlan, folder: Path, *options: str) -> list[str]:
    """Return the command that evaluates a plan into the folder `run`."""
    plan_file = folder / "plan.json"
    plan_file.write_text(plan.plan.to_json())
    arguments = [sys.executable, "-m", "roep_gym", "evaluate", str(plan_file), "--out", str(folder / "run")]
    return [*arguments, *options]


def start(command: list[str], out: Path, episodes: int, **options: Any) -> subprocess.Popen[str]:
    """Start a command and return it when so many episodes are recorded, or when it has ended before."""
    process = subprocess.Popen(command, **options)
    while recorded(out) < episodes and process.poll() is None:
        time.sleep(0.02)
    return process


def recorded(out: Path) -> int:
    """Return how many episodes the journal of a run holds."""
    try:
        with closing(sqlite3.connect(f"file:{RunDirectory(out).journal}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM episodes").fetchone()[0])
    except sqlite3.OperationalError:  # not made yet
        return 0
