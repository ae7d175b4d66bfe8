"""Cells that several tables share: a row's label, a condition's rate, a value that another fact bars."""

from __future__ import annotations

from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, missing, rate, text

__all__ = ["ROW_COLUMNS", "row_cells", "success_cell", "unless"]

ROW_COLUMNS = (
    Column("model", "Model", "left"),
    Column("suite", "Suite", "left"),
    Column("task", "Task", "left"),
)


def row_cells(run: Run, row: int) -> tuple[Cell, ...]:
    """Return the cells of `ROW_COLUMNS`."""
    return tuple(map(text, run.label(row)))


def success_cell(run: Run, row: int, condition: str, outcome: str = "success") -> Cell:
    """Return the rate of an outcome in a condition, or why there is none."""
    cell = run.judgement.rates.sel(condition=condition, outcome=outcome).isel(row=row)
    value, low, high = (float(cell[name]) for name in ("rate", "rate_low", "rate_high"))
    reason = run.absent(row, condition) or f"{outcome} was not observed in every episode of {condition!r}"
    return rate(value, int(cell["count"]), int(cell["n"]), (low, high), reason)


def unless(barred: str, cell: Cell) -> Cell:
    """Return the cell, or N/A for the reason that bars it."""
    return missing(barred) if barred else cell
