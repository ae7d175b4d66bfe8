"""How long a plan will take: from its own episodes where some are recorded, else from typical costs."""

from __future__ import annotations

from statistics import fmean

from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.store.journal import recorded_times
from roep_gym.evaluate.store.run_directory import RunDirectory

__all__ = ["estimate"]

# Seconds on two cores of a 2026 server with software rendering (measured with benchmarks/episode_costs.py).
_RESET, _STEP, _FRAME = 0.2, 0.005, 0.065


def estimate(plan: ResolvedPlan, run: RunDirectory, workers: int) -> str:
    """Return one sentence on the time that the episodes will take which the run's folder does not hold yet."""
    times = recorded_times(run.journal, plan.digest)
    total = sum(1 for _ in plan.episodes())
    left = total - len(times)
    if not left:
        return "Time: nothing is left to run."
    if times:
        needed = _minutes(left * fmean(times.values()) / workers)
        return f"Time: about {needed} left, as {len(times)} recorded episodes took."
    budget = fmean(row.step_budget for row in plan.rows)
    cameras = len(plan.plan.environment.cameras or ())
    least = _RESET + 0.25 * budget * _STEP
    most = _RESET + budget * (_STEP + cameras * _FRAME)
    return (
        f"Time: {_minutes(left * least / workers)} to {_minutes(left * most / workers)} with {workers} workers, "
        "without the policy's own time (short episodes and few looks, to full step budget and a look at every step)."
    )


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
