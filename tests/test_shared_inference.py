"""Evaluations with one inference process for all workers: the same records, and what happens when it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from batched_policies import Torch, logged_batches
from evaluation_runs import command_of, equal, importable_policies, make_plan, start  # noqa: F401

from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan
from roep_gym.evaluate.run.driver import RunSummary, SilentObserver, evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.inference_server import InferenceProcess, InferenceSettings
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.run.shared_policy import SharedPolicy
from roep_gym.evaluate.schema import REASONS
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset
from roep_gym.policies.base import Policy, PolicyEpisode
from roep_gym.policies.batching import BatchLimits
from roep_gym.policies.contract_suite import PolicyContractTests

TESTS = Path(__file__).parent


def plan_of(policy: str, arguments: dict[str, Any] | None = None, **changes: Any) -> ResolvedPlan:
    models = [{"name": "model", "policy": f"batched_policies:{policy}", "arguments": arguments or {}}]
    return make_plan(models=models, **{"conditions": ["baseline", "perturb"], **changes})


def run(
    plan: ResolvedPlan, out: Path, workers: int, observer: SilentObserver | None = None, **options: Any
) -> RunSummary:
    limits = BatchLimits(**{name: options.pop(name) for name in ("max_batch", "max_wait") if name in options})
    settings = InferenceSettings(limits)

    def make(plan: ResolvedPlan) -> LocalExecutor:
        executor = LocalExecutor(plan, workers, inference=settings, **options)
        if observer is not None:
            observer.executor = executor
        return executor

    return evaluate(plan, out, make, observer)


@pytest.fixture(scope="module")
def torch_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("torch") / "run"
    evaluate(plan_of("Torch"), out, InProcessExecutor)
    return out


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_records_are_those_of_policies_in_the_workers(
    torch_run: Path, tmp_path: Path, workers: int
) -> None:
    assert run(plan_of("Torch"), tmp_path / "run", workers, max_wait=0.05).aborts == ()
    equal(tmp_path / "run", torch_run)


@pytest.mark.slow
def test_a_run_with_shields_is_the_same_as_well(tmp_path: Path) -> None:
    evaluate(make_plan(seed_groups=2), tmp_path / "alone", InProcessExecutor)
    run(make_plan(seed_groups=2), tmp_path / "shared", 3)
    equal(tmp_path / "shared", tmp_path / "alone")


def test_decisions_of_several_workers_are_asked_at_once_in_one_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    plan = plan_of("Logged", {"log": str(log), "seconds": 0.01})
    run(plan, tmp_path / "run", 3, max_batch=2, max_wait=0.2)
    batches = logged_batches(log)
    assert len({process for process, _ in batches}) == 1
    assert {size for _, size in batches} == {1, 2}
    steps = int(load_dataset(RunDirectory(tmp_path / "run").dataset)["decisions"].sum())
    assert sum(size for _, size in batches) == steps
    assert len(batches) < 0.8 * steps


class KillInference(SilentObserver):
    """Kills the inference process in the middle of an episode, when so many episodes are recorded."""

    executor: LocalExecutor

    def __init__(self, *moments: int) -> None:
        self._moments, self._done = list(moments), 0

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        self._done += 1
        if self._done in self._moments:
            process_id = self.executor.inference_process_id
            assert process_id is not None
            threading.Timer(0.05, os.kill, (process_id, signal.SIGKILL)).start()


def test_a_killed_inference_process_costs_attempts_and_nothing_else(torch_run: Path, tmp_path: Path) -> None:
    summary = run(plan_of("Torch"), tmp_path / "run", 2, KillInference(3, 7))
    assert (summary.recorded, summary.incomplete) == (12, ())
    assert 1 <= len(summary.aborts) <= 4
    died = "Expected the inference process to answer, but it died (signal SIGKILL)."
    assert {abort.cause for abort in summary.aborts} == {died}
    equal(tmp_path / "run", torch_run)


def test_a_worker_that_notices_a_death_first_is_told_how() -> None:
    inference = InferenceProcess(plan_of("Torch"), InferenceSettings(), 60.0)
    try:
        for _ in range(3):
            lost = inference.process
            while not inference._ready.value:
                time.sleep(0.01)
            os.kill(lost.pid, signal.SIGKILL)  # its connections close before it can be seen dead
            assert inference.how_it_was_lost(lost) == "died (signal SIGKILL)"
            assert inference.process is not lost
    finally:
        inference.close()


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("raise once", "RuntimeError: the network fell over once."),
        ("hang once", "answer, but it did not within 3 s and was killed; the policy hangs"),
        ("die once", "Expected the inference process to answer, but it died (signal SIGKILL)."),
    ],
)
def test_a_passing_fault_is_retried(tmp_path: Path, fault: str, cause: str) -> None:
    arguments = {"fault": fault, "marker": str(tmp_path / "marker")}
    plan = plan_of("Logged", arguments, conditions=["baseline"])
    summary = run(plan, tmp_path / "run", 2, stall_timeout=3.0)
    assert (summary.recorded, summary.incomplete) == (6, ())
    assert 1 <= len(summary.aborts) <= 2
    assert cause in summary.aborts[0].cause
    sound = plan_of("Logged", {**arguments, "fault": ""}, conditions=["baseline"])
    evaluate(sound, tmp_path / "sound", InProcessExecutor)
    ours, theirs = (load_dataset(RunDirectory(tmp_path / name).dataset) for name in ("run", "sound"))
    for name in ("success", "steps", "max_abs_action", "unique_actions"):
        assert ours[name].values.tolist() == theirs[name].values.tolist()


@pytest.mark.parametrize("fault", ["nan", "text"])
def test_a_malformed_answer_is_the_policys_failure_here_as_well(tmp_path: Path, fault: str) -> None:
    plan = plan_of("Logged", {"fault": fault}, conditions=["baseline"])
    assert run(plan, tmp_path / "shared", 2).aborts == ()
    evaluate(plan, tmp_path / "alone", InProcessExecutor)
    equal(tmp_path / "shared", tmp_path / "alone")
    data = load_dataset(RunDirectory(tmp_path / "shared").dataset)
    assert REASONS[data["reason"].values[1]] == "invalid_execution"


@pytest.mark.parametrize(
    ("method", "kind"), [("act", "value"), ("begin", "value"), ("observed", "odd"), ("act", "own")]
)
def test_what_the_policy_raises_is_told_as_in_process(tmp_path: Path, method: str, kind: str) -> None:
    plan = plan_of("Raising", {"method": method, "kind": kind}, conditions=["baseline"], seed_groups=1)
    ours = run(plan, tmp_path / "shared", 1)
    theirs = evaluate(plan, tmp_path / "alone", InProcessExecutor)
    assert [abort.cause for abort in ours.aborts] == [abort.cause for abort in theirs.aborts]
    assert len(ours.aborts) >= 3
    assert ours.incomplete == theirs.incomplete
    assert "in _raise" in ours.aborts[0].detail, "the traceback is that of the policy"


def test_an_episode_that_always_raises_takes_no_other_with_it(tmp_path: Path) -> None:
    plan = plan_of("Raising", conditions=["baseline"])
    summary = run(plan, tmp_path / "run", 4, max_wait=0.5)
    assert [(planned.seed_group, planned.episode) for planned in summary.incomplete] == [(0, 1)]
    assert summary.recorded == 5


def test_a_policy_that_cannot_be_built_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "roep_gym.evaluate.run.driver.check_runnable", lambda plan: {row.index: {} for row in plan.rows}
    )
    summary = run(plan_of("unbuildable", conditions=["baseline"], seed_groups=1), tmp_path / "run", 1)
    assert summary.recorded == 0
    assert "to be built, got FileNotFoundError: no weights here." in summary.aborts[0].cause


def test_a_process_that_cannot_start_ends_the_run_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roep_gym.evaluate.run.inference_server._serve", _leave)
    with pytest.raises(
        InfrastructureError, match=r"inference process to start, but it died \(exit status 3\)"
    ):
        run(plan_of("Torch", conditions=["baseline"]), tmp_path / "run", 1)


def _leave(*arguments: Any) -> None:
    raise SystemExit(3)


def test_ctrl_c_ends_all_processes_and_the_same_command_continues(torch_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ["--workers", "2", "--inference", "shared", "--max-wait", "0.02"]
    command = command_of(plan_of("Torch"), tmp_path, *options)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = start(command, out, 2, start_new_session=True, **pipes)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert _is_gone(process.pid), "nobody of the process group is left"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    equal(out, torch_run)


def _is_gone(group: int) -> bool:
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def process() -> Iterator[InferenceProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(TESTS))
        process = InferenceProcess(plan_of("Torch"), InferenceSettings(), 60.0)
    yield process
    process.close()
    process.close()


class TestSharedPolicy(PolicyContractTests):
    """A policy in the inference process is a policy."""

    @pytest.fixture(autouse=True)
    def _process(self, process: InferenceProcess) -> None:
        self.process = process

    def make_policy(self) -> Policy:
        return SharedPolicy(self.process.address, 0)

    def test_answers_are_those_of_the_policy_itself(self) -> None:
        self._assert_equal(self._run(Torch(), [0, 1, 2]), self._run_new([0, 1, 2], batched=True))

    def test_two_workers_have_episodes_open_at_once(self) -> None:
        first, second = self.make_policy(), self.make_policy()
        chunks = []
        for policy, number in ((first, 0), (second, 1)):
            policy.begin(self.make_episode(number))
        for policy, number in ((second, 1), (first, 0)):
            given = self.make_input(policy.observations, self.make_episode(number), 0)
            chunks.append(policy.act([given])[0])
        alone = self._run(Torch(), [0, 1])
        self._assert_equal([[alone[1][0]], [alone[0][0]]], [[chunks[0]], [chunks[1]]])
        first.close()
        second.close()

    def test_a_worker_that_is_gone_leaves_no_episode_behind(self) -> None:
        gone, new = self.make_policy(), self.make_policy()
        gone.begin(self.make_episode(0))
        gone.close()
        new.begin(self.make_episode(0))
        new.end(self.make_episode(0).key)
        with pytest.raises(InfrastructureError, match="to answer, but it is gone"):
            gone.act([])
        new.close()


def test_a_worker_without_an_open_episode_goes_on_with_the_next_process() -> None:
    process = InferenceProcess(plan_of("Torch"), InferenceSettings(), 60.0)
    try:
        idle, busy = SharedPolicy(process.address, 0), SharedPolicy(process.address, 0)
        episode = PolicyEpisode("a", "tabletop", "carry", "", 1)
        busy.begin(episode)
        process.process.kill()
        process.process.join()
        process.replace_if_lost()
        idle.begin(replace(episode, key="b"))
        idle.end("b")
        with pytest.raises(InfrastructureError, match="to answer, but it is gone"):
            busy.begin(replace(episode, key="c"))
        idle.close()
    finally:
        process.close()


def test_settings_outside_their_range_are_refused() -> None:
    with pytest.raises(
        InvalidInputError, match="Expected the threads of inference to be an integer >= 1, got 0"
    ):
        InferenceSettings(threads=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-wait", "1"], "Expected --max-wait only with --inference shared"),
        (["--inference-threads", "2"], "Expected --inference-threads only with --inference shared"),
        (["--inference", "shraed"], "Unknown choice of inference 'shraed'. Did you mean 'shared'?"),
        (["--inference", "shared", "--max-batch", "0"], "Expected max_batch to be an integer >= 1, got 0."),
    ],
)
def test_flags_that_do_not_go_together_are_refused(options: list[str], message: str) -> None:
    from roep_gym.cli.main import dispatch

    with pytest.raises(InvalidInputError) as caught:
        dispatch(["evaluate", "--policy", "random", "--task", "tabletop/reach", "--quick", *options])
    assert message in str(caught.value)
