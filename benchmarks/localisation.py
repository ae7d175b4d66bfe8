"""How far the visuomotor policy's estimates are off, under each perturbation profile, and what a decision costs.

Prints a Markdown table, for example with

    python benchmarks/localisation.py --rollouts 6

Each task is rolled out anew by the scripted expert on sampled placements that training did not see (another collection
seed); every frame before the grasp is perturbed once by each profile. Errors of the object's place, in centimetres.
The last line is the median time of a decision, one image, one thread.
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
    from roep_gym.policies.visuomotor.collect import CollectionConfig, collect
    from roep_gym.policies.visuomotor.policy import WEIGHTS
    from roep_gym.policies.visuomotor.train import localisation_errors
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
    image = torch.from_numpy(scenes.images[:1])
    words = network.read_words(instruction, trained.vocabulary)[None]
    seconds = []
    for _ in range(DECISIONS):
        started = time.perf_counter()
        with torch.inference_mode():
            trained(image, words)
        seconds.append(time.perf_counter() - started)
    print(f"\nOne localisation: {1e3 * median(seconds):.1f} ms, one thread, torch {torch.__version__}")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
