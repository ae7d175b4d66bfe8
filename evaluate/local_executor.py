"""Worker processes on this machine: spawned, watched for death and hangs, replaced when lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.work import WorkItem, WorkResult

__all__ = ["LocalExecutor"]

_JOIN_SECONDS = 5.0
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class LocalExecutor:
    """Runs each episode in one of `workers` spawned processes.

    Args:
        plan: The plan whose episodes will be submitted.
        workers: Number of processes, at least 1.
        stall_timeout: Seconds without a control step after which a worker counts as hung and is killed.
    """

    def __init__(self, plan: ResolvedPlan, workers: int, *, stall_timeout: float = 180.0) -> None:
        if workers < 1:
            raise InvalidInputError(f"Expected at least 1 worker, got {workers}.")
        if not stall_timeout > 0:
            raise InvalidInputError(f"Expected a stall timeout above 0 s, got {stall_timeout}.")
        self._plan, self._stall_timeout = plan, stall_timeout
        self._workers: list[_Process | None] = [None] * workers

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the living workers."""
        return [w.process.pid for w in self._workers if w is not None and w.process.pid is not None]

    def capacity(self) -> int:
        """Return the number of idle workers."""
        return sum(worker is None or worker.item is None for worker in self._workers)

    def submit(self, item: WorkItem) -> None:
        """Give the item to an idle worker, which is started if need be."""
        for index, worker in enumerate(self._workers):
            if worker is None or worker.item is None:
                if worker is None or not worker.process.is_alive():
                    self._workers[index] = worker = _Process(self._plan)
                worker.start(item)
                return
        raise RuntimeError("Expected an idle worker; ask capacity() before submit().")

    def wait(self, timeout: float) -> list[WorkResult]:
        """Return what arrives within `timeout` seconds, lost and hung workers included."""
        busy = {w.connection: i for i, w in enumerate(self._workers) if w is not None and w.item is not None}
        if not busy:
            return []
        results = []
        ready = wait(list(busy), timeout)
        for connection in ready:
            index = busy[connection]  # type: ignore[index]
            worker = self._workers[index]
            assert worker is not None
            assert worker.item is not None
            try:
                results.append(worker.connection.recv())
                worker.item = None
            except (EOFError, OSError):
                results.append(self._lost(index, worker))
        for index, worker in enumerate(self._workers):
            if (
                worker is not None
                and worker.item is not None
                and worker.stalled_seconds > self._stall_timeout
            ):
                worker.process.kill()
                cause = (
                    f"Expected a control step within {self._stall_timeout:g} s, got none; the worker was killed. "
                    "The policy or the simulator hangs, or --stall-timeout is too short."
                )
                results.append(WorkResult(worker.item, None, cause))
                self._forget(index, worker)
        return results

    def close(self) -> None:
        """Kill all workers; what they are running is not recorded."""
        for index, worker in enumerate(self._workers):
            if worker is not None:
                worker.process.kill()
                self._forget(index, worker)

    def _lost(self, index: int, worker: _Process) -> WorkResult:
        worker.process.join(_JOIN_SECONDS)
        code = worker.process.exitcode
        how = (
            f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
        )
        cause = f"Expected the worker process to finish the episode, but it died ({how})."
        assert worker.item is not None
        result = WorkResult(worker.item, None, cause)
        self._forget(index, worker)
        return result

    def _forget(self, index: int, worker: _Process) -> None:
        worker.connection.close()
        worker.process.join(_JOIN_SECONDS)
        self._workers[index] = None


class _Process:
    """One worker process, the pipe to it, and the item it is running."""

    def __init__(self, plan: ResolvedPlan) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, remote = context.Pipe()
        self._beat = context.Value("d", time.monotonic(), lock=False)
        self.process: BaseProcess = context.Process(
            target=_serve, args=(remote, plan, self._beat), daemon=True
        )
        with _single_threaded():
            self.process.start()
        remote.close()
        self.item: WorkItem | None = None

    @property
    def stalled_seconds(self) -> float:
        return time.monotonic() - float(self._beat.value)

    def start(self, item: WorkItem) -> None:
        self.item = item
        self._beat.value = time.monotonic()
        try:
            self.connection.send(item)
        except OSError:
            return  # the process died while idle; `wait` finds its end of the pipe closed


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Let processes that start here use one thread: workers share the cores, and bits must not depend on those."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Connection, plan: ResolvedPlan, beat: Any) -> None:
    """Run items until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    from roep_gym.evaluate.worker import EpisodeWorker

    def heartbeat() -> None:
        beat.value = time.monotonic()

    worker = EpisodeWorker(plan, heartbeat)
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
