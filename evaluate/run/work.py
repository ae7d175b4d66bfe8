"""What an executor is given and what it gives back.

A `WorkItem` is everything a worker needs to run one episode, a `WorkResult` is its record or the cause of its abort.
Both are plain values: they cross processes and machines unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.store.packed_record import PackedRecord

__all__ = ["Executor", "WorkItem", "WorkResult"]


@dataclass(frozen=True)
class WorkItem:
    """One episode to run.

    Attributes:
        planned: The episode.
        attempt: 0 for the first attempt; a retry has the same seeds.
        shield: File of the shield of a shielded condition.
        diverged_before: Whether the simulation diverged in an earlier attempt: when it does again, the episode ends
            as `invalid_execution`.
    """

    planned: PlannedEpisode
    attempt: int = 0
    shield: str | None = None
    diverged_before: bool = False


@dataclass(frozen=True)
class WorkResult:
    """What came of a work item: a record, or the cause of an abort.

    Attributes:
        item: The work item.
        record: The record of the finished episode, None when it aborted.
        cause: One sentence on the abort, empty otherwise.
        detail: Traceback of the abort, for the log.
        unstable: Whether the simulation diverged.
    """

    item: WorkItem
    record: PackedRecord | None
    cause: str = ""
    detail: str = ""
    unstable: bool = False


class Executor(Protocol):
    """Runs work items somewhere; it knows nothing of retries, journals or plans' order."""

    def submit(self, item: WorkItem) -> None:
        """Queue an item."""

    def capacity(self) -> int:
        """Return how many more items can run at once."""

    def wait(self, timeout: float) -> list[WorkResult]:
        """Return the results that arrive within `timeout` seconds; empty when none does."""

    def close(self) -> None:
        """Stop all workers; may be called twice."""
