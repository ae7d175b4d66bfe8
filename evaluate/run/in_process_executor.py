"""The executor without processes: each episode runs in the process that asks for it."""

from __future__ import annotations

from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.run.work import WorkItem, WorkResult
from roep_gym.evaluate.run.worker import EpisodeWorker

__all__ = ["InProcessExecutor"]


class InProcessExecutor:
    """Runs one episode after another in this process; an episode that hangs or kills the process ends the run.

    It is the only executor for a policy that is a Python object, and needs no `if __name__ == "__main__":`.

    Args:
        plan: The plan whose episodes will be submitted.
    """

    def __init__(self, plan: ResolvedPlan) -> None:
        self._worker, self._queue = EpisodeWorker(plan), list[WorkItem]()

    def submit(self, item: WorkItem) -> None:
        """Keep the item for `wait`, which runs it."""
        self._queue.append(item)

    def capacity(self) -> int:
        """Return 1 while no item waits, else 0."""
        return 1 - len(self._queue)

    def wait(self, timeout: float) -> list[WorkResult]:
        """Run the waiting item to its end, however long that takes."""
        return [self._worker.run(self._queue.pop())] if self._queue else []

    def close(self) -> None:
        """Close the environment, and the policies that the plan names."""
        self._worker.discard()
