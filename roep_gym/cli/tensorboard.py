"""`roep-gym tensorboard`: show a run in TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roep_gym.cli.arguments import Folder, gate_settings
from roep_gym.cli.terminal import say
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.tensorboard import write_events

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Write a run's rates, claim table and figures as TensorBoard event files.

    They are a view on the records, never their source. Writing again replaces what was written before.
    """

    run: Folder
    """Folder of a run, or of flat tables."""
    out: Path | None = None
    """Folder of the event files; default: RUN/tensorboard."""
    config: Path | None = None
    """JSON file with gate settings; default: the paper's."""


def run(arguments: Arguments) -> None:
    """Write the event files."""
    folder = arguments.out or arguments.run / "tensorboard"
    files = write_events(open_run(arguments.run, gate_settings(arguments.config)), folder)
    say(f"{len(files)} event files; look at them with: tensorboard --logdir {folder}")
