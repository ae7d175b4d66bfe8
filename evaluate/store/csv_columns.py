"""Tables whose columns have a declared kind, with the place of the value in every refusal.

`CsvColumn` declares a column, `read_csv` reads and checks a file, `check_lines` checks lines in memory alike,
`CsvTable` holds either together with its places, and `is_unnamed` recognises a column without a name.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from roep_gym import escape
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.evaluate.store.given_files import appearance, encoding_of, spelled
from roep_gym.typing import Array, BoolArray

__all__ = ["CsvColumn", "CsvTable", "Line", "check_lines", "is_unnamed", "read_csv"]

_CONTROL_IN_NAMES = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CONTROL_IN_TEXTS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Text may have tabs and line breaks."""
_EXPONENT = re.compile(r"\s*[-+]?\d+(?:[.,]\d*)?E[-+]?\d+\s*", re.IGNORECASE)
_SPREADSHEET_NUMBER = re.compile(r"\s*[-+]?\d(?:[.,]\d+)?E\+\d{2,}\s*")
"""How a spreadsheet writes a long number; only this form makes a number of a name."""
_UNNAMED = re.compile(r"column \d+|Unnamed: \d+(?:\.\d+|_level_\d+)?")


@dataclass(frozen=True)
class CsvColumn:
    """What a column holds.

    Attributes:
        kind: "name" (not empty), "text" (may be empty), "integer", or "number" (an empty cell is NaN).
        known: All names or texts that are allowed; empty allows every one.
        low: Smallest number.
        high: Largest number.
        optional: Whether an empty integer cell is allowed; it becomes `NOT_RUN`.
        wide: Whether integers may need more than the 53 bits that a float column keeps.
        identity: Whether the value identifies an episode, so that a number with an exponent has lost what it is for.
    """

    kind: Literal["name", "text", "integer", "number"]
    known: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    optional: bool = False
    wide: bool = False
    identity: bool = False


class Line(NamedTuple):
    """A line in memory: where its values come from, for messages, and the values; None is an empty cell."""

    place: str
    values: Mapping[str, object]


@dataclass(frozen=True)
class CsvTable:
    """A table that was checked, with its name in messages and the columns that were not declared.

    Names are categorical, integers int64, numbers float64, texts str. The index is the line in the file, or the place
    of a line in memory.
    """

    name: str
    frame: pd.DataFrame
    extra: tuple[str, ...]

    def refuse(self, wrong: ArrayLike, message: str) -> None:
        """Raise for the first line in which `wrong` holds, with a message that has columns as format fields."""
        mask = np.asarray(wrong, dtype=bool)
        if mask.any():
            at = int(mask.argmax())
            values = {str(name): _plain(self.frame[name].iloc[at]) for name in self.frame}
            raise InvalidInputError(f"{self.place(at)}: {message.format(**values)}.")

    def place(self, at: int) -> str:
        """Return where the entry `at` comes from."""
        label = self.frame.index[at]
        return label if isinstance(label, str) else f"{self.name}, line {label}"


def check_lines(
    name: str, lines: Sequence[Line], columns: Mapping[str, CsvColumn], further: Mapping[str, CsvColumn]
) -> CsvTable:
    """Check lines in memory, each of which has every column of the table, as `read_csv` checks those of a file."""
    held = [*columns, *(key for key in (lines[0].values if lines else ()) if key not in columns)]
    frame = pd.DataFrame(
        {key: [line.values[key] for line in lines] for key in held}, index=[line.place for line in lines]
    )
    return _checked(name, frame, {**columns, **further})


def read_csv(
    path: Path, columns: Mapping[str, CsvColumn], further: Mapping[str, CsvColumn], *, name: str
) -> CsvTable:
    """Read a CSV file with a header, UTF-8 or with a byte-order mark; empty lines are skipped.

    Args:
        path: The file.
        columns: Columns that the file must have.
        further: Columns that it may have; those in neither mapping are kept as text.
        name: What messages call the file.

    Raises:
        InvalidInputError: The file cannot be read, a column is missing or appears twice, a line has more or fewer cells
            than the header, or a value is not of its column's kind; the message names file and line.
    """
    header = _header(path, name, columns)
    declared = {key: column for key, column in {**columns, **further}.items() if key in header}
    as_text = {
        key: "str" for key, column in declared.items() if column.kind in ("name", "text") or column.wide
    }
    as_text |= {key: "str" for key in header if key not in declared}
    missing = {key: [""] if key in as_text else ["", "nan", "NaN", "NAN"] for key in declared}
    try:
        frame = pd.read_csv(
            path,
            header=0,
            names=header,
            dtype=as_text,
            na_values=missing,
            keep_default_na=False,
            skip_blank_lines=False,
            low_memory=False,
            encoding=_encoding(path),
        )
    except (pd.errors.ParserError, UnicodeError) as error:
        reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise InvalidInputError(
            f"{name}: Expected a CSV file in UTF-8, but reading it failed: {reason}."
        ) from error
    if not isinstance(frame.index, pd.RangeIndex):
        raise InvalidInputError(f"{name}, line 2: Expected {len(header)} fields as in the header, got more.")
    _refuse_lines(path, name, header, declared)
    for key in as_text:
        if frame[key].str.startswith("'", na=False).any():
            frame[key] = frame[key].map(escape.uncsv, na_action="ignore")
    frame.index = frame.index + 2  # The header is line 1.
    empty = frame[list(columns)].isna().all(axis=1)
    frame = frame[~empty] if empty.any() else frame
    indexes = [key for key in header if is_unnamed(key) and _is_index(frame[key])]
    return _checked(name, frame.drop(columns=indexes), declared)


def _checked(name: str, frame: pd.DataFrame, declared: Mapping[str, CsvColumn]) -> CsvTable:
    """Check every column of a table; those that are not declared are text."""
    extra = tuple(key for key in frame if key not in declared)
    raw = CsvTable(name, frame, extra)
    read: dict[str, Any] = {
        key: _read_column(raw, key, column) for key, column in declared.items() if key in frame
    }
    read |= {key: _read_names(raw, key, CsvColumn("text")) for key in extra}
    return CsvTable(name, pd.DataFrame(read, index=frame.index), extra)


def _encoding(path: Path) -> str:
    """Return the encoding for readers that keep a byte-order mark in plain UTF-8."""
    encoding = encoding_of(path)
    return "utf-8-sig" if encoding == "utf-8" else encoding


def is_unnamed(key: str) -> bool:
    """Tell whether a column has no name of its own: `column 17` by its position, or what pandas calls it."""
    return _UNNAMED.fullmatch(key) is not None


def _is_index(values: pd.Series) -> bool:
    """Tell whether a column without a name is empty, or the line numbers of a data frame."""
    texts = values.fillna("").str.strip()
    return bool((texts == "").all() or texts.str.fullmatch(r"[0-9]+").all())


def _header(path: Path, name: str, columns: Mapping[str, CsvColumn]) -> list[str]:
    """Return the column names of a file that has those it must have; a column without one is named by its position."""
    try:
        with path.open(encoding=_encoding(path), newline="") as stream:
            header = [escape.uncsv(key) for key in next(csv.reader(stream), [])]
    except UnicodeError as error:
        raise InvalidInputError(
            f"{name}: Expected a CSV file in UTF-8, but reading it failed: {error}; save it as UTF-8 "
            "(spreadsheets may write Latin-1)."
        ) from error
    except (OSError, csv.Error) as error:
        raise InvalidInputError(
            f"Expected a readable CSV file at {path}, but reading it failed: {error}."
        ) from error
    absent = [key for key in columns if key not in header]
    if absent:
        raise InvalidInputError(
            f"{name}, line 1: Expected the columns {', '.join(columns)}; missing: {', '.join(absent)}"
            f"{_hint(header, absent)}."
        )
    for key in header:
        if _CONTROL_IN_NAMES.search(key):
            raise InvalidInputError(
                f"{name}, line 1: Expected column names without control characters, got {key!r}."
            )
    header = [key if appearance(key) else f"column {k}" for k, key in enumerate(header, start=1)]
    twice = sorted({key for key in header if header.count(key) > 1})
    if twice:
        raise InvalidInputError(
            f"{name}, line 1: Expected each column once; given twice: {', '.join(twice)}."
        )
    return header


def _hint(header: list[str], absent: list[str]) -> str:
    """Return what a header without the columns shows about how the file was saved."""
    first = header[0] if header else ""
    if "\0" in first:
        return "; the file looks like UTF-16, save it as UTF-8"
    for separator, name in ((";", "';'"), ("\t", "tabs")):
        if separator in first:
            return f"; the cells are separated by {name}, save the file with commas"
    alike = [spelled(key, name) for name in absent for key in header if appearance(key) == name]
    return f"; {', '.join(alike)} only look like them, correct the header" if alike else ""


def _refuse_lines(path: Path, name: str, header: list[str], declared: Mapping[str, CsvColumn]) -> None:
    """Refuse what pandas would not show: a line with fewer cells than the header, and identities with an exponent.

    A line is short in a file that was cut off, and pandas fills it up.
    """
    patterns = [
        (k, key, _SPREADSHEET_NUMBER if declared[key].kind == "name" else _EXPONENT)
        for k, key in enumerate(header)
        if key in declared and declared[key].identity
    ]
    with path.open(encoding=_encoding(path), newline="") as stream:
        for line, cells in enumerate(csv.reader(stream), start=1):
            if len(cells) < len(header):
                if any(cells):
                    raise InvalidInputError(
                        f"{name}, line {line}: Expected {len(header)} fields as in the header, got {len(cells)}; "
                        "complete the line, since the file may be cut off."
                    )
                continue
            for k, key, pattern in patterns:
                if ("E" in cells[k] or "e" in cells[k]) and pattern.fullmatch(cells[k]):
                    raise InvalidInputError(
                        f"{name}, line {line}: Expected every digit of {key}, got {cells[k]!r}, whose exponent has "
                        "lost digits; write the table again with whole numbers (in a spreadsheet, import the column "
                        "as text)."
                    )


def _read_column(raw: CsvTable, name: str, column: CsvColumn) -> Any:
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


def _read_names(raw: CsvTable, name: str, column: CsvColumn) -> Any:
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
            problem = f"Expected {name} without control characters, got {value!r}."
        elif column.known and value not in column.known:
            problem = str(unknown_name(name, value, filter(None, column.known)))
        else:
            continue
        at = int((values == value).to_numpy().argmax())
        raise InvalidInputError(f"{raw.place(at)}: {problem}")
    return values


def _read_numbers(raw: CsvTable, name: str, expected: str = "a number") -> Array:
    values = raw.frame[name]
    if values.dtype.kind in "if":
        return np.asarray(values, dtype=np.float64)
    # Some cell is not a number, which made the column text (or, for True and False, boolean).
    texts = values.astype(object).map(str, na_action="ignore")
    # Python reads digits of every script, blanks of every width and underscores.
    texts = texts.where(texts.str.fullmatch(r"[0-9a-zA-Z+. \t-]+").eq(True))
    numbers = np.asarray(pd.to_numeric(texts, errors="coerce"), dtype=np.float64)
    _refuse(raw, name, np.isnan(numbers) & values.notna().to_numpy(), expected)
    return numbers


def _read_integers(raw: CsvTable, name: str, column: CsvColumn) -> Array:
    values = raw.frame[name]
    if not column.optional:
        _refuse(raw, name, values.isna().to_numpy(), "an integer")
    if values.dtype.kind == "i":
        return np.asarray(values, dtype=np.int64)
    if column.wide:
        texts = values.fillna(str(NOT_RUN)).map(str)
        exact = pd.to_numeric(texts.where(texts.str.fullmatch(r"\s*[-+]?[0-9]+\s*")), errors="coerce")
        if exact.dtype == np.int64:
            return np.asarray(exact)
    numbers = np.where(values.isna(), NOT_RUN, _read_numbers(raw, name, "an integer"))
    whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) < 2.0**53)
    _refuse(raw, name, ~whole, "an integer of at most 63 bits" if column.wide else "an integer")
    return numbers.astype(np.int64)


def _refuse(raw: CsvTable, name: str, wrong: BoolArray, expected: str) -> None:
    """Raise for the first wrong value of a column; an empty cell of a number reads as NaN."""
    if wrong.any():
        at = int(wrong.argmax())
        value = raw.frame[name].iloc[at]
        got = "an empty cell" if pd.isna(value) else repr(_plain(value))
        raise InvalidInputError(f"{raw.place(at)}: Expected {name} to be {expected}, got {got}.")


def _plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value that a message shows."""
    return value.item() if isinstance(value, np.generic) else value
