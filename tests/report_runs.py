"""Runs for the tests of reporting: a Tabletop run with steps and frames, and runs around hand-made Datasets."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from evaluation_runs import SHIELD, make_plan

from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.report.records import Run, open_run
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor

SWEEP = (
    "baseline",
    "baseline_clone",
    "perturb",
    "perturb_clone",
    "mild",
    "mild_clone",
    "strong",
    "strong_clone",
)
REPLAY = Path(__file__).parent / "data" / "replay"
PAPER = Path(__file__).parents[1] / "evaluate" / "comparison" / "reference"
FORBIDDEN_WORDS = ("deploy", "certif", "recommend", "is safe", "recovery success")


def tabletop_run(factory: pytest.TempPathFactory) -> Path:
    """Run two policies under every condition with frames kept, once a session: one is exact, one often times out."""
    folder = factory.getbasetemp() / "tabletop-run"
    if folder.exists():
        return folder
    policy = "evaluation_policies:Scripted"
    models = [
        {"name": "exact", "policy": policy},
        {"name": "noisy", "policy": policy, "arguments": {"failure_rate": 0.6}},
    ]
    # So that the shield also acts in an episode that succeeds, which Figure A2 shows.
    plan = make_plan(models=models, conditions=["all"], frames="looked", shield=SHIELD | {"alpha": 0.2})
    evaluate(plan, folder, InProcessExecutor)
    return folder


@pytest.fixture(scope="module")
def replay() -> Run:
    return open_run(REPLAY)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(tabletop_run(tmp_path_factory))


def run_of(data: xr.Dataset, folder: Path = Path("nowhere")) -> Run:
    """Return a run whose folder holds no step or frame files."""
    return Run(folder, data, judge(data))
