"""`roep-gym compare`: two runs, two models of a run, or a run beside the published numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from roep_gym.cli.arguments import Folder
from roep_gym.cli.terminal import TableFormat, print_tables
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.comparison.comparison import compare
from roep_gym.evaluate.comparison.published import beside_published
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.judging.paired_evidence import StatisticsConfig
from roep_gym.evaluate.report.statistics_tables import (
    beside_paper_table,
    comparison_means_table,
    comparison_table,
    premises_table,
)
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Compare two runs, or two models of a run, over the same episodes; or lay a run beside the paper.

    A row is refused, with the reason, where keys, scenes, fingerprints, budgets, environments or profiles differ.
    """

    run: Folder
    """Folder of the first run, or of flat tables."""
    other: Annotated[Path | None, tyro.conf.Positional] = None
    """Folder of the second run; without one, two models of the first."""
    reference: Literal["paper"] | None = None
    """Lay the run beside published numbers instead."""
    model: str | None = None
    """Model of the first side, where its run holds several."""
    other_model: str | None = None
    """Model of the second side, where its run holds several."""
    format: TableFormat = "table"
    """How the tables are printed."""
    levels: Annotated[StatisticsConfig, tyro.conf.arg(name="")] = field(default_factory=StatisticsConfig)
    """Levels and resamples."""


def run(arguments: Arguments) -> None:
    """Print the comparison."""
    first = read_run(arguments.run)
    if arguments.reference is not None:
        if arguments.other or arguments.model or arguments.other_model:
            raise InvalidInputError(
                "Expected --reference alone, got a second run or a model beside it; drop one."
            )
        print_tables([beside_paper_table(beside_published(judge(first)))], arguments.format)
        return
    second = read_run(arguments.other) if arguments.other else first
    comparison = compare(
        first,
        second,
        first_model=arguments.model,
        second_model=arguments.other_model,
        config=arguments.levels,
    )
    conditions = comparison.statistics["condition"].values.tolist()
    tables = [comparison_table(comparison, condition) for condition in conditions]
    print_tables([*tables, comparison_means_table(comparison), premises_table(comparison)], arguments.format)
