"""Tables of comparisons: two runs or models over the same episodes, and a run beside the published numbers."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from roep_gym.evaluate.comparison.comparison import EQUAL, NOT_RECORDED, Comparison
from roep_gym.evaluate.report.cells import ROW_COLUMNS
from roep_gym.evaluate.report.interval_cells import (
    INFORM,
    INTERVAL_PARTS,
    PAIR_COLUMNS,
    pair_cells,
    range_cell,
    with_bounds,
)
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text
from roep_gym.evaluate.statistics.bootstrap import BootstrapInterval

__all__ = ["beside_paper_table", "comparison_means_table", "comparison_table", "premises_table"]


def comparison_table(comparison: Comparison, condition: str) -> Table:
    """Return the paired differences of one condition."""
    one = comparison.statistics.sel(condition=condition)
    rows = []
    for row in range(one.sizes["row"]):
        cell = one.isel(row=row)
        refusal = str(cell["refusal"].item())
        rates = [
            number(float(cell[f"{side}_rate"]), ".2f", refusal or "no pair") for side in ("first", "second")
        ]
        cells = [missing(refusal)] * len(PAIR_COLUMNS) if refusal else pair_cells(cell)
        rows.append(
            (
                text(cell["suite"].item()),
                text(cell["task"].item()),
                *rates,
                *cells,
                count(int(cell["unpaired"])),
            )
        )
    return Table(
        name=condition,
        title=f"{comparison.first} (first) against {comparison.second} (second), condition {condition}",
        columns=(
            *ROW_COLUMNS[1:], Column("first_sr", "First SR"), Column("second_sr", "Second SR"), *PAIR_COLUMNS,
            Column("unpaired", "Without partner"),
        ),
        rows=tuple(rows),
        notes=(f"Lost: the first side succeeded and the second failed. Holm p: for all rows of the table. {INFORM}",),
    )  # fmt: skip


def comparison_means_table(comparison: Comparison) -> Table:
    """Return the mean differences over tasks, a condition."""
    rows = [
        (
            text(condition),
            count(mean.tasks),
            number(mean.estimate, "+.3f", mean.reason),
            _bounds(mean),
        )
        for condition, mean in comparison.means.items()
    ]
    return Table(
        name="means",
        title=f"Mean difference of SR over tasks, {comparison.first} minus {comparison.second}",
        columns=(
            Column("condition", "Condition", "left"),
            Column("tasks", "Tasks"),
            Column("difference", "Mean difference"),
            Column("bootstrap", "Bootstrap over tasks and initial states", "left", parts=INTERVAL_PARTS),
        ),
        rows=tuple(rows),
    )


def premises_table(comparison: Comparison) -> Table:
    """Return what was held against each other and is not equal, one line a finding."""
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for premise in comparison.premises:
        if premise.verdict != EQUAL:
            detail = "" if premise.verdict == NOT_RECORDED else premise.detail
            tasks.setdefault((premise.name, premise.verdict, detail), []).append(premise.task)
    equal = sorted({p.name for p in comparison.premises} - {name for name, _, _ in tasks})
    return Table(
        name="premises",
        title="Premises of the comparison that differ or were not recorded",
        columns=tuple(
            Column(name, name.capitalize(), "left") for name in ("premise", "verdict", "detail", "tasks")
        ),
        rows=tuple((*map(text, finding), text(", ".join(names))) for finding, names in tasks.items()),
        notes=(
            f"Equal in every row: {', '.join(equal) or 'none'}. A row of which a premise differs is refused; what was "
            "not recorded is taken on trust.",
        ),
    )


def beside_paper_table(beside: pd.DataFrame) -> Table:
    """Return a run beside the published numbers, of `roep_gym.evaluate.comparison.published.beside_published`."""
    rates = {
        "clean_sr": "Clean SR",
        "perturb_sr": "Medium SR",
        "delta_sr": "Delta SR",
        "timeout_rate": "Medium timeouts",
    }
    columns = [*ROW_COLUMNS, Column("published_model", "Paper's model", "left")]
    for name, heading in rates.items():
        columns += [Column(name, heading), Column(f"published_{name}", "paper")]
        if name in ("clean_sr", "perturb_sr"):
            columns.append(Column(name.replace("sr", "difference"), "Difference", parts=INTERVAL_PARTS))
    for name, heading in {"claim_status": "Claim status", "limiting_factor": "Limiting factor"}.items():
        columns += [Column(name, heading, "left"), Column(f"published_{name}", "paper", "left")]
    lines = [tuple(_published_cell(line, column) for column in columns) for line in beside.to_dict("records")]
    return Table(
        name="paper",
        title="The run beside Table 3 of the paper",
        columns=tuple(columns),
        rows=tuple(lines),
        notes=(
            "Difference: run minus paper with Newcombe's interval for independent rates; the paper's episodes cannot "
            "be paired with the run's, and a difference may come from the checkpoint, the simulator or the budget.",
        ),
    )


def _published_cell(line: Mapping[str, object], column: Column) -> Cell:
    value = line[column.name]
    absent = (
        "the paper has no such model and task" if not line["published_model"] else "the run does not hold it"
    )
    if not isinstance(value, float):
        published = column.name.startswith("published")
        return missing(absent) if published and not line["published_model"] else text(value)
    if not column.parts:
        return number(value, "+.2f" if "delta" in column.name else ".2f", absent)
    low, high = (float(str(line[f"{column.name}_{part}"])) for part in INTERVAL_PARTS)
    return with_bounds(value, low, high, absent)


def _bounds(mean: BootstrapInterval) -> Cell:
    return missing(mean.reason) if mean.reason else range_cell(mean.low, mean.high)
