"""`roep-gym train-visuomotor`: make the weights of the built-in visuomotor policy anew."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from roep_gym.cli.terminal import say
from roep_gym.training.visuomotor.build import SUITES, build
from roep_gym.training.visuomotor.collect import CollectionConfig
from roep_gym.training.visuomotor.train import FitConfig

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Collect scenes with the scripted expert on LIBERO and train the policy's networks.

    Takes about 40 minutes on two cores without a GPU. Scenes that were collected already are used again.
    """

    out: Path
    """Folder of the weights, their checksums and the scenes; name it as the policy's argument `weights`."""
    suites: tuple[str, ...] = SUITES
    """Suites; one network each."""
    collecting: CollectionConfig = field(default_factory=CollectionConfig)
    """How scenes are collected."""
    training: FitConfig = field(default_factory=FitConfig)
    """How the networks are trained."""
    workers: int = 2
    """Processes."""


def run(arguments: Arguments) -> None:
    """Collect, train, write."""
    weights = build(
        arguments.out,
        suites=arguments.suites,
        collecting=arguments.collecting,
        training=arguments.training,
        workers=arguments.workers,
        report=lambda line: say(line),
    )
    say(f"Weights of {', '.join(weights)} in {arguments.out}; evaluate them with weights: {arguments.out}")
