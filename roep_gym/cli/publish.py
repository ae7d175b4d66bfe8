"""`roep-gym publish`: write of a run what its report needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from roep_gym.cli.arguments import Folder
from roep_gym.cli.terminal import say
from roep_gym.evaluate.report.publish import MAX_MEGABYTES, publish_run
from roep_gym.evaluate.report.records import open_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Write a folder with the records of a run, and of steps and frames what its tables and figures need.

    `roep-gym report` makes the same tables and figures of it.
    """

    run: Folder
    """Folder of a run, or of flat tables."""
    out: Path
    """The new folder, which must not exist."""
    max_megabytes: float = MAX_MEGABYTES
    """Largest size of the folder; nothing is written where it would be larger."""


def run(arguments: Arguments) -> None:
    """Write the folder."""
    published = publish_run(open_run(arguments.run), arguments.out, max_megabytes=arguments.max_megabytes)
    say(
        f"{published.folder}: {published.megabytes:.2f} MB; report it with: roep-gym report {published.folder}"
    )
    for sentence in published.left_out:
        say(f"- {sentence}")
