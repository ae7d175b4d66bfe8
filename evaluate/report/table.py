"""The one table model: typed cells under named columns, with a reason wherever something is missing.

`Cell` holds a value with its text, `Column` a name with its heading, `Field` also what fills the column, and `Table`
lays them out; `table_of` makes one of fields and lines. `number`, `count`, `rate`, `text` and `missing` make cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from roep_gym.error import InvalidInputError

__all__ = ["Cell", "Column", "Field", "Table", "count", "missing", "number", "rate", "table_of", "text"]

Value = str | int | float


@dataclass(frozen=True)
class Cell:
    """One entry of a table.

    Attributes:
        value: The value; None where it is missing.
        text: How people read it; "N/A" where it is missing.
        reason: Why it is missing.
        parts: Further numbers behind the value, such as the counts of a rate.
    """

    value: Value | None
    text: str
    reason: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Identifier, the heading in CSV.
        heading: Heading for people.
        align: "left" or "right".
        parts: Parts of its cells that CSV writes into columns of their own, `<name>_<part>`.
        reader: Who gets it: "people" (every form but CSV), "programs" (CSV), or "all".
    """

    name: str
    heading: str
    align: Literal["left", "right"] = "right"
    parts: tuple[str, ...] = ()
    reader: Literal["all", "people", "programs"] = "all"


@dataclass(frozen=True)
class Field(Column):
    """A column and what fills it.

    Attributes:
        cell: Makes its cell of a line.
        downstream: Whether its value is not applicable where the row is not admitted.
    """

    cell: Callable[..., Cell] = field(kw_only=True)
    downstream: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        name: Identifier, such as "A4".
        title: What it shows, in one line.
        columns: Its columns.
        rows: One cell a column.
        notes: Lines below it in every form but CSV.

    Raises:
        InvalidInputError: A row has another number of cells than there are columns.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise InvalidInputError(
                    f"Expected {len(self.columns)} cells in each row of table {self.name}, got {len(row)}."
                )

    def column(self, name: str) -> list[Cell]:
        """Return the cells of a column."""
        at = [column.name for column in self.columns].index(name)
        return [row[at] for row in self.rows]

    def values(self, name: str) -> list[Value | None]:
        """Return the values of a column."""
        return [cell.value for cell in self.column(name)]

    def without(self, *names: str) -> Table:
        """Return the table without some columns."""
        return self._keep(lambda column: column.name not in names)

    def for_reader(self, reader: Literal["people", "programs"]) -> Table:
        """Return the table with the columns that people, or programs, get."""
        return self._keep(lambda column: column.reader in ("all", reader))

    def _keep(self, keep: Callable[[Column], bool]) -> Table:
        kept = [k for k, column in enumerate(self.columns) if keep(column)]
        return replace(
            self,
            columns=tuple(self.columns[k] for k in kept),
            rows=tuple(tuple(row[k] for k in kept) for row in self.rows),
        )

    def lines(self) -> list[dict[str, Value | None]]:
        """Return the values of each row by column name."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, (cell.value for cell in row), strict=True)) for row in self.rows]

    def where(self, keep: Callable[[Mapping[str, Value | None]], bool]) -> Table:
        """Return the table with the rows for whose values, by column name, `keep` holds."""
        rows = (row for row, line in zip(self.rows, self.lines(), strict=True) if keep(line))
        return replace(self, rows=tuple(rows))


def table_of(
    name: str, title: str, fields: Sequence[Field], lines: Iterable[Any], notes: Sequence[str] = ()
) -> Table:
    """Return the table whose fields make a cell of each line."""
    rows = tuple(tuple(column.cell(line) for column in fields) for line in lines)
    return Table(name, title, tuple(fields), rows, tuple(notes))


def text(value: object) -> Cell:
    """Return a cell with text; an empty text shows as "-"."""
    return Cell(str(value), str(value) or "-")


def missing(reason: str) -> Cell:
    """Return a cell of a value that does not exist, with the reason."""
    return Cell(None, "N/A", reason)


def number(value: float, form: str, reason: str) -> Cell:
    """Return a number as `form` shows it, or the reason why it is undefined where it is NaN."""
    return missing(reason) if math.isnan(value) else Cell(float(value), format(value, form))


def count(value: int, reason: str = "not recorded") -> Cell:
    """Return a count; a negative one was not recorded."""
    return missing(reason) if value < 0 else Cell(int(value), str(int(value)))


def rate(value: float, successes: int, n: int, interval: tuple[float, float], reason: str) -> Cell:
    """Return a rate with its counts and its interval (lower, upper), or the reason why it is undefined (NaN)."""
    if math.isnan(value):
        return missing(reason)
    low, high = interval
    return Cell(
        float(value),
        f"{value:.2f} ({successes}/{n}) [{low:.2f}, {high:.2f}]",
        parts={"count": successes, "n": n, "low": low, "high": high},
    )
