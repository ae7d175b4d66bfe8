"""`roep-gym merge`: make one run of several finished ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.cli.terminal import say
from roep_gym.evaluate.comparison.merge import merge_runs
from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Make one run of several finished ones: other rows side by side, or further conditions of the same rows.

    Refused where a condition of a row is in two runs, or where the runs differ in what must be equal.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs of `roep-gym evaluate`, or of flat tables; two or more."""
    out: Path
    """Folder of the new run, which must not exist."""


def run(arguments: Arguments) -> None:
    """Write the merged run."""
    data = read_run(merge_runs(arguments.runs, arguments.out))
    recorded = int((data["success"].values != NOT_RUN).sum())
    say(
        f"{arguments.out}: {len(arguments.runs)} runs with {data.sizes['row']} rows and {data.sizes['condition']} "
        f"conditions, {recorded} of {data.sizes['episode']} planned episodes recorded. Judge it with: "
        f"roep-gym gate {arguments.out}"
    )
