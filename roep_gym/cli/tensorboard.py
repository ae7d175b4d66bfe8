"""`roep-gym tensorboard`: show a run in TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.cli.terminal import say
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.report.records import open_run

__all__ = ["TensorboardArguments", "run"]


@dataclass(frozen=True)
class TensorboardArguments:
    """Write a run's rates, claim table and figures as TensorBoard event files.

    They are a view on the records, never their source. Writing again replaces what was written before.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run, or of flat tables."""
    out: Path | None = None
    """Folder of the event files; default: RUN/tensorboard."""
    config: Path | None = None
    """JSON file with gate settings; default: the paper's."""


def run(argv: Sequence[str]) -> int:
    """Write the event files and return 0."""
    arguments = tyro.cli(TensorboardArguments, args=argv, prog="roep-gym tensorboard")
    from roep_gym.evaluate.report.tensorboard import write_events

    config = None if arguments.config is None else GateConfig.from_file(arguments.config)
    folder = arguments.out or arguments.run / "tensorboard"
    files = write_events(open_run(arguments.run, config), folder)
    say(f"{len(files)} event files; look at them with: tensorboard --logdir {folder}")
    return 0
