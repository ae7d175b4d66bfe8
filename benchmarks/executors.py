"""Episodes a minute with local workers and with Ray's, in turn, start-up left out.

    python benchmarks/executors.py [--workers 2] [--episodes 20] [--repeats 3] [--task goal_stove]

The episodes are bound by physics: a random policy without a camera. The clock runs from the last of the first episodes
of all workers to the last episode.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from roep_gym.evaluate.driver import SilentObserver, evaluate
from roep_gym.evaluate.local_executor import LocalExecutor
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.ray_executor import RayExecutor

EXECUTORS = {"local": LocalExecutor, "ray": RayExecutor}


class Clock(SilentObserver):
    """Takes the time of every record."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        """Take the time."""
        self.times.append(time.perf_counter())


def make_plan(task: str, episodes: int) -> ResolvedPlan:
    return resolve(
        plan_from_mapping(
            {
                "name": "executors",
                "models": [{"name": "random", "policy": "random"}],
                "tasks": [task],
                "conditions": ["quick"],
                "seed_groups": 1,
                "episodes": episodes,
                "step_budget": 150,
                "environment": {"cameras": []},
            }
        )
    )


def episodes_a_minute(executor: str, plan: ResolvedPlan, workers: int) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        evaluate(plan, Path(folder) / "run", lambda p: EXECUTORS[executor](p, workers), clock)
    timed = clock.times[workers - 1 :]
    return 60 * (len(timed) - 1) / (timed[-1] - timed[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--task", default="goal_stove")
    arguments = parser.parse_args()
    plan = make_plan(arguments.task, arguments.episodes)
    rates: dict[str, list[float]] = {name: [] for name in EXECUTORS}
    for _ in range(arguments.repeats):
        for name, measured in rates.items():
            measured.append(episodes_a_minute(name, plan, arguments.workers))
    print("| executor | episodes a minute | spread | ratio |\n|---|---|---|---|")
    for name, measured in rates.items():
        ratio = median(measured) / median(rates["local"])
        print(
            f"| {name} | {median(measured):.1f} | {min(measured):.1f} to {max(measured):.1f} | {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
