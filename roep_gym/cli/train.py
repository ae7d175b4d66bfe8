"""`roep-gym train`: train a model with Stable-Baselines3 from a YAML file."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from roep_gym.cli.arguments import Folder
from roep_gym.cli.foreign_code import announce, training_code
from roep_gym.cli.terminal import say
from roep_gym.documents import read_yaml
from roep_gym.error import InvalidInputError, shown
from roep_gym.mapping_reader import read_mapping

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Train a model with Stable-Baselines3; the folder then holds a plan that evaluates it."""

    config: Folder
    """YAML file with the fields of `TrainingConfig`."""
    out: Path | None = None
    """Folder of the run; default: runs/NAME."""
    seed: int | None = None
    """Seed, instead of the file's."""
    timesteps: int | None = None
    """Steps of all environments together, instead of the file's."""
    resume: bool = False
    """Continue the unfinished training in the folder, from its last checkpoint or where it was ended; else begin."""


def run(arguments: Arguments) -> None:
    """Train."""
    # A wrapper of one's own, "module:attribute", is found in the working directory, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    from roep_gym.training.config import TrainingConfig
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
    announce(training_code(source))
    config = read_mapping(TrainingConfig, source, "training")
    out = arguments.out or Path("runs", config.name)
    if arguments.resume and (out / "resume").exists():
        announce([f"checkpoint {out / 'resume'}"])
    model = out / "model.zip"
    before = model.stat().st_mtime_ns if model.exists() else None
    try:
        with _terminable():
            trained = train(config, out, resume=arguments.resume)
    except BaseException:
        if model.exists() and model.stat().st_mtime_ns != before:
            say(f"Ended early; the model until then: {model}", file=sys.stderr)
        raise
    say(f"Model: {trained.model}; logs: tensorboard --logdir {out / 'tensorboard'}")
    if trained.plan is None:
        say(f"No plan evaluates it. {trained.without_plan}")
    else:
        say(f"Evaluate it: roep-gym evaluate {trained.plan} --out {out / 'evaluation'}")


@contextmanager
def _terminable() -> Iterator[None]:
    """End the body at SIGTERM as at Ctrl-C, so that it can save what it has; a second signal does not disturb that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
