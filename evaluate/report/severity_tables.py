"""The tables of the severity sweep: by model and by suite (Table A6), and each row against its own noise floor."""

from __future__ import annotations

import itertools

import xarray as xr

from roep_gym.evaluate.judging.noise_floor import SEVERITIES
from roep_gym.evaluate.judging.summaries import model_suite_summary, model_summary
from roep_gym.evaluate.report.cells import (
    CALIBRATED_NOTE,
    RATE_PARTS,
    REPLICATED_NOTE,
    ROW_COLUMNS,
    effect_fields,
    row_table,
    success_cell,
)
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Field, Table, count, missing, number, table_of, text

__all__ = ["severity", "severity_by_model", "severity_by_suite"]

_MEANS = {
    "mild_sr": "Mild SR",
    "strong_sr": "Strong SR",
    "strong_timeout_rate": "Strong timeout rate",
    "mild_clone_difference": "Mild: mean clone |Delta SR|",
    "strong_clone_difference": "Strong: mean clone |Delta SR|",
}


def severity_by_model(run: Run) -> Table:
    """Table A6, first panel: the severity sweep over all tasks of each model, with the support of its clones."""
    return _sweep(run, "A6a", model_summary(run.judgement), 1)


def severity_by_suite(run: Run) -> Table:
    """Table A6, second panel: the severity sweep of each model and suite."""
    return _sweep(run, "A6b", model_suite_summary(run.judgement), 2)


def _sweep(run: Run, name: str, summary: xr.Dataset, labels: int) -> Table:
    by = ROW_COLUMNS[:labels]
    groups = list(zip(*(summary[column.name].values.tolist() for column in by), strict=True))
    members = [[row for row in range(run.rows) if run.label(row)[:labels] == group] for group in groups]

    def mean(variable: str, heading: str) -> Field:
        base = variable.partition("_")[0]
        needed = (base, f"{base}_clone") if "clone" in variable else (base,)

        def cell(k: int) -> Cell:
            reasons = (run.not_admitted(row) or run.absent(row, c) for c in needed for row in members[k])
            return number(float(summary[variable].values[k]), ".3f", next(filter(None, reasons), ""))

        return Field(variable, heading, cell=cell)

    def clone_pairs(base: str) -> Field:
        def cell(k: int) -> Cell:
            absent = [run.first_absent(row, (base, f"{base}_clone")) for row in members[k]]
            if all(absent):
                return missing(absent[0])
            pair = run.judgement.integrity.sel(pair=f"{base}_clone given {base}").isel(row=members[k])
            support, mismatched = int(pair["support"].sum()), int(pair["mismatched_keys"].sum())
            return Cell(support, f"{support} ({mismatched})", parts={"mismatched_keys": mismatched})

        heading = f"{base.capitalize()} clone pairs"
        return Field(f"{base}_clone_pairs", heading, parts=("mismatched_keys",), cell=cell)

    fields = (
        *(
            Field(column.name, column.heading, "left", cell=lambda k, i=i: text(groups[k][i]))
            for i, column in enumerate(by)
        ),
        Field("tasks", "Tasks", cell=lambda k: count(len(members[k]))),
        *(mean(variable, heading) for variable, heading in _MEANS.items()),
        clone_pairs("mild"),
        clone_pairs("strong"),
    )
    title = f"Severity sweep by {' and '.join(column.name for column in by)}"
    notes = (
        "Secondary evidence: the severity sweep never changes a claim. Means over tasks.",
        "Clone pairs: pairs in support (mismatched keys).",
    )
    return table_of(name, title, fields, range(len(groups)), notes)


def severity(run: Run) -> Table:
    """The severity sweep of each row: its success rate and effect against the floor of its own clones."""

    def rate_of(name: str, heading: str, suffix: str = "", outcome: str = "success") -> Field:
        def cell(row: int, severity: str) -> Cell:
            return success_cell(run, row, SEVERITIES[severity] + suffix, outcome)

        return Field(name, heading, parts=RATE_PARTS, cell=cell, downstream=True)

    def clean(row: int, _: str) -> Cell:
        return success_cell(run, row, "baseline")

    fields = (
        Field("severity", "Severity", "left", cell=lambda _, severity: text(severity)),
        Field("clean_sr", "Clean SR", parts=RATE_PARTS, cell=clean, downstream=True),
        rate_of("sr", "SR"),
        rate_of("clone_sr", "SR of the clone", "_clone"),
        *effect_fields(run),
        rate_of("timeout_rate", "Timeout rate", outcome="timeout"),
    )
    notes = (
        "The floor of a severity is the larger of what re-running changes under clean and under that severity.",
        "Mild and strong are secondary evidence and never change a claim.",
        CALIBRATED_NOTE,
        REPLICATED_NOTE,
    )
    title = "Severity sweep of each row against the noise floor"
    return row_table(run, "severity", title, fields, notes, itertools.product(range(run.rows), SEVERITIES))
