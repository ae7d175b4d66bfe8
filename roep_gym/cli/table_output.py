"""Printing tables of `roep_gym.evaluate.report` in the form that a command was asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from roep_gym.evaluate.report.render import FORMS, print_table

if TYPE_CHECKING:
    from roep_gym.evaluate.report.table import Table

__all__ = ["TableFormat", "print_tables"]

TableFormat = Literal["table", "csv", "markdown", "latex", "html"]


def print_tables(tables: Iterable[Table], form: TableFormat) -> None:
    """Print tables on standard output, an empty line between them."""
    for position, table in enumerate(tables):
        if position:
            print()
        if form == "table":
            from rich.console import Console

            print_table(table, Console(highlight=False))
        else:
            sys.stdout.write(FORMS[form].write(table))
