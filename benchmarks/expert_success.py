"""How often the scripted expert solves the paper's eight tasks from LIBERO's official initial states.

Prints a Markdown table, for example with

    python benchmarks/expert_success.py --episodes 50 --chunk 8 --workers 2

Episode k starts from initial state k with the scene seed of (seed group k // 10, episode k % 10), as an
evaluation under the paper's plan does.
"""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import tyro

STEP_BUDGET = 280
TASKS = (
    "goal_cream_cheese",
    "goal_bowl_top",
    "goal_stove",
    "goal_bowl_plate",
    "object_bbq_sauce",
    "object_cream_cheese",
    "object_salad_dressing",
    "object_tomato_sauce",
)


@dataclass(frozen=True)
class Arguments:
    """What to run."""

    episodes: int = 50
    tasks: tuple[str, ...] = TASKS
    chunk: int = 1
    workers: int = 1
    failure_rate: float = 0.0
    noise: float = 0.0


class Episode(NamedTuple):
    init_state: int
    success: bool
    steps: int
    unsafe_steps: int


class Job(NamedTuple):
    task: str
    init_states: range
    chunk: int
    failure_rate: float
    noise: float


def run(job: Job) -> list[Episode]:
    """Run some episodes of one task in one state-only environment."""
    from roep_gym.envs.libero_env import LiberoEnv
    from roep_gym.episode import EpisodeIdentity, policy_seed, scene_seed
    from roep_gym.policies.base import PolicyEpisode, PolicyInput
    from roep_gym.policies.expert import ExpertPolicy

    env = LiberoEnv(job.task, cameras=[], object_state=True)
    policy = ExpertPolicy(chunk=job.chunk, failure_rate=job.failure_rate, noise=job.noise)
    episodes = []
    for k in job.init_states:
        group, index = divmod(k, 10)
        identity = EpisodeIdentity("expert", group, index, k, scene_seed(env.suite, job.task, group, index))
        observation, _ = env.reset(options=identity.to_options())
        policy.begin(
            PolicyEpisode(
                "episode", env.suite, env.task, env.instruction, policy_seed(identity), env.observation_fields
            )
        )
        success, steps, unsafe_steps = False, 0, 0
        while steps < STEP_BUDGET and not success:
            decision = PolicyInput("episode", steps, env.instruction, observation)
            for action in policy.act([decision])[0][: STEP_BUDGET - steps]:
                observation, _, success, _, info = env.step(action)
                steps += 1
                unsafe_steps += any(info["unsafe"].values())
                if success:
                    break
        policy.end("episode")
        episodes.append(Episode(k, success, steps, unsafe_steps))
    env.close()
    return episodes


def main(arguments: Arguments) -> None:
    """Run all jobs and print the table."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print("| task | success | mean steps | most steps | episodes with unsafe steps | failed initial states |")
    print("|---|---|---|---|---|---|", flush=True)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.workers, mp_context=context) as pool:
        blocks = [
            range(first, min(first + 10, arguments.episodes)) for first in range(0, arguments.episodes, 10)
        ]
        futures = {
            task: [
                pool.submit(run, Job(task, block, arguments.chunk, arguments.failure_rate, arguments.noise))
                for block in blocks
            ]
            for task in arguments.tasks
        }
        for task, parts in futures.items():
            episodes = [episode for part in parts for episode in part.result()]
            solved = [episode.steps for episode in episodes if episode.success]
            failed = ", ".join(str(episode.init_state) for episode in episodes if not episode.success)
            print(
                f"| {task} | {len(solved)}/{len(episodes)} | {fmean(solved) if solved else float('nan'):.0f} "
                f"| {max(solved, default=0)} | {sum(e.unsafe_steps > 0 for e in episodes)} | {failed or '-'} |",
                flush=True,
            )


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
