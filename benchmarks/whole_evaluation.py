"""A whole evaluation of the built-in policy, beside the plain loop that evaluation scripts are made of, in one run.

    python benchmarks/whole_evaluation.py [--tasks goal_stove object_bbq_sauce] [--episodes 6] [--repeats 3]

The plain loop is that of the scripts of openpi and OpenVLA-OFT: one stock environment a task; seed, reset, set the
initial state, settle for ten steps, ask the policy for a chunk when the last one is used up, draw every frame. Policy,
cameras, image size, seeds and initial states are the same, and so is, as the benchmark checks, the length of every
episode. Start-up is left out: the clocks run from the environments that are built, ours from the last of the first
episodes of all workers, to the last episode.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from clock import Clock
from paired_ratio import HEADING, paired_ratio

from roep_gym import seeding
from roep_gym.envs.libero_observations import PROPRIO, PROPRIO_FIELDS
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import find_task, initial_states
from roep_gym.evaluate.plan import ResolvedPlan, Row, plan_from_mapping, resolve
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.visuomotor.network import CAMERA, IMAGE_SIZE
from roep_gym.policies.visuomotor.policy import VisuomotorPolicy

CHUNK = 8
SETTLE_STEPS = 10


def make_plan(tasks: list[str], episodes: int) -> ResolvedPlan:
    return resolve(
        plan_from_mapping(
            {
                "name": "whole_evaluation",
                "models": [{"name": "visuomotor", "policy": "visuomotor", "arguments": {"chunk": CHUNK}}],
                "tasks": tasks,
                "conditions": ["baseline"],
                "seed_groups": 1,
                "episodes": episodes,
                "step_budget": 280,
                "environment": {"cameras": [CAMERA], "image_size": IMAGE_SIZE},
            }
        )
    )


def run_ours(plan: ResolvedPlan, workers: int) -> Clock:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        evaluate(plan, Path(folder) / "run", lambda p: LocalExecutor(p, workers), clock)
    return clock


def run_plain(plan: ResolvedPlan) -> Clock:
    """Run the plan as a plain script does; the time before each task, when its environment is built, does not count."""
    clock = Clock()
    policy = VisuomotorPolicy(chunk=CHUNK)
    planned = list(plan.episodes())
    building = 0.0
    clock.times.append(time.perf_counter())
    for row in plan.rows:
        started = time.perf_counter()
        loop = PlainLoop(row, policy)
        building += time.perf_counter() - started
        for episode in (p for p in planned if p.row == row.index):
            identity = plan.identity(episode)
            assert identity.scene_seed is not None
            assert isinstance(identity.init_state, int)
            clock.steps[episode] = loop.run(identity.scene_seed, identity.init_state)
            clock.times.append(time.perf_counter() - building)
        loop.env.close()
    return clock


class PlainLoop:
    """One task in stock LIBERO."""

    def __init__(self, row: Row, policy: VisuomotorPolicy) -> None:
        from libero.libero.envs import OffScreenRenderEnv

        self.row, self.policy = row, policy
        task = find_task(row.suite, row.task)
        self.states = initial_states(task)
        self.env = OffScreenRenderEnv(
            bddl_file_name=str(task.bddl_file),
            camera_names=[CAMERA],
            camera_heights=IMAGE_SIZE,
            camera_widths=IMAGE_SIZE,
        )

    def run(self, scene_seed: int, init_state: int) -> int:
        """Run one episode and return its steps."""
        with seeding.preserved_numpy_state():
            self.env.seed(scene_seed)
            self.env.reset()
        observation = self.env.set_init_state(self.states[init_state])
        for _ in range(SETTLE_STEPS):
            observation, _, _, _ = self.env.step(SETTLE_ACTION)
        self.policy.begin(
            PolicyEpisode(
                "episode", self.row.suite, self.row.task, self.row.instruction, 0, {"proprio": PROPRIO_FIELDS}
            )
        )
        steps, done, pending = 0, False, []
        while not done and steps < self.row.step_budget:
            if not pending:
                seen = {
                    f"{CAMERA}_image": np.ascontiguousarray(observation[f"{CAMERA}_image"][::-1]),
                    "proprio": np.concatenate(
                        [observation[f"robot0_{name}"] for name, _ in PROPRIO], dtype=np.float32
                    ),
                }
                given = PolicyInput("episode", steps, self.row.instruction, seen)
                pending = list(self.policy.act([given])[0])
            observation, _, done, _ = self.env.step(pending.pop(0).astype(np.float64))
            steps += 1
        self.policy.end("episode")
        return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["goal_stove", "object_bbq_sauce"])
    parser.add_argument("--episodes", type=int, default=6, help="of each task in the plain loop")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    short = make_plan(arguments.tasks, arguments.episodes)
    long = make_plan(arguments.tasks, 4 * arguments.episodes)
    rates: dict[str, list[float]] = {"plain loop": [], "1 worker": [], "2 workers": []}
    for _ in range(arguments.repeats):
        plain = run_plain(short)
        rates["plain loop"].append(plain.episodes_a_minute(0))
        for workers, name in ((1, "1 worker"), (2, "2 workers")):
            ours = run_ours(long, workers)
            rates[name].append(ours.episodes_a_minute(2 * workers - 1))
            different = [p for p, steps in plain.steps.items() if ours.steps[p] != steps]
            if different:
                raise SystemExit(f"Expected episodes as long as in the plain loop, but {different} differ.")
    print(f"One camera of {IMAGE_SIZE} px, {CHUNK} steps a decision; medians of {arguments.repeats}.\n")
    print(f"| evaluation | episodes a minute | {HEADING} |\n|---|---|---|")
    for name, measured in rates.items():
        print(f"| {name} | {median(measured):.1f} | {paired_ratio(measured, rates['plain loop'])} |")


if __name__ == "__main__":
    main()
