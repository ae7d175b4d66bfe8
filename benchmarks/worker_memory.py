"""The memory of a worker that goes through the paper's eight tasks again and again.

    python benchmarks/worker_memory.py [--rounds 25] [--episodes 1]

A round runs so many episodes of each task, a few steps long, in one worker as evaluations use it; the scene changes
with the task. The table gives the resident memory after each round and its peak in it.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

from roep_gym.envs.task_catalog import PAPER_TASKS
from roep_gym.evaluate.plan import PlannedEpisode, plan_from_mapping, resolve
from roep_gym.evaluate.run.work import WorkItem
from roep_gym.evaluate.run.worker import EpisodeWorker


def resident_mib() -> float:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def rounds(count: int, episodes: int) -> Iterator[list[float]]:
    """Yield the resident memory after each episode of a round, for `count` rounds."""
    plan = resolve(
        plan_from_mapping(
            {
                "name": "memory",
                "models": [{"name": "random", "policy": "random"}],
                "tasks": list(PAPER_TASKS.values()),
                "conditions": ["quick"],
                "step_budget": 2,
                "environment": {"cameras": ["agentview"], "image_size": 128, "depth": True},
            }
        )
    )
    worker = EpisodeWorker(plan)
    for number in range(count):
        used = []
        for row in plan.rows:
            for episode in range(episodes):
                at = number * episodes + episode
                result = worker.run(WorkItem(PlannedEpisode(row.index, "baseline", at // 10 % 5, at % 10)))
                if result.record is None:
                    raise SystemExit(result.detail)
                used.append(resident_mib())
        yield used
    worker.discard()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--episodes", type=int, default=1)
    arguments = parser.parse_args()
    started, resets = time.perf_counter(), 0
    print("| resets | after the round | peak in it | time |\n|---|---|---|---|")
    for used in rounds(arguments.rounds, arguments.episodes):
        resets += len(used)
        seconds = time.perf_counter() - started
        print(f"| {resets} | {used[-1]:.0f} MiB | {max(used):.0f} MiB | {seconds:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
