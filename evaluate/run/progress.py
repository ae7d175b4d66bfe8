"""What a run shows while it runs: a progress bar with rates, and one line for each thing worth knowing."""

from __future__ import annotations

import time
from collections import Counter
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from roep_gym import escape
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan, Row
from roep_gym.evaluate.store.row_shield import RowShield

__all__ = ["ProgressObserver"]


class ProgressObserver:
    """Shows a run on a terminal; where there is none, a line every `interval` seconds."""

    def __init__(self, plan: ResolvedPlan, console: Console, *, interval: float = 30.0) -> None:
        self._plan, self._console, self._interval = plan, console, interval
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rates]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("episodes", total=None, rates="")
        self._reasons: Counter[str] = Counter()
        self._planned = self._before = self._steps = 0
        self._started = self._last = time.monotonic()

    def __enter__(self) -> ProgressObserver:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def _say(self, text: str) -> None:
        self._console.print(escape.terminal(text), markup=False, highlight=False, soft_wrap=True)

    def started(self, planned: int, recorded: int) -> None:
        """Show how much there is to do."""
        self._planned, self._before = planned, recorded
        self._started = self._last = time.monotonic()
        self._progress.update(self._task, total=planned, completed=recorded)
        if recorded:
            self._say(f"Continuing: {recorded} of {planned} episodes are recorded.")

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        """Count an episode."""
        self._reasons[reason] += 1
        self._steps += steps
        done, now = sum(self._reasons.values()), time.monotonic()
        seconds = max(now - self._started, 1e-9)
        rate = 60 * done / seconds
        counts = ", ".join(f"{count} {name}" for name, count in self._reasons.most_common())
        rates = f"{rate:.1f} episodes/min, {self._steps / seconds:.0f} steps/s ({counts})"
        self._progress.update(self._task, advance=1, rates=rates)
        if not self._console.is_terminal and now - self._last >= self._interval:
            self._last = now
            left = (self._planned - self._before - done) / rate
            self._say(
                f"{self._before + done} of {self._planned} episodes, {rates}, about {left:.1f} min left"
            )

    def aborted(self, planned: PlannedEpisode, cause: str, retried: bool) -> None:
        """Say why an attempt was aborted."""
        row = self._plan.rows[planned.row]
        where = f"{row.label} {planned.condition} {planned.seed_group}/{planned.episode}"
        left = "it is left incomplete; start the same command again to retry it"
        then = "it is tried again" if retried else left
        self._say(f"Aborted: {where}: {cause} This is no outcome; {then}.")

    def shield(self, row: Row, shield: RowShield, dropped: int) -> None:
        """Say what a bootstrap gave."""
        if shield.status == "trained":
            text = f"threshold {shield.tau:.3g}, {shield.metadata['risk_positive_episodes']} risk episodes"
        else:
            text = f"{shield.reason}; {dropped} episodes of the shielded conditions are unavailable"
            self._planned -= dropped
            self._progress.update(self._task, total=self._planned)
        self._say(f"Shield of {row.label}: {shield.status}, {text}.")
