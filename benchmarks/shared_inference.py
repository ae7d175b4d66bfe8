"""What one inference process for all workers is worth: episodes a minute and memory, shared against per worker.

    python benchmarks/shared_inference.py [--workers 1 2 4] [--rounds 3] [--episodes 24] [--width 4096]

A torch policy with large layers looks at each frame of Tabletop and answers all that is waiting with one product of
matrices. The variants are run in turn, `--rounds` times; the table gives medians. Start-up is left out: the clock runs
from the record that every worker has behind it to the last one. Memory is the share of each process in what it uses.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np
import torch

from roep_gym import seeding
from roep_gym.contracts import RuntimeContract
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import SilentObserver, evaluate
from roep_gym.evaluate.run.inference_server import InferenceSettings
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput

IMAGE_SIZE = 32
CHUNK = 4


class WidePolicy:
    """Untrained layers of a width, asked with one batch; appends the size of each batch to a file.

    Args:
        width: Outputs of each of the four layers.
        log: The file.
    """

    def __init__(self, width: int, log: str) -> None:
        self.contract = RuntimeContract.applicable(chunk_length=CHUNK, executed_steps=CHUNK)
        self.observations = ObservationRequest(cameras=("agentview",), image_size=IMAGE_SIZE)
        self._log = Path(log)
        sizes = [3 * IMAGE_SIZE**2, width, width, width, width, CHUNK * 7]
        layers: list[torch.nn.Module] = []
        with torch.random.fork_rng():
            torch.manual_seed(seeding.seed("shared inference benchmark"))
            for inputs, outputs in pairwise(sizes):
                layers += [torch.nn.Linear(inputs, outputs), torch.nn.Tanh()]
        self._network = torch.nn.Sequential(*layers)

    def observed(self) -> dict[str, Any]:
        return {"chunk_length": CHUNK}

    def begin(self, episode: PolicyEpisode) -> None:
        pass

    @torch.inference_mode()
    def act(self, inputs: Sequence[PolicyInput]) -> Sequence[Any]:
        with self._log.open("a") as file:
            file.write(f"{len(inputs)}\n")
        frames = np.stack([given.observation["agentview_image"].ravel() for given in inputs])
        answers = self._network(torch.from_numpy(frames).float() / 255.0)
        return list(answers.reshape(len(inputs), CHUNK, 7).numpy())

    def end(self, episode: str) -> None:
        pass

    def close(self) -> None:
        pass


class Measurement(NamedTuple):
    """One run: its rate, the memory of its processes, its mean batch, and the executed actions."""

    per_minute: float
    gigabytes: float
    batch: float
    actions: np.ndarray[Any, Any]


class Clock(SilentObserver):
    """Notes when each episode was recorded, and the memory of the processes at the end."""

    executor: LocalExecutor

    def __init__(self, episodes: int) -> None:
        self._episodes, self.times, self.gigabytes = episodes, list[float](), 0.0

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) == self._episodes - 1:
            shared = self.executor.inference_process_id
            self.gigabytes = sum(map(_gigabytes, [*self.executor.process_ids, *([shared] if shared else [])]))


def measure(plan: ResolvedPlan, log: Path, out: Path, workers: int, shared: bool) -> Measurement:
    """Run the plan once."""
    log.write_text("")
    clock = Clock(plan.plan.seed_groups * plan.plan.episodes)

    def make(plan: ResolvedPlan) -> LocalExecutor:
        clock.executor = LocalExecutor(plan, workers, inference=InferenceSettings() if shared else None)
        return clock.executor

    summary = evaluate(plan, out, make, clock)
    assert not summary.aborts
    rate = 60.0 * (len(clock.times) - workers) / (clock.times[-1] - clock.times[workers - 1])
    steps = load_dataset(RunDirectory(out).steps / "0000-baseline.nc")
    sizes = [int(line) for line in log.read_text().split()]
    return Measurement(rate, clock.gigabytes, mean(sizes), steps["executed_action"].values)


def _gigabytes(process_id: int) -> float:
    for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1e6
    raise ValueError(f"Expected the proportional set size of process {process_id}, got none.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--width", type=int, default=4096)
    arguments = parser.parse_args()
    here = str(Path(__file__).parent)  # where the processes find this module
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    sys.path.insert(0, here)
    variants = [(workers, shared) for workers in arguments.workers for shared in (False, True)]
    results: dict[tuple[int, bool], list[Measurement]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "batches"
        policy = {
            "name": "wide",
            "policy": "shared_inference:WidePolicy",
            "arguments": {"width": arguments.width, "log": str(log)},
        }
        plan = resolve(
            plan_from_mapping(
                {
                    "name": "shared_inference",
                    "models": [policy],
                    "tasks": ["tabletop/carry"],
                    "conditions": ["baseline"],
                    "seed_groups": 1,
                    "episodes": arguments.episodes,
                    "step_budget": 80,
                }
            )
        )
        for turn in range(arguments.rounds):
            for workers, shared in variants:
                out = Path(folder) / f"{turn}-{workers}-{shared}"
                results[workers, shared].append(measure(plan, log, out, workers, shared))
    print(
        "| workers | inference | episodes a minute | ratio | mean batch | memory | largest difference of an action |"
    )
    print("|---|---|---|---|---|---|---|")
    for workers, shared in variants:
        runs, alone = results[workers, shared], results[workers, False]
        rate = median(run.per_minute for run in runs)
        difference = max(np.abs(run.actions - alone[0].actions).max() for run in runs)
        print(
            f"| {workers} | {'shared' if shared else 'per worker'} | {rate:.0f} "
            f"| {rate / median(run.per_minute for run in alone):.2f} | {mean(run.batch for run in runs):.2f} "
            f"| {median(run.gigabytes for run in runs):.2f} GB | {difference:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
