"""An observer of a run that takes the time of every episode."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.run.driver import SilentObserver


@dataclass
class Clock(SilentObserver):
    """Takes the time and the length of every episode."""

    times: list[float] = field(default_factory=list)
    steps: dict[PlannedEpisode, int] = field(default_factory=dict)

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        """Take the time."""
        self.times.append(time.perf_counter())
        self.steps[planned] = steps

    def episodes_a_minute(self, first: int, last: int | None = None) -> float:
        """Return the rate between the times of these two indices."""
        timed = self.times[first:last]
        return 60 * (len(timed) - 1) / (timed[-1] - timed[0])
