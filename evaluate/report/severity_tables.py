"""The tables of the severity sweep: by model and by suite (Table A6), and each row against its own noise floor.

Each function makes one table of a run; `roep_gym.evaluate.report.tables.TABLES` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import xarray as xr

from roep_gym.evaluate.judging.noise_floor import SEVERITIES, severity_effects
from roep_gym.evaluate.judging.summaries import model_suite_summary, model_summary
from roep_gym.evaluate.report.cells import (
    CALIBRATED_COLUMNS,
    CALIBRATED_NOTE,
    REPLICATED_NOTE,
    ROW_COLUMNS,
    calibrated_cells,
    columns_of_rates,
    floor_cell,
    row_cells,
    success_cell,
    unless,
    words,
)
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text

__all__ = ["severity", "severity_by_model", "severity_by_suite"]


class _SweepValue(NamedTuple):
    """A mean of the severity sweep: its heading, and the conditions without which it is undefined."""

    heading: str
    needed: tuple[str, ...]


_SWEEP = {
    "mild_sr": _SweepValue("Mild SR", ("mild",)),
    "strong_sr": _SweepValue("Strong SR", ("strong",)),
    "strong_timeout_rate": _SweepValue("Strong timeout rate", ("strong",)),
    "mild_clone_difference": _SweepValue("Mild: mean clone |Delta SR|", ("mild", "mild_clone")),
    "strong_clone_difference": _SweepValue("Strong: mean clone |Delta SR|", ("strong", "strong_clone")),
}
_SWEEP_NOTE = "Secondary evidence: the severity sweep never changes a claim."


def severity_by_model(run: Run) -> Table:
    """Table A6, first panel: the severity sweep over all tasks of each model, with the support of its clones."""
    return _sweep(run, "A6a", model_summary(run.judgement), 1)


def severity_by_suite(run: Run) -> Table:
    """Table A6, second panel: the severity sweep of each model and suite."""
    return _sweep(run, "A6b", model_suite_summary(run.judgement), 2)


def _sweep(run: Run, name: str, summary: xr.Dataset, labels: int) -> Table:
    by = ROW_COLUMNS[:labels]
    rows = []
    for k in range(summary.sizes["group"]):
        group = tuple(str(summary[column.name].values[k]) for column in by)
        members = [row for row in range(run.rows) if run.label(row)[:labels] == group]
        values = []
        for column, (_, needed) in _SWEEP.items():
            reasons = [run.not_admitted(row) or run.absent(row, c) for c in needed for row in members]
            values.append(number(float(summary[column].values[k]), ".3f", next(filter(None, reasons), "")))
        clones = (_clone_support(run, members, base) for base in ("mild", "strong"))
        rows.append((*map(text, group), count(int(summary["tasks"].values[k])), *values, *clones))
    columns = (
        *by,
        Column("tasks", "Tasks"),
        *(Column(column, value.heading) for column, value in _SWEEP.items()),
        Column("mild_clone_pairs", "Mild clone pairs", parts=("mismatched_keys",)),
        Column("strong_clone_pairs", "Strong clone pairs", parts=("mismatched_keys",)),
    )
    title = f"Severity sweep by {' and '.join(column.name for column in by)}"
    notes = (f"{_SWEEP_NOTE} Means over tasks.", "Clone pairs: pairs in support (mismatched keys).")
    return Table(name, title, columns, tuple(rows), notes)


def _clone_support(run: Run, members: list[int], base: str) -> Cell:
    absent = [run.first_absent(row, (base, f"{base}_clone")) for row in members]
    if all(absent):
        return missing(absent[0])
    pair = run.judgement.integrity.sel(pair=f"{base}_clone given {base}").isel(row=members)
    support, mismatched = int(pair["support"].sum()), int(pair["mismatched_keys"].sum())
    return Cell(support, f"{support} ({mismatched})", parts={"mismatched_keys": mismatched})


def severity(run: Run) -> Table:
    """The severity sweep of each row: its success rate and effect against the floor of its own clones."""
    config = run.judgement.config
    found = severity_effects(run.judgement.rates, tolerance=config.tolerance).sel(outcome="success")

    def cells(row: int, name: str, condition: str) -> tuple[Callable[[int], Cell], ...]:
        here = found.sel(severity=name).isel(row=row)
        why = run.first_absent(row, ("baseline", condition))
        clones = why or run.first_absent(row, ("baseline_clone", f"{condition}_clone"))
        label = text(str(here["label"].item())) if int(here["above_floor"]) >= 0 else missing(clones)
        return (
            lambda row: success_cell(run, row, "baseline"),
            lambda row: success_cell(run, row, condition),
            lambda row: success_cell(run, row, f"{condition}_clone"),
            lambda _: number(float(here["signed_effect"]), "+.2f", why),
            lambda row: floor_cell(run, row, float(here["floor"]), clones),
            lambda _: label,
            *(lambda _, cell=cell: cell for cell in calibrated_cells(run, row, name, why)),
            lambda row: success_cell(run, row, condition, "timeout"),
        )

    rows = tuple(
        (
            *row_cells(run, row),
            text(name),
            *(unless(run.not_admitted(row), make, row) for make in cells(row, name, condition)),
        )
        for row in range(run.rows)
        for name, condition in SEVERITIES.items()
    )
    columns = (
        *ROW_COLUMNS,
        *words(severity="Severity"),
        *columns_of_rates(clean_sr="Clean SR", sr="SR", clone_sr="SR of the clone"),
        Column("delta_sr", "Delta SR"),
        Column("noise_floor_sr", "Floor F_SR"),
        *words(effect="Effect"),
        *CALIBRATED_COLUMNS,
        *columns_of_rates(timeout_rate="Timeout rate"),
    )
    notes = (
        "The floor of a severity is the larger of what re-running changes under clean and under that severity.",
        "Mild and strong are secondary evidence and never change a claim.",
        CALIBRATED_NOTE,
        REPLICATED_NOTE,
    )
    return Table("severity", "Severity sweep of each row against the noise floor", columns, rows, notes)
