"""`roep-gym statistics`: intervals and tests that stand beside the verdicts of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import tyro

from roep_gym.cli.arguments import Folder
from roep_gym.cli.terminal import TableFormat, print_tables
from roep_gym.evaluate.judging.paired_evidence import StatisticsConfig, group_evidence, paired_evidence
from roep_gym.evaluate.judging.pairing import align
from roep_gym.evaluate.report.statistics_tables import groups_table, pairs_table
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]

PairName = Literal[
    "perturb given baseline",
    "recovery given baseline",
    "full given perturb",
    "baseline_clone given baseline",
    "perturb_clone given perturb",
]


@dataclass(frozen=True)
class Arguments:
    """Print paired differences with intervals and tests; they inform and never gate."""

    run: Folder
    """Folder of a run or of flat tables."""
    pair: PairName = "perturb given baseline"
    """Pair of conditions whose rows are printed."""
    format: TableFormat = "table"
    """How the tables are printed."""
    levels: Annotated[StatisticsConfig, tyro.conf.arg(name="")] = field(default_factory=StatisticsConfig)
    """Levels and resamples."""


def run(arguments: Arguments) -> None:
    """Print the statistics of each row, then the means over tasks."""
    aligned = align(read_run(arguments.run))
    evidence = paired_evidence(aligned, arguments.levels)
    groups = group_evidence(aligned, arguments.levels)
    print_tables([pairs_table(evidence, arguments.pair), groups_table(groups)], arguments.format)
