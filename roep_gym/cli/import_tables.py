"""`roep-gym import`: make a run of another tool's outcome tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.config import GateConfig
from roep_gym.evaluate.flat_tables import read_tables, write_tables
from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.evaluate.storage import DATASET, save_dataset

__all__ = ["ImportArguments", "run"]


@dataclass(frozen=True)
class ImportArguments:
    """Make a run of outcome tables, which `roep-gym gate` then judges."""

    episodes: Annotated[Path, tyro.conf.Positional]
    """episodes.csv, one line an episode."""
    rows: Annotated[Path, tyro.conf.Positional]
    """rows.csv, one line a model, suite and task."""
    out: Path
    """Folder of the run; it must not hold one yet."""
    manifest: Annotated[Path | None, tyro.conf.Positional] = None
    """manifest.csv, the planned episodes."""
    seed_groups: int = GateConfig.seed_groups
    """Planned seed groups, where no manifest names the plan."""
    episodes_per_group: int = GateConfig.episodes_per_group
    """Planned episodes of a seed group, where no manifest names the plan."""


def run(argv: Sequence[str]) -> int:
    """Write the run and return 0."""
    arguments = tyro.cli(
        ImportArguments, args=argv, prog="roep-gym import", description=ImportArguments.__doc__
    )
    taken = [name for name in (DATASET, "plan.json", "journal.sqlite") if (arguments.out / name).exists()]
    if taken:
        raise InvalidInputError(
            f"Expected a folder without a run, but {arguments.out} holds {taken[0]}; choose another."
        )
    config = GateConfig(seed_groups=arguments.seed_groups, episodes_per_group=arguments.episodes_per_group)
    data = read_tables(arguments.episodes, arguments.rows, arguments.manifest, config=config)
    write_tables(data, arguments.out)
    save_dataset(data, arguments.out / DATASET)
    recorded = int((data["success"].values != NOT_RUN).sum())
    print(
        f"{arguments.out}: {data.sizes['row']} rows, {recorded} of {data.sizes['episode']} planned episodes recorded. "
        f"Judge it with: roep-gym gate {arguments.out}"
    )
    return 0
