"""Episodes a minute with one and more local workers and with Ray's, in turn, start-up left out.

    python benchmarks/executors.py [--workers 2] [--episodes 40] [--repeats 5] [--task goal_stove]

The episodes are bound by physics: a random policy without a camera. The clock runs from the last of the first episodes
of all workers to the first after which one of them may be idle.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from clock import Clock
from paired_ratio import HEADING, paired_ratio

from roep_gym.evaluate.plan import ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.run.ray_executor import RayExecutor
from roep_gym.evaluate.run.work import Executor


def make_plan(task: str, episodes: int) -> ResolvedPlan:
    return resolve(
        plan_from_mapping(
            {
                "name": "executors",
                "models": [{"name": "random", "policy": "random"}],
                "tasks": [task],
                "conditions": ["baseline"],
                "seed_groups": 1,
                "episodes": episodes,
                "step_budget": 150,
                "environment": {"cameras": []},
            }
        )
    )


def episodes_a_minute(
    executor: Callable[[ResolvedPlan, int], Executor], plan: ResolvedPlan, workers: int
) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        evaluate(plan, Path(folder) / "run", lambda p: executor(p, workers), clock)
    return clock.episodes_a_minute(workers - 1, len(clock.times) - workers + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--task", default="goal_stove")
    arguments = parser.parse_args()
    plan = make_plan(arguments.task, arguments.episodes)
    variants: dict[str, tuple[Callable[[ResolvedPlan, int], Executor], int]] = {
        "1 local worker": (LocalExecutor, 1),
        f"{arguments.workers} local workers": (LocalExecutor, arguments.workers),
        f"{arguments.workers} workers of Ray": (RayExecutor, arguments.workers),
    }
    rates: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(arguments.repeats):
        for name, (executor, workers) in variants.items():
            rates[name].append(episodes_a_minute(executor, plan, workers))
    one, local, _ = rates
    print(f"| executor | episodes a minute | to {one}: {HEADING} | to {local} |\n|---|---|---|---|")
    for name, measured in rates.items():
        ratios = (paired_ratio(measured, rates[base]) for base in (one, local))
        print(f"| {name} | {median(measured):.1f} |", " | ".join(ratios), "|")


if __name__ == "__main__":
    main()
