"""Reading a CSV file whose columns have a declared kind, with file and line in every refusal.

`Column` declares a column, `read_csv` reads and checks a file, `Table` holds it together with its line numbers.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.typing import Array, BoolArray

__all__ = ["Column", "Table", "read_csv"]


_CONTROL_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXTS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Text may have tabs and line breaks."""


@dataclass(frozen=True)
class Column:
    """What a column holds.

    Attributes:
        kind: "name" (not empty), "text" (may be empty), "integer", or "number" (an empty cell is NaN).
        known: All names or texts that are allowed; empty allows every one.
        low: Smallest number.
        high: Largest number.
        optional: Whether an empty integer cell is allowed; it becomes `NOT_RUN`.
        wide: Whether integers may need more than the 53 bits that a float column keeps.
    """

    kind: Literal["name", "text", "integer", "number"]
    known: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A CSV file that was read.

    Attributes:
        path: The file.
        frame: Its columns: names are categorical, integers int64, numbers float64, texts str. The index is the line
            in the file.
        extra: Columns that were not declared.
    """

    path: Path
    frame: pd.DataFrame
    extra: tuple[str, ...]

    def refuse(self, wrong: ArrayLike, message: str) -> None:
        """Raise for the first line in which `wrong` holds.

        Args:
            wrong: Boolean, one a line.
            message: What is wrong, with columns as format fields.

        Raises:
            InvalidInputError: Some line is wrong.
        """
        mask = np.asarray(wrong, dtype=bool)
        if mask.any():
            at = int(mask.argmax())
            values = {str(name): _plain(self.frame[name].iloc[at]) for name in self.frame}
            raise InvalidInputError(f"{self.place(at)}: {message.format(**values)}.")

    def place(self, at: int) -> str:
        """Return file and line of the entry `at`."""
        return f"{self.path.name}, line {self.frame.index[at]}"


def read_csv(path: Path, columns: Mapping[str, Column], further: Mapping[str, Column]) -> Table:
    """Read a CSV file with declared columns.

    Args:
        path: The file, UTF-8, with a header; empty lines are skipped.
        columns: Columns that the file must have.
        further: Columns that it may have.

    Returns:
        The table; columns in neither mapping are kept as text.

    Raises:
        InvalidInputError: The file cannot be read, a column is missing or stands twice, a line has more or fewer cells
            than the header, or a value is not of its column's kind; the message names file and line.
    """
    header = _header(path, columns)
    declared = {name: column for name, column in {**columns, **further}.items() if name in header}
    extra = tuple(name for name in header if name not in declared)
    as_text = {
        name: "str" for name, column in declared.items() if column.kind in ("name", "text") or column.wide
    }
    as_text |= dict.fromkeys(extra, "str")
    missing = {name: [""] if name in as_text else ["", "nan", "NaN", "NAN"] for name in declared}
    try:
        frame = pd.read_csv(
            path,
            dtype=as_text,
            na_values=missing,
            keep_default_na=False,
            skip_blank_lines=False,
            low_memory=False,
            encoding="utf-8-sig",
        )
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise InvalidInputError(
            f"{path.name}: Expected a CSV file in UTF-8, but reading it failed: {reason}."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidInputError(
            f"{path.name}, line 2: Expected {len(header)} fields as in the header, got more."
        )
    _refuse_short_lines(path, len(header))
    frame.index = frame.index + 2  # The header is line 1.
    empty = frame[list(columns)].isna().all(axis=1)
    raw = Table(path, frame[~empty] if empty.any() else frame, extra)
    read: dict[str, Any] = {name: _read_column(raw, name, column) for name, column in declared.items()}
    read |= {name: _read_names(raw, name, Column("text")) for name in extra}
    return Table(path, pd.DataFrame(read, index=raw.frame.index), extra)


def _header(path: Path, columns: Mapping[str, Column]) -> list[str]:
    """Return the column names of a file that has those it must have."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header = next(csv.reader(stream), [])
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path.name}: Expected a CSV file in UTF-8, but reading it failed: {error}; save it as UTF-8 "
            "(spreadsheets may write UTF-16 or Latin-1)."
        ) from error
    except (OSError, csv.Error) as error:
        raise InvalidInputError(
            f"Expected a readable CSV file at {path}, but reading it failed: {error}."
        ) from error
    absent = [name for name in columns if name not in header]
    if absent:
        raise InvalidInputError(
            f"{path.name}, line 1: Expected the columns {', '.join(columns)}; missing: {', '.join(absent)}"
            f"{_hint(header)}."
        )
    for name in header:
        if _CONTROL_IN_NAMES.search(name):
            raise InvalidInputError(
                f"{path.name}, line 1: Expected column names without control characters, got {name!r}."
            )
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InvalidInputError(
            f"{path.name}, line 1: Expected each column once; given twice: {', '.join(twice)}."
        )
    return header


def _hint(header: list[str]) -> str:
    """Return what a header without the columns shows about how the file was saved."""
    first = header[0] if header else ""
    if "\0" in first:
        return "; the file looks like UTF-16, save it as UTF-8"
    for separator, name in ((";", "';'"), ("\t", "tabs")):
        if separator in first:
            return f"; the cells are separated by {name}, save the file with commas"
    return ""


def _refuse_short_lines(path: Path, width: int) -> None:
    """Refuse a line with fewer cells than the header, as a file has that was cut off; pandas fills such lines up."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for line, cells in enumerate(csv.reader(stream), start=1):
            if len(cells) < width and any(cells):
                raise InvalidInputError(
                    f"{path.name}, line {line}: Expected {width} fields as in the header, got {len(cells)}; "
                    "complete the line, since the file may be cut off."
                )


def _read_column(raw: Table, name: str, column: Column) -> Any:
    if column.kind in ("name", "text"):
        return _read_names(raw, name, column)
    numbers = _read_integers(raw, name, column) if column.kind == "integer" else _read_numbers(raw, name)
    given = raw.frame[name].notna().to_numpy()
    if column.high < math.inf:
        expected = f"a number in {column.low:.12g}..{column.high:.12g}"
    else:
        expected = f"a number >= {column.low:g}"
    _refuse(raw, name, given & ((numbers < column.low) | (numbers > column.high)), expected)
    return numbers


def _read_names(raw: Table, name: str, column: Column) -> Any:
    values = raw.frame[name]
    if column.kind == "name":
        _refuse(raw, name, values.isna().to_numpy(), "a name")
        # Not by `read_csv`, which makes numbers of categories that look like some ("007").
        values = values.astype("category")
        distinct = values.cat.categories
    else:
        values = values.fillna("").astype(object)
        distinct = values.unique()
    control = _CONTROL_IN_NAMES if column.kind == "name" else _CONTROL_IN_TEXTS
    for value in distinct:
        if control.search(value):
            at = int((values == value).to_numpy().argmax())
            raise InvalidInputError(
                f"{raw.place(at)}: Expected {name} without control characters, got {value!r}."
            )
    for value in distinct if column.known else ():
        if value not in column.known:
            at = int((values == value).to_numpy().argmax())
            raise InvalidInputError(
                f"{raw.place(at)}: {unknown_name(name, value, filter(None, column.known))}"
            )
    return values


def _read_numbers(raw: Table, name: str, expected: str = "a number") -> Array:
    values = raw.frame[name]
    if values.dtype.kind in "if":
        return np.asarray(values, dtype=np.float64)
    # Some cell is not a number, which made the column text (or, for True and False, boolean).
    texts = values.astype(object).map(str, na_action="ignore")
    numbers = np.asarray(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    _refuse(raw, name, np.isnan(numbers) & values.notna().to_numpy(), expected)
    return numbers


def _read_integers(raw: Table, name: str, column: Column) -> Array:
    values = raw.frame[name]
    if not column.optional:
        _refuse(raw, name, values.isna().to_numpy(), "an integer")
    if values.dtype.kind == "i":
        return np.asarray(values, dtype=np.int64)
    if column.wide:
        exact = pd.to_numeric(values.fillna(str(NOT_RUN)), errors="coerce")
        if exact.dtype == np.int64:
            return np.asarray(exact)
    numbers = np.where(values.isna(), NOT_RUN, _read_numbers(raw, name, "an integer"))
    whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) < 2.0**53)
    _refuse(raw, name, ~whole, "an integer of at most 63 bits" if column.wide else "an integer")
    return numbers.astype(np.int64)


def _refuse(raw: Table, name: str, wrong: BoolArray, expected: str) -> None:
    """Raise for the first wrong value of a column; an empty cell of a number reads as NaN."""
    if wrong.any():
        at = int(wrong.argmax())
        value = raw.frame[name].iloc[at]
        got = "an empty cell" if pd.isna(value) else repr(_plain(value))
        raise InvalidInputError(f"{raw.place(at)}: Expected {name} to be {expected}, got {got}.")


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value that a message shows."""
    return value.item() if isinstance(value, np.generic) else value
