"""Cells and columns that several tables share, and the frame of a table with one line a row of the run.

`row_table` lays out `Field`s, each a column with what fills it; the other functions make single cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import xarray as xr

from roep_gym.evaluate.judging.calibrated_effect import ERROR_RATE, REPLICATED
from roep_gym.evaluate.judging.gate import CLAIM_STATUS
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, rate, text

__all__ = [
    "CALIBRATED_COLUMNS",
    "CALIBRATED_NOTE",
    "INFORM",
    "INTERVAL_PARTS",
    "PAIR_COLUMNS",
    "REPLICATED_NOTE",
    "ROW_COLUMNS",
    "Field",
    "calibrated_cells",
    "columns_of_rates",
    "floor_cell",
    "interval_cell",
    "label_cells",
    "pair_cells",
    "range_cell",
    "row_cells",
    "row_table",
    "status_cell",
    "success_cell",
    "unless",
    "with_bounds",
    "words",
]

INTERVAL_PARTS = ("low", "high")
INFORM = "They inform and never gate."


REPLICATED_MARK = "R"
REPLICATED_NOTE = f"{REPLICATED_MARK}: {REPLICATED}."


def floor_cell(run: Run, row: int, floor: float, reason: str) -> Cell:
    """Return a noise floor, marked where its clean side rests on a clone that repeats every record."""
    cell = number(floor, ".2f", reason)
    replicated = run.judgement.calibrated["clean_replicated"].values[row] == 1
    return (
        replace(cell, text=f"{cell.text} {REPLICATED_MARK}")
        if replicated and cell.value is not None
        else cell
    )


def calibrated_cells(run: Run, row: int, severity: str, reason: str) -> tuple[Cell, Cell]:
    """Return the p-value of the calibrated verdict with its executions, and the verdict."""
    here = run.judgement.calibrated.sel(severity=severity).isel(row=row)
    executions = f" ({int(here['clean_executions'])} + {int(here['perturbed_executions'])})"
    p_value = number(float(here["p_value"]), ".3g", reason)
    if p_value.value is None:
        return p_value, missing(reason)
    return replace(p_value, text=p_value.text + executions), text(here["label"].item())


def words(**headings: str) -> tuple[Column, ...]:
    """Return columns of text, by name and heading."""
    return tuple(Column(name, heading, "left") for name, heading in headings.items())


def columns_of_rates(**headings: str) -> tuple[Column, ...]:
    """Return columns of rates with their counts and intervals, by name and heading."""
    return tuple(
        Column(name, heading, parts=("count", "n", "low", "high")) for name, heading in headings.items()
    )


CALIBRATED_COLUMNS = (
    Column("calibrated_p", "Calibrated p (executions)"),
    *words(calibrated_effect="Calibrated effect"),
)
CALIBRATED_NOTE = (
    "The calibrated effect is an exact test that clean and perturbed executions of the same episodes are exchangeable, "
    "clones included (clean + perturbed executions of an episode); it errs in at most "
    f"{100 * ERROR_RATE:g} % of rows without an effect."
)
ROW_COLUMNS = words(model="Model", suite="Suite", task="Task")
PAIR_COLUMNS = (
    Column("support", "Pairs"),
    Column("lost", "Lost"),
    Column("gained", "Gained"),
    Column("difference", "Difference [paired score]", parts=INTERVAL_PARTS),
    Column("bootstrap", "Bootstrap over initial states", "left", parts=INTERVAL_PARTS),
    Column("mcnemar_p", "McNemar p"),
    Column("holm_p", "Holm p"),
)


class Field(NamedTuple):
    """One column of a table of rows.

    Attributes:
        column: The column.
        cell: Makes its cell of a row.
        downstream: Whether its value is not applicable where the row is not admitted.
    """

    column: Column
    cell: Callable[[int], Cell]
    downstream: bool = False


def row_table(run: Run, name: str, title: str, fields: Sequence[Field], notes: Sequence[str] = ()) -> Table:
    """Return a table with one line a row of the run: model, suite, task, then the fields."""
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        rows.append(
            (
                *row_cells(run, row),
                *(unless(barred if field.downstream else "", field.cell, row) for field in fields),
            )
        )
    return Table(name, title, (*ROW_COLUMNS, *(f.column for f in fields)), tuple(rows), tuple(notes))


def row_cells(run: Run, row: int) -> tuple[Cell, ...]:
    """Return the cells of `ROW_COLUMNS`."""
    return tuple(map(text, run.label(row)))


def unless(barred: str, make: Callable[[int], Cell], row: int) -> Cell:
    """Return what `make` makes of a row, or N/A for the reason that bars it."""
    return missing(barred) if barred else make(row)


def success_cell(run: Run, row: int, condition: str, outcome: str = "success") -> Cell:
    """Return the rate of an outcome in a condition, or why there is none."""
    cell = run.judgement.rates.sel(condition=condition, outcome=outcome).isel(row=row)
    value, low, high = (float(cell[name]) for name in ("rate", "rate_low", "rate_high"))
    reason = run.absent(row, condition) or f"{outcome} was not observed in every episode of {condition!r}"
    return rate(value, int(cell["count"]), int(cell["n"]), (low, high), reason)


def label_cells(cell: xr.Dataset) -> list[Cell]:
    """Return model, suite and task of a row of a Dataset."""
    return [text(cell[column.name].item()) for column in ROW_COLUMNS]


def status_cell(label: xr.DataArray) -> Cell:
    """Return a trace label as people read it."""
    return Cell(str(label.item()), CLAIM_STATUS[str(label.item())])


def pair_cells(cell: xr.Dataset) -> list[Cell]:
    """Return the cells of `PAIR_COLUMNS` of one row of `paired_statistics`."""
    reason = str(cell["bootstrap_reason"].item()) or "no pair"
    counts = [count(int(cell[name])) for name in ("support", "lost", "gained")]
    value, low, high = (float(cell[name]) for name in ("difference", "score_low", "score_high"))
    p_values = [number(float(cell[name]), ".3g", reason) for name in ("mcnemar_p", "holm_p")]
    return [*counts, with_bounds(value, low, high, reason), interval_cell(cell), *p_values]


def interval_cell(cell: xr.Dataset) -> Cell:
    """Return the bootstrap interval, or why there is none."""
    low, high = float(cell["bootstrap_low"]), float(cell["bootstrap_high"])
    return range_cell(low, high, str(cell["bootstrap_reason"].item()))


def range_cell(low: float, high: float, reason: str) -> Cell:
    """Return an interval, or the reason why there is none."""
    if math.isnan(low):
        return missing(reason)
    shown = f"[{low:+.2f}, {high:+.2f}]"
    return Cell(shown, shown, parts=dict(zip(INTERVAL_PARTS, (low, high), strict=True)))


def with_bounds(value: float, low: float, high: float, reason: str) -> Cell:
    """Return a difference with its bounds, or the reason why there is none."""
    if math.isnan(value) or math.isnan(low):
        return missing(reason)
    parts = dict(zip(INTERVAL_PARTS, (low, high), strict=True))
    return Cell(value, f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", parts=parts)
