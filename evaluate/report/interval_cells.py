"""Cells of tables with intervals: a difference with its bounds, a pair's statistics, a row's label, a status."""

from __future__ import annotations

import math

import xarray as xr

from roep_gym.evaluate.judging.gate import CLAIM_STATUS
from roep_gym.evaluate.report.cells import ROW_COLUMNS
from roep_gym.evaluate.report.table import Cell, Column, count, missing, number, text

__all__ = [
    "INFORM",
    "INTERVAL_PARTS",
    "PAIR_COLUMNS",
    "interval_cell",
    "label_cells",
    "pair_cells",
    "range_cell",
    "status_cell",
    "with_bounds",
]

INTERVAL_PARTS = ("low", "high")
INFORM = "They inform and never gate."
PAIR_COLUMNS = (
    Column("support", "Pairs"),
    Column("lost", "Lost"),
    Column("gained", "Gained"),
    Column("difference", "Difference [paired score]", parts=INTERVAL_PARTS),
    Column("bootstrap", "Bootstrap over initial states", "left", parts=INTERVAL_PARTS),
    Column("mcnemar_p", "McNemar p"),
    Column("holm_p", "Holm p"),
)


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
    return missing(str(cell["bootstrap_reason"].item())) if math.isnan(low) else range_cell(low, high)


def range_cell(low: float, high: float) -> Cell:
    """Return an interval."""
    words = f"[{low:+.2f}, {high:+.2f}]"
    return Cell(words, words, parts=dict(zip(INTERVAL_PARTS, (low, high), strict=True)))


def with_bounds(value: float, low: float, high: float, reason: str) -> Cell:
    """Return a difference with its bounds, or the reason why there is none."""
    if math.isnan(value) or math.isnan(low):
        return missing(reason)
    parts = dict(zip(INTERVAL_PARTS, (low, high), strict=True))
    return Cell(value, f"{value:+.2f} [{low:+.2f}, {high:+.2f}]", parts=parts)
