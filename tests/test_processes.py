"""Processes that a policy forks, and processes whose driver is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from evaluation_runs import command_of, make_plan

from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.inference_server import InferenceSettings
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.run.work import WorkResult
from roep_gym.evaluate.store.journal import Journal
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset

TESTS = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
EXECUTORS = {
    "in process": "InProcessExecutor",
    "workers": "lambda plan: LocalExecutor(plan, 2)",
    "shared inference": "lambda plan: LocalExecutor(plan, 2, inference=InferenceSettings())",
}
SCRIPT = """
import sys
from pathlib import Path
from roep_gym.evaluate.plan import plan_from_mapping
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.inference_server import InferenceSettings
from roep_gym.evaluate.run.local_executor import LocalExecutor
import json

if __name__ == "__main__":
    plan = plan_from_mapping(json.loads(Path(sys.argv[1]).read_text()))
    summary = evaluate(plan, sys.argv[2], {executor})
    print(summary.recorded, len(summary.incomplete), len(summary.aborts))
"""


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("fault", ["fork", "fork and exit"])
def test_a_policy_that_forks_neither_loses_nor_doubles_an_episode(
    tmp_path: Path, executor: str, fault: str
) -> None:
    plan = make_plan(arguments={"fault": fault}, conditions=["baseline"])
    (tmp_path / "plan.json").write_text(plan.plan.to_json())
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{executor}", EXECUTORS[executor]))
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "plan.json"), str(tmp_path / "run")],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=120)
        assert (process.returncode, output) == (0, "6 0 0\n"), errors
        assert "Expected a process that a policy forks to end in the policy" in errors
        assert _is_gone(process.pid), "nobody of the process group is left"
    finally:
        _kill(process.pid)
    assert load_dataset(RunDirectory(tmp_path / "run").dataset)["success"].values.tolist() == [1] * 6


def test_a_worker_that_dies_is_noticed_though_a_process_that_it_forked_lives(tmp_path: Path) -> None:
    arguments = {"fault": "fork and die", "marker": str(tmp_path / "marker")}
    plan = make_plan(arguments=arguments, conditions=["baseline"])
    summary = evaluate(plan, tmp_path / "run", lambda p: LocalExecutor(p, 1, stall_timeout=60.0))
    assert [abort.cause for abort in summary.aborts] == [
        "Expected the worker process to finish the episode, but it died (signal SIGKILL)."
    ]
    assert summary.recorded == 6


@pytest.mark.parametrize("fault", ["hang once", "hang locked"])
@pytest.mark.parametrize("inference", ["per-worker", "shared"])
def test_no_process_outlives_its_driver_even_while_a_policy_hangs(
    tmp_path: Path, fault: str, inference: str
) -> None:
    marker = tmp_path / "marker"
    plan = make_plan(arguments={"fault": fault, "marker": str(marker)}, conditions=["baseline"])
    process = subprocess.Popen(
        command_of(plan, tmp_path, "--workers", "2", "--inference", inference),
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 90
        while not marker.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert marker.exists()
        time.sleep(0.2)  # until it hangs
        process.kill()
        process.wait()
        assert _is_gone(process.pid), "nobody of the process group is left"
    finally:
        _kill(process.pid)


@pytest.mark.parametrize("inference", [False, True], ids=["worker", "shared inference"])
def test_an_enormous_error_of_a_policy_is_cut_where_it_travels_and_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inference: bool
) -> None:
    monkeypatch.setenv("PYTHONPATH", ENVIRONMENT["PYTHONPATH"])
    sizes = []

    class Sized(LocalExecutor):
        def wait(self, timeout: float) -> list[WorkResult]:
            results = super().wait(timeout)
            sizes.extend(len(result.cause) + len(result.detail) for result in results if result.cause)
            return results

    plan = make_plan(arguments={"fault": "raise much"}, conditions=["baseline"], seed_groups=1)
    settings = InferenceSettings() if inference else None
    evaluate(plan, tmp_path / "run", lambda p: Sized(p, 1, inference=settings))
    assert len(sizes) == 3
    assert max(sizes) < 10_000
    run = RunDirectory(tmp_path / "run")
    with closing(Journal(run.journal, plan.digest)) as journal:
        assert all(len(abort.cause) + len(abort.detail) < 10_000 for abort in journal.aborts())


def _is_gone(group: int) -> bool:
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
