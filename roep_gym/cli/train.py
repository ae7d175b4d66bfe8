"""`roep-gym train`: train a model with Stable-Baselines3 from a YAML file."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.cli.terminal import say
from roep_gym.documents import read_yaml
from roep_gym.error import InvalidInputError, shown

__all__ = ["TrainArguments", "run"]


@dataclass(frozen=True)
class TrainArguments:
    """Train a model with Stable-Baselines3; the folder then holds a plan that evaluates it."""

    config: Annotated[Path, tyro.conf.Positional]
    """YAML file with the fields of `TrainingConfig`."""
    out: Path | None = None
    """Folder of the run; default: runs/NAME."""
    seed: int | None = None
    """Seed, instead of the file's."""
    timesteps: int | None = None
    """Steps of all environments together, instead of the file's."""


def run(argv: Sequence[str]) -> int:
    """Train and return 0."""
    arguments = tyro.cli(TrainArguments, args=argv, prog="roep-gym train")
    # A wrapper of one's own, "module:attribute", is found in the working directory, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    from roep_gym.training.config import training_config
    from roep_gym.training.run import train

    source = read_yaml(arguments.config, "a configuration")
    if not isinstance(source, dict):
        raise InvalidInputError(
            f"Expected a mapping of training fields in {arguments.config}, got {shown(source)}."
        )
    source.setdefault("name", arguments.config.stem)
    for name, value in (("seed", arguments.seed), ("total_timesteps", arguments.timesteps)):
        if value is not None:
            source[name] = value
    config = training_config(source)
    out = arguments.out or Path("runs", config.name)
    model = out / "model.zip"
    existed = model.exists()
    try:
        trained = train(config, out)
    except BaseException:
        if model.exists() and not existed:
            say(f"Ended early; the model until then: {model}", file=sys.stderr)
        raise
    say(f"Model: {trained.model}; logs: tensorboard --logdir {out / 'tensorboard'}")
    if trained.plan is None:
        say(f"No plan evaluates it. {trained.without_plan}")
    else:
        say(f"Evaluate it: roep-gym evaluate {trained.plan} --out {out / 'evaluation'}")
    return 0
