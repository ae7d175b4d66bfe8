"""Worker processes on this machine: spawned, watched for death and hangs, replaced when lost."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from roep_gym.arguments import read_integer
from roep_gym.envs.numeric_probe import numeric_probe
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.run.child_process import JOIN_SECONDS, follow_driver, how_it_ended, threads_of_children
from roep_gym.evaluate.run.inference_server import InferenceProcess, InferenceSettings
from roep_gym.evaluate.run.shared_policy import PROCESS_GONE, SharedPolicy
from roep_gym.evaluate.run.work import WorkItem, WorkResult

__all__ = ["LocalExecutor"]

_START_SECONDS = 600.0
"""How long a worker may take to be ready; importing from a cold or shared file system is slow, but no hang."""


class LocalExecutor:
    """Runs each episode in one of `workers` spawned processes.

    Args:
        plan: The plan whose episodes will be submitted.
        workers: Number of processes, at least 1.
        stall_timeout: Seconds without a control step after which a started worker counts as hung and is killed.
        inference: How one inference process asks the policies for all workers; None: each worker has its own policies.
    """

    def __init__(
        self,
        plan: ResolvedPlan,
        workers: int,
        *,
        stall_timeout: float = 180.0,
        inference: InferenceSettings | None = None,
    ) -> None:
        read_integer("workers", workers, 1)
        if not stall_timeout > 0:
            raise InvalidInputError(f"Expected a stall timeout above 0 s, got {stall_timeout}.")
        self._plan, self._stall_timeout, self._probe = plan, stall_timeout, numeric_probe()
        self._workers: list[_Process | None] = [None] * workers
        self._inference_settings = inference
        self._inference: InferenceProcess | None = None

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the living workers."""
        return [w.process.pid for w in self._workers if w is not None and w.process.pid is not None]

    @property
    def inference_process_id(self) -> int | None:
        """Process id of the inference process; None without one."""
        return None if self._inference is None else self._inference.process.pid

    def capacity(self) -> int:
        """Return the number of idle workers."""
        return sum(worker is None or worker.item is None for worker in self._workers)

    def submit(self, item: WorkItem) -> None:
        """Give the item to an idle worker, which is started if need be."""
        if self._inference_settings is not None and self._inference is None:
            self._inference = InferenceProcess(self._plan, self._inference_settings, self._stall_timeout)
        for index, worker in enumerate(self._workers):
            if worker is None or worker.item is None:
                if worker is None or not worker.process.is_alive():
                    address = None if self._inference is None else self._inference.address
                    self._workers[index] = worker = _Process(self._plan, self._probe, address)
                worker.start(item, None if self._inference is None else self._inference.process)
                return
        raise RuntimeError("Expected an idle worker; ask capacity() before submit().")

    def wait(self, timeout: float) -> list[WorkResult]:
        """Return what arrives within `timeout` seconds, lost and hung workers included."""
        busy = {w.connection: i for i, w in enumerate(self._workers) if w is not None and w.item is not None}
        if not busy:
            return []
        results = []
        inference = [] if self._inference is None else [self._inference.sentinel]
        ready = wait([*busy, *inference], timeout)
        if self._inference is not None:
            self._inference.replace_if_lost()
        for connection in ready:
            if connection in inference:
                continue
            index = busy[connection]  # type: ignore[index]
            worker = self._workers[index]
            assert worker is not None
            assert worker.item is not None
            try:
                results.append(self._explained(worker.connection.recv(), worker.inference))
                worker.item = None
            except (EOFError, OSError):
                results.append(self._lost(index, worker))
        for index, worker in enumerate(self._workers):
            if worker is None or worker.item is None or worker.connection.poll():
                continue
            if not worker.process.is_alive():  # a process that its policy forked keeps the pipe open
                results.append(self._lost(index, worker))
            elif (cause := worker.hangs(self._stall_timeout)) is not None:
                worker.process.kill()
                results.append(WorkResult(worker.item, None, cause))
                self._forget(index, worker)
        return results

    def close(self) -> None:
        """Kill all processes; what they are running is not recorded."""
        for index, worker in enumerate(self._workers):
            if worker is not None:
                worker.process.kill()
                self._forget(index, worker)
        if self._inference is not None:
            self._inference.close()

    def _explained(self, result: WorkResult, inference: BaseProcess | None) -> WorkResult:
        """Say how the inference process ended, which a worker that lost it cannot know."""
        if self._inference is None or inference is None or result.cause != PROCESS_GONE:
            return result
        how = self._inference.how_it_was_lost(inference)
        return replace(result, cause=f"Expected the inference process to answer, but it {how}.")

    def _lost(self, index: int, worker: _Process) -> WorkResult:
        how = how_it_ended(worker.process)
        cause = f"Expected the worker process to finish the episode, but it died ({how})."
        assert worker.item is not None
        result = WorkResult(worker.item, None, cause)
        self._forget(index, worker)
        return result

    def _forget(self, index: int, worker: _Process) -> None:
        worker.connection.close()
        worker.process.join(JOIN_SECONDS)
        self._workers[index] = None


class _Process:
    """One worker process, the pipe to it, and the item it is running."""

    def __init__(self, plan: ResolvedPlan, probe: Mapping[str, str], inference: str | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, remote = context.Pipe()
        self._started = time.monotonic()
        self._beat = context.Value("d", 0.0, lock=False)  # 0 until the worker is ready
        self.process: BaseProcess = context.Process(
            target=_serve, args=(remote, plan, probe, self._beat, inference), daemon=True
        )
        with threads_of_children(1):
            self.process.start()
        remote.close()
        self.item: WorkItem | None = None
        self.inference: BaseProcess | None = None
        """The inference process when the item began."""

    def hangs(self, stall_timeout: float) -> str | None:
        """Return why the worker counts as hung, None when it does not."""
        beat, now = float(self._beat.value), time.monotonic()
        if beat and now - beat > stall_timeout:
            return (
                f"Expected a control step within {stall_timeout:g} s, got none; the worker was killed. "
                "The policy or the simulator hangs, or --stall-timeout is too short."
            )
        if not beat and now - self._started > _START_SECONDS:
            return f"Expected the worker process to start within {_START_SECONDS:g} s, it did not and was killed."
        return None

    def start(self, item: WorkItem, inference: BaseProcess | None) -> None:
        self.item, self.inference = item, inference
        if self._beat.value:
            self._beat.value = time.monotonic()
        try:
            self.connection.send(item)
        except OSError:
            return  # the process died while idle; `wait` finds its end of the pipe closed


def _serve(
    connection: Connection, plan: ResolvedPlan, probe: Mapping[str, str], beat: Any, inference: str | None
) -> None:
    """Run items until the driver is gone."""
    follow_driver()
    from roep_gym.evaluate.run.worker import EpisodeWorker

    def heartbeat() -> None:
        beat.value = time.monotonic()

    if inference is None:
        worker = EpisodeWorker(plan, heartbeat, probe=probe)
    else:
        worker = EpisodeWorker(
            plan,
            heartbeat,
            lambda model: SharedPolicy(inference, plan.model_index(model), heartbeat),
            probe=probe,
        )
    heartbeat()
    while True:
        try:
            item = connection.recv()
        except (EOFError, OSError):
            worker.discard()
            return
        result = worker.run(item)
        try:
            connection.send(result)
        except OSError:
            worker.discard()
            return
