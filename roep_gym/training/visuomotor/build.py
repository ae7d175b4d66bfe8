"""From nothing to weights: collect the scenes of every task, train a network a suite, write weights and model card.

`build` is what `roep-gym train-visuomotor` calls. Scenes that were collected already are used again, so an
interrupted call goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.arguments import check_names, read_integer
from roep_gym.envs.task_catalog import find_task
from roep_gym.error import InvalidInputError
from roep_gym.policies.expert_skills import SKILLS
from roep_gym.training.visuomotor import collect as collection
from roep_gym.training.visuomotor.collect import CollectionConfig, Scenes
from roep_gym.training.visuomotor.train import FitConfig, Outcome

__all__ = ["SUITES", "build"]

SUITES: tuple[str, ...] = tuple(sorted({suite for suite, _ in SKILLS}))
"""Suites of the tasks that the scripted expert, who demonstrates, has a skill for."""


def build(
    folder: Path,
    *,
    suites: Sequence[str] = SUITES,
    collecting: CollectionConfig,
    training: FitConfig,
    workers: int,
    report: Callable[[str], None],
) -> Mapping[str, Path]:
    """Collect scenes, train a network a suite, and write weights, checksums and model card; return the weights files.

    `workers` are processes; `report` takes one line about what was done.
    """
    read_integer("workers", workers, 1)
    if not suites:
        raise InvalidInputError(f"Expected suites among {list(SUITES)}, got none.")
    check_names("suite of the visuomotor policy", suites, SUITES)
    scenes = folder / "scenes"
    try:
        scenes.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"Expected a folder that can be written, got {folder}: {error}.") from error
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _one_thread) as pool:
        collected = {
            (suite, task): pool.submit(_collect, scenes, suite, task, collecting)
            for suite, task in SKILLS
            if suite in suites
        }
        files: dict[tuple[str, str], Path] = {}
        for (suite, task), future in collected.items():
            files[suite, task], line = future.result()
            report(f"{suite}/{task}: {line}")
        trained = {}
        for suite in suites:
            tasks = {task: file for (s, task), file in files.items() if s == suite}
            trained[suite] = pool.submit(_train, folder, suite, tasks, collecting, training)
        weights = {}
        for suite, training_run in trained.items():
            weights[suite], line = training_run.result()
            report(f"{suite}: {line}")
    sums = "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in weights.values()
    )
    (folder / "SHA256SUMS").write_text(sums)
    return weights


def _one_thread() -> None:
    """Keep each process to one core: several share the machine."""
    os.environ.setdefault("LP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)


def _collect(folder: Path, suite: str, task: str, config: CollectionConfig) -> tuple[Path, str]:
    what = json.dumps([asdict(config), Scenes._fields], sort_keys=True)
    identity = seeding.digest(suite, task, what).hex()[:12]
    path = folder / f"{suite}-{task}-{identity}.npz"
    if path.exists():
        return path, "collected before"
    started = time.monotonic()
    scenes = collection.collect(suite, task, config)
    unfinished = path.with_suffix(".part.npz")
    collection.save(unfinished, scenes)
    unfinished.replace(path)
    return path, f"{len(scenes.images)} frames in {time.monotonic() - started:.0f} s"


def _train(
    folder: Path, suite: str, files: Mapping[str, Path], collecting: CollectionConfig, training: FitConfig
) -> tuple[Path, str]:
    from roep_gym.policies.visuomotor import network
    from roep_gym.training.visuomotor.train import train

    instructions = {task: find_task(suite, task).instruction for task in files}
    scenes = {instructions[task]: collection.load(path) for task, path in files.items()}
    outcome = train(scenes, training)
    tasks = {
        instructions[task]: {
            "task": task,
            "frames": len(scenes[instructions[task]].images),
            "mean_places": _mean_places(scenes[instructions[task]]),
            "localisation_error_cm": _error_summary(outcome, instructions[task]),
        }
        for task in files
    }
    card = {
        "suite": suite,
        "tasks": tasks,
        "parameters": sum(parameter.numel() for parameter in outcome.network.parameters()),
        "training_frames": outcome.frames,
        "training_seconds": round(outcome.seconds),
        "collection": asdict(collecting),
        "training": asdict(training),
    }
    path = folder / f"{suite}.safetensors"
    network.save(path, network.Trained(outcome.network, card))
    medians = [float(np.median(100.0 * errors[:, 0]).round(2)) for errors in outcome.errors.values()]
    return path, f"trained in {outcome.seconds:.0f} s, median error of the object {medians} cm"


def _mean_places(scenes: Scenes) -> list[float]:
    """Return the mean places at the start of a rollout, in metres, which the blind control goes to."""
    _, first = np.unique(scenes.rollouts, return_index=True)
    mean: list[float] = scenes.places[first].mean(axis=0).round(4).tolist()
    return mean


def _error_summary(outcome: Outcome, instruction: str) -> Mapping[str, Any]:
    errors = 100.0 * outcome.errors[instruction]
    return {
        name: {
            "median": round(float(np.median(column)), 2),
            "p90": round(float(np.quantile(column, 0.9)), 2),
            "most": round(float(column.max()), 2),
        }
        for name, column in zip(("object", "receptacle"), errors.T, strict=True)
    }
