"""Tables of sensitivity: thresholds at which a status changes, other floors, fewer episodes."""

from __future__ import annotations

import numpy as np
import xarray as xr

from roep_gym.evaluate.report.cells import ROW_COLUMNS
from roep_gym.evaluate.report.interval_cells import label_cells, status_cell
from roep_gym.evaluate.report.table import Column, Table, count, number, text

__all__ = ["break_points_table", "floors_table", "subsamples_table"]


def break_points_table(points: xr.Dataset) -> Table:
    """Return the breaks of `roep_gym.evaluate.judging.sensitivity.break_points`, by threshold and value."""
    lines = []
    for threshold in points["threshold"].values:
        one = points.sel(threshold=threshold)
        order = np.argsort(one["break_at"].values, kind="stable")
        for row in order[: int(np.isfinite(one["break_at"].values).sum())]:
            cell = one.isel(row=int(row))
            lines.append((
                text(threshold), number(float(cell["configured"]), "g", ""), number(float(cell["break_at"]), ".4g", ""),
                number(float(cell["margin"]), "+.4g", ""), *label_cells(cell), status_cell(cell["strict_label"]),
                status_cell(cell["lenient_label"]),
            ))  # fmt: skip
    still = int((~np.isfinite(points["break_at"].values).any(axis=1)).sum())
    return Table(
        name="breaks",
        title="Where a status changes when one threshold moves",
        columns=(
            Column("threshold", "Threshold", "left"),
            Column("configured", "Configured"),
            Column("break_at", "Changes at"),
            Column("margin", "Margin"),
            *ROW_COLUMNS,
            Column("strict_label", "Stricter than that", "left"),
            Column("lenient_label", "There and more lenient", "left"),
        ),
        rows=tuple(lines),
        notes=(
            "Changes at: the row's recorded value. Margin: how far the configured threshold is to the lenient side of "
            "it; 0 just passes, negative does not.",
            f"{still} rows change their status with no single threshold."
            if still
            else "Every row changes somewhere.",
        ),
    )


def floors_table(floors: xr.Dataset) -> Table:
    """Return the statuses of `roep_gym.evaluate.judging.sensitivity.floor_statuses`."""
    values = floors["floor"].values.tolist()
    rows = [
        (*label_cells(floors.isel(row=row)), *map(status_cell, floors["trace_label"].isel(row=row)))
        for row in range(floors.sizes["row"])
    ]
    return Table(
        name="floors",
        title="Status under other floors of the clean success rate",
        columns=(
            *ROW_COLUMNS,
            *(Column(f"floor_{value:g}", f"floor {value:.2f}", "left") for value in values),
        ),
        rows=tuple(rows),
    )


def subsamples_table(samples: xr.Dataset) -> Table:
    """Return the shares of `roep_gym.evaluate.judging.sensitivity.subsample_statuses`."""
    rows = []
    for row in range(samples.sizes["row"]):
        cell = samples.isel(row=row)
        keys = int(cell["keys"])
        shares = [
            number(
                float(cell["same_share"].sel(size=size)), ".2f", f"the row has {keys} episodes a condition"
            )
            for size in samples["size"].values
        ]
        rows.append((*label_cells(cell), count(keys), status_cell(cell["trace_label_of_all"]), *shares))
    return Table(
        name="subsamples",
        title="Share of random subsets of the episodes in which the status of all of them holds",
        columns=(
            *ROW_COLUMNS,
            Column("keys", "Episodes"),
            Column("trace_label", "Status of all", "left"),
            *(Column(f"episodes_{size}", f"{size} episodes") for size in samples["size"].values),
        ),
        rows=tuple(rows),
        notes=(
            f"{int(samples['subsets'].max())} subsets a row and size, the same episodes in every condition. "
            "Thresholds that are counts keep their values.",
        ),
    )
