"""Ray's workers: the records of local workers, lost ones retried, an interrupted run continued."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import evaluation_runs
import pytest
from evaluation_runs import equal, start

from roep_gym.cli.main import dispatch
from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan
from roep_gym.evaluate.run.driver import SilentObserver, evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.ray_executor import RayExecutor, RaySettings
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset

ray = pytest.importorskip("ray", reason="the extra [ray] is not installed")


def make_plan(**changes: Any) -> ResolvedPlan:
    return evaluation_runs.make_plan(**{"conditions": ["baseline"], "seed_groups": 2, **changes})


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One Ray for all tests, since its start takes seconds; the executors connect to it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, object_store_memory=2**28, log_to_driver=False
    )
    yield
    ray.shutdown()


def test_rays_records_are_those_of_one_process_and_a_killed_worker_costs_one_attempt(
    cluster: None, tmp_path: Path
) -> None:
    plan = make_plan(arguments={"fault": "die once", "marker": str(tmp_path / "marker")})
    summary = evaluate(plan, tmp_path / "ray", lambda p: RayExecutor(p, 2))
    assert (summary.recorded, summary.incomplete, len(summary.aborts)) == (4, (), 1)
    assert summary.aborts[0].cause.startswith(
        "Expected the Ray worker to finish the episode, but it was lost"
    )
    evaluate(plan, tmp_path / "alone", InProcessExecutor)
    equal(tmp_path / "ray", tmp_path / "alone")


@pytest.mark.slow
def test_a_whole_protocol_with_shields_interrupted_and_continued_elsewhere(
    cluster: None, tmp_path: Path
) -> None:
    plan = make_plan(conditions=["main"], seed_groups=3)

    class Interrupt(SilentObserver):
        done = 0

        def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
            self.done += 1
            if self.done == 5:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        evaluate(plan, tmp_path / "ray", lambda p: RayExecutor(p, 2), Interrupt())
    assert 5 <= int((load_dataset(RunDirectory(tmp_path / "ray").dataset)["success"] >= 0).sum()) < 48
    summary = evaluate(plan, tmp_path / "ray", lambda p: RayExecutor(p, 2))
    assert (summary.recorded, summary.incomplete, summary.aborts) == (48, (), ())
    evaluate(plan, tmp_path / "alone", InProcessExecutor)
    equal(tmp_path / "ray", tmp_path / "alone")


@pytest.mark.slow
def test_sigterm_ends_the_command_as_ctrl_c_does(tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ["--policy", "evaluation_policies:Scripted", "--task", "tabletop/carry", "--quick"]
    command = [sys.executable, "-m", "roep_gym", "evaluate", *flags, "--executor", "ray", "--workers", "2"]
    process = start(
        [*command, "--argument", "fault=slow", "--seed-groups", "1", "--episodes", "50", "--out", str(out)],
        out,
        1,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    process.terminate()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert output.rstrip().endswith("roep-gym: interrupted")
    assert "Traceback" not in output
    assert (load_dataset(RunDirectory(out).dataset)["success"].values >= 0).any()


@pytest.mark.slow
def test_a_worker_that_hangs_ends_itself_and_the_episode_is_tried_again(
    cluster: None, tmp_path: Path
) -> None:
    plan = make_plan(arguments={"fault": "hang once", "marker": str(tmp_path / "marker")})
    summary = evaluate(plan, tmp_path / "ray", lambda p: RayExecutor(p, 1, stall_timeout=5.0))
    assert (summary.recorded, len(summary.aborts)) == (4, 1)
    assert "no control step within 5 s" in summary.aborts[0].cause


@pytest.mark.slow
def test_what_a_policy_raises_is_told_as_anywhere(cluster: None, tmp_path: Path) -> None:
    plan = make_plan(arguments={"fault": "raise once", "marker": str(tmp_path / "marker")})
    summary = evaluate(plan, tmp_path / "ray", lambda p: RayExecutor(p, 2))
    assert [abort.cause for abort in summary.aborts] == ["RuntimeError: the network fell over once."]


@pytest.mark.slow
def test_a_cluster_of_its_own_is_started_and_ended(tmp_path: Path) -> None:
    ray.shutdown()
    summary = evaluate(make_plan(seed_groups=1), tmp_path / "ray", lambda p: RayExecutor(p, 2))
    assert summary.recorded == 2
    assert not ray.is_initialized()


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise ConnectionError("nobody answers")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    message = "Expected a Ray cluster at 10.0.0.1:6379, got: nobody answers; start one with `ray start`"
    with pytest.raises(InfrastructureError, match=re.escape(message)):
        RayExecutor(make_plan(), 2, RaySettings("10.0.0.1:6379"))


@pytest.mark.parametrize("numbers", [{"cpus": -1.0}, {"gpus": float("nan")}])
def test_impossible_needs_are_refused(numbers: dict[str, float]) -> None:
    message = r"Expected the [cg]pus of a worker to be a finite number >= 0, got (-1\.0|nan)\."
    with pytest.raises(InvalidInputError, match=message):
        RaySettings(**numbers)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--executor", "ray"], "Expected --workers with --executor ray, since a cluster may grow"),
        (["--executor", "rya"], "Unknown executor 'rya'. Did you mean 'ray'?"),
        (
            ["--ray-address", "auto"],
            "Expected --ray-address, --worker-cpus and --worker-gpus only with --executor ray",
        ),
        (
            ["--worker-gpus", "0.5"],
            "Expected --ray-address, --worker-cpus and --worker-gpus only with --executor ray",
        ),
        (
            ["--executor", "ray", "--workers", "2", "--inference", "shared"],
            "Expected --inference per-worker with --executor ray",
        ),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        dispatch(["evaluate", "--policy", "random", "--task", "tabletop/carry", "--quick", *flags])


def test_the_command_runs_on_ray(cluster: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--seed-groups", "1", "--episodes", "2", "--step-budget", "20", "--out", str(tmp_path / "run")]
    handler = signal.getsignal(signal.SIGTERM)
    try:
        status = dispatch(
            [
                "evaluate",
                "--policy",
                "random",
                "--task",
                "tabletop/carry",
                "--quick",
                "--executor",
                "ray",
                "--workers",
                "2",
                *flags,
            ]
        )
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert status == 0
    assert "2 episodes recorded" in capsys.readouterr().out
