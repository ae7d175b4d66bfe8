"""`roep-gym power`: how many episodes show a drop of the success rate, and which drop a run shows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.cli.terminal import TableFormat, print_tables
from roep_gym.evaluate.judging.paired_evidence import StatisticsConfig, paired_evidence
from roep_gym.evaluate.judging.pairing import align
from roep_gym.evaluate.report.statistics_tables import detectable_table, power_tables
from roep_gym.evaluate.statistics.power import power_table
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Print how many episodes show a drop of the success rate; of a run, which drop its pairs show."""

    run: Annotated[Path | None, tyro.conf.Positional] = None
    """Folder of a run or of flat tables; without one, the table for planning."""
    drops: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3)
    """Drops of the success rate."""
    base_rates: tuple[float, ...] = (0.5, 0.7, 0.9, 1.0)
    """Success rates of the base condition."""
    power: float = 0.8
    """Chance of reporting the drop."""
    alpha: float = 0.05
    """Level of the test."""
    tests: int = 1
    """Rows that are tested together in the table for planning."""
    format: TableFormat = "table"
    """How the tables are printed."""


def run(arguments: Arguments) -> None:
    """Print the tables."""
    if arguments.run is None:
        planned = power_table(
            arguments.drops,
            arguments.base_rates,
            power=arguments.power,
            alpha=arguments.alpha,
            tests=arguments.tests,
        )
        tables = power_tables(planned)
    else:
        config = StatisticsConfig(confidence=1 - arguments.alpha, power=arguments.power, resamples=1)
        tables = (detectable_table(paired_evidence(align(read_run(arguments.run)), config)),)
    print_tables(tables, arguments.format)
