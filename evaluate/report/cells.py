"""Cells and columns that several tables share, and the frame of a table with lines for each row of the run.

`row_table` lays out fields; the other functions make fields, columns and single cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import xarray as xr

from roep_gym.evaluate.judging.calibrated_effect import ERROR_RATE, REPLICATED
from roep_gym.evaluate.judging.noise_floor import SEVERITIES, severity_effects
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Field, Table, missing, number, rate, text

__all__ = [
    "CALIBRATED_NOTE",
    "INFORM",
    "RATE_PARTS",
    "REPLICATED_NOTE",
    "ROW_COLUMNS",
    "effect_fields",
    "rate_field",
    "row_cells",
    "row_table",
    "success_cell",
    "texts",
    "words",
]

RATE_PARTS = ("count", "n", "low", "high")
INFORM = "They inform and never gate."
REPLICATED_NOTE = f"R: {REPLICATED}."
CALIBRATED_NOTE = (
    "The calibrated effect is an exact test that clean and perturbed executions of the same episodes are exchangeable, "
    "clones included (clean + perturbed executions of an episode); it errs in at most "
    f"{100 * ERROR_RATE:g} % of rows without an effect."
)


def words(**headings: str) -> tuple[Column, ...]:
    """Return columns of text, by name and heading."""
    return tuple(Column(name, heading, "left") for name, heading in headings.items())


ROW_COLUMNS = words(model="Model", suite="Suite", task="Task")


def row_table(
    run: Run,
    name: str,
    title: str,
    fields: Sequence[Field],
    notes: Sequence[str] = (),
    lines: Iterable[tuple[int, Any]] | None = None,
) -> Table:
    """Return a table that begins with model, suite and task.

    Args:
        run: The run.
        name: Identifier.
        title: What it shows.
        fields: The columns that follow; their cells are made of a row, or of the two parts of a line.
        notes: Lines below it.
        lines: A row with something further for each line; None: one line for each row.
    """
    rows = []
    every: Iterable[tuple[Any, ...]] = ((row,) for row in range(run.rows)) if lines is None else lines
    for row, *further in every:
        barred = run.not_admitted(row)
        cells = (
            missing(barred) if barred and field.downstream else field.cell(row, *further) for field in fields
        )
        rows.append((*row_cells(run, row), *cells))
    return Table(name, title, (*ROW_COLUMNS, *fields), tuple(rows), tuple(notes))


def row_cells(run: Run, row: int) -> tuple[Cell, ...]:
    """Return the cells of `ROW_COLUMNS`."""
    return tuple(map(text, run.label(row)))


def texts(data: xr.Dataset, **headings: str) -> tuple[Field, ...]:
    """Return fields that show variables along `row` as text, by the name of the variable and heading."""
    return tuple(
        Field(name, heading, "left", cell=lambda row, values=data[name].values: text(values[row]))
        for name, heading in headings.items()
    )


def rate_field(run: Run, name: str, heading: str, condition: str, outcome: str = "success") -> Field:
    """Return the field of a rate; what is not clean is downstream of admission."""
    return Field(
        name,
        heading,
        parts=RATE_PARTS,
        cell=lambda row: success_cell(run, row, condition, outcome),
        downstream=condition != "baseline",
    )


def success_cell(run: Run, row: int, condition: str, outcome: str = "success") -> Cell:
    """Return the rate of an outcome in a condition, or why there is none."""
    cell = run.judgement.rates.sel(condition=condition, outcome=outcome).isel(row=row)
    value, low, high = (float(cell[name]) for name in ("rate", "rate_low", "rate_high"))
    reason = run.absent(row, condition) or f"{outcome} was not observed in every episode of {condition!r}"
    return rate(value, int(cell["count"]), int(cell["n"]), (low, high), reason)


def effect_fields(run: Run) -> tuple[Field, ...]:
    """Return fields of Delta SR, its noise floor, the effect against it, and the calibrated p-value and verdict.

    Their cells are made of a row and one of `SEVERITIES`, medium where none is named.
    """
    config, calibrated = run.judgement.config, run.judgement.calibrated
    against = severity_effects(run.judgement.rates, tolerance=config.tolerance).sel(outcome="success")

    def absent(row: int, severity: str, *suffixes: str) -> str:
        names = [f"{name}{suffix}" for suffix in suffixes for name in ("baseline", SEVERITIES[severity])]
        return run.first_absent(row, names) or "no pair ran in the same scene"

    def delta(row: int, severity: str = "medium") -> Cell:
        value = against["signed_effect"].sel(severity=severity).values[row]
        return number(float(value), "+.2f", absent(row, severity, ""))

    def floor(row: int, severity: str = "medium") -> Cell:
        value = against["floor"].sel(severity=severity).values[row]
        cell = number(float(value), ".2f", absent(row, severity, "", "_clone"))
        replicated = cell.value is not None and calibrated["clean_replicated"].values[row] == 1
        return replace(cell, text=f"{cell.text} R") if replicated else cell

    def effect(row: int, severity: str = "medium") -> Cell:
        here = against.sel(severity=severity).isel(row=row)
        known = int(here["above_floor"]) >= 0
        return text(here["label"].item()) if known else missing(absent(row, severity, "", "_clone"))

    def p_value(row: int, severity: str = "medium") -> Cell:
        here = calibrated.sel(severity=severity).isel(row=row)
        cell = number(float(here["p_value"]), ".3g", absent(row, severity, ""))
        executions = f" ({int(here['clean_executions'])} + {int(here['perturbed_executions'])})"
        return cell if cell.value is None else replace(cell, text=cell.text + executions)

    def verdict(row: int, severity: str = "medium") -> Cell:
        tested = p_value(row, severity)
        label = calibrated["label"].sel(severity=severity).values[row]
        return text(label) if tested.value is not None else tested

    return (
        Field("delta_sr", "Delta SR", cell=delta, downstream=True),
        Field("noise_floor_sr", "Floor F_SR", cell=floor, downstream=True),
        Field("effect", "Effect", "left", cell=effect, downstream=True),
        Field("calibrated_p", "Calibrated p (executions)", cell=p_value, downstream=True),
        Field("calibrated_effect", "Calibrated effect", "left", cell=verdict, downstream=True),
    )
