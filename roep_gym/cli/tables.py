"""`roep-gym tables`: print tables of a run by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from roep_gym.cli.arguments import Folder, Repeated, gate_settings
from roep_gym.cli.terminal import TableFormat, print_tables
from roep_gym.error import unknown_name
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.tables import make_tables

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Print tables of a run: 2, 3, 4, A1 to A6, claims, checks, contract, effects, failures.

    Without names, the paper's Tables 3 and 4. A missing value is N/A, with its reason below the table.
    """

    run: Folder
    """Folder of a run, or of flat tables."""
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ("3", "4")
    """Names of tables."""
    task: Repeated = ()
    """Only rows of this task, where a table has tasks; once or more."""
    format: TableFormat = "table"
    """How the tables are printed."""
    config: Path | None = None
    """JSON file with gate settings; default: the paper's."""


def run(arguments: Arguments) -> None:
    """Print the tables."""
    opened = open_run(arguments.run, gate_settings(arguments.config))
    known = {str(task) for task in opened.data["task"].values}
    for task in arguments.task:
        if task not in known:
            raise unknown_name("task", task, known)
    tables = make_tables(opened, arguments.names)
    if arguments.task:
        chosen = {None, *arguments.task}
        tables = [table.where(lambda values: values.get("task") in chosen) for table in tables]
    print_tables(tables, arguments.format)
