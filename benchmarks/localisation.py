"""How far the visuomotor policy's estimates are off, under each perturbation profile, and what a decision costs.

Prints a Markdown table, for example with

    python benchmarks/localisation.py --rollouts 6

Each task is rolled out anew by the scripted expert on sampled placements that training did not see (another collection
seed); every frame before the grasp is perturbed once by each profile. Errors of the object's place, in centimetres.
The last lines are the median times of a decision, alone and in a batch, in one thread.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from statistics import median

import numpy as np
import tyro

COLLECTION_SEED = 1
DECISIONS = 100


@dataclass(frozen=True)
class Arguments:
    """What to measure."""

    rollouts: int = 6
    weights: str = ""


def main(arguments: Arguments) -> None:
    """Measure and print."""
    os.environ.setdefault("LP_NUM_THREADS", "1")
    from pathlib import Path

    import torch

    from roep_gym.envs.task_catalog import find_task
    from roep_gym.policies.expert_skills import SKILLS
    from roep_gym.policies.visuomotor import network
    from roep_gym.policies.visuomotor.policy import WEIGHTS
    from roep_gym.training.visuomotor.collect import CollectionConfig, collect
    from roep_gym.training.visuomotor.train import localisation_errors
    from roep_gym.wrappers.profiles import PROFILES

    torch.set_num_threads(1)
    folder = Path(arguments.weights) if arguments.weights else WEIGHTS
    names = list(PROFILES)
    print("| task | frames |", " | ".join(f"{name}: median, p90" for name in names), "|")
    print("|" + "---|" * (len(names) + 2))
    for suite, task in SKILLS:
        trained = network.load(folder / f"{suite}.safetensors").network
        config = CollectionConfig(
            rollouts=arguments.rollouts, moved_frames=0, interval=8, seed=COLLECTION_SEED
        )
        scenes = collect(suite, task, config)
        chosen = ~scenes.held
        places = torch.from_numpy(scenes.places[chosen])
        instruction = find_task(suite, task).instruction
        cells = []
        for name in names:
            images = [
                PROFILES[name].perturb(image, "image", ("localisation", 0, index), 0, "agentview_image")[0]
                for index, image in enumerate(scenes.images[chosen])
            ]
            errors = (
                100.0
                * localisation_errors(trained, instruction, torch.from_numpy(np.stack(images)), places)[:, 0]
            )
            cells.append(f"{np.median(errors):.2f}, {np.quantile(errors, 0.9):.2f}")
        print(f"| {find_task(suite, task).paper_id} | {len(places)} |", " | ".join(cells), "|", flush=True)
    print()
    for batch in (1, 8):
        print(
            f"A decision in a batch of {batch}: {1e3 * decision_seconds(str(folder), batch):.1f} ms, one thread"
        )


def decision_seconds(weights: str, batch: int) -> float:
    """Return the median seconds of a decision, image to chunk, when so many are asked in one call."""
    from roep_gym.envs.libero_env import LiberoEnv
    from roep_gym.policies.base import PolicyEpisode, PolicyInput
    from roep_gym.policies.visuomotor.network import CAMERA, IMAGE_SIZE
    from roep_gym.policies.visuomotor.policy import VisuomotorPolicy

    env = LiberoEnv("goal_stove", cameras=[CAMERA], image_size=IMAGE_SIZE)
    observation, info = env.reset(options={"init_state": 0})
    env.close()
    policy = VisuomotorPolicy(weights=weights, batched=True)
    instruction = info["instruction"]
    inputs = [PolicyInput(str(i), 0, instruction, observation) for i in range(batch)]
    seconds = []
    for _ in range(DECISIONS):
        for asked in inputs:
            policy.begin(
                PolicyEpisode(asked.episode, env.suite, env.task, instruction, 0, env.observation_fields)
            )
        started = time.perf_counter()
        policy.act(inputs)
        seconds.append((time.perf_counter() - started) / batch)
    return median(seconds)


if __name__ == "__main__":
    main(tyro.cli(Arguments))
