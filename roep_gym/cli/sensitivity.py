"""`roep-gym sensitivity`: what the statuses of a run depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import tyro

from roep_gym.cli.arguments import Folder
from roep_gym.cli.terminal import TableFormat, print_tables
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.sensitivity import (
    FLOORS,
    SIZES,
    break_points,
    floor_statuses,
    subsample_statuses,
)
from roep_gym.evaluate.report.statistics_tables import break_points_table, floors_table, subsamples_table
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Print at which value of each threshold a status changes, and whether it holds with fewer episodes."""

    run: Folder
    """Folder of a run or of flat tables."""
    floors: tuple[float, ...] = FLOORS
    """Floors of the clean success rate."""
    sizes: tuple[int, ...] = SIZES
    """Numbers of episodes a condition."""
    subsets: int = 100
    """Random subsets a row and size."""
    format: TableFormat = "table"
    """How the tables are printed."""
    gate: Annotated[GateConfig, tyro.conf.arg(name="")] = field(default_factory=GateConfig)
    """Thresholds and budgets around which the statuses are looked at."""


def run(arguments: Arguments) -> None:
    """Print the break points, the floors and the subsets."""
    data, config = read_run(arguments.run, arguments.gate), arguments.gate
    samples = subsample_statuses(data, config, sizes=arguments.sizes, subsets=arguments.subsets)
    tables = [
        break_points_table(break_points(data, config)),
        floors_table(floor_statuses(data, config, floors=arguments.floors)),
        subsamples_table(samples),
    ]
    print_tables(tables, arguments.format)
