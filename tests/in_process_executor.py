"""An executor for tests that are not about processes."""

from __future__ import annotations

from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.run.work import WorkItem, WorkResult
from roep_gym.evaluate.run.worker import EpisodeWorker


class InProcess:
    """An executor without processes; `stop_after` results it fails like a killed driver."""

    def __init__(self, plan: ResolvedPlan, stop_after: int | None = None) -> None:
        self._worker, self._queue, self._left = EpisodeWorker(plan), list[WorkItem](), stop_after

    def submit(self, item: WorkItem) -> None:
        self._queue.append(item)

    def capacity(self) -> int:
        return 1 - len(self._queue)

    def wait(self, timeout: float) -> list[WorkResult]:
        if self._left is not None:
            if self._left == 0:
                raise KeyboardInterrupt
            self._left -= 1
        return [self._worker.run(self._queue.pop())]

    def close(self) -> None:
        self._worker.discard()
