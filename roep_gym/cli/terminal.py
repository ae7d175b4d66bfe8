"""Printing for people: `say` prints a text, `make_console` makes a console, `print_tables` prints tables in a form.

Names come from other people's files: nothing here is read as markup, and control characters are shown, not obeyed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TextIO

from roep_gym import escape

if TYPE_CHECKING:
    from rich.console import Console

    from roep_gym.evaluate.report.table import Table

__all__ = ["TableFormat", "make_console", "print_tables", "say"]

TableFormat = Literal["table", "csv", "markdown", "latex", "html"]


def say(text: str = "", file: TextIO | None = None) -> None:
    """Print a text; default: on standard output."""
    print(escape.terminal(text), file=file, flush=True)


def make_console() -> Console:
    """Return a console on standard output that prints texts as they are."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


def print_tables(tables: Iterable[Table], form: TableFormat) -> None:
    """Print tables on standard output, an empty line between them."""
    from roep_gym.evaluate.report.render import FORMS, print_table

    for position, table in enumerate(tables):
        if position:
            say()
        if form == "table":
            print_table(table, make_console())
        else:
            sys.stdout.write(FORMS[form].write(table))
