"""Tables with settings of their own: paired differences, power, sensitivity, comparisons, a run beside the paper.

Each function makes a table of what `roep_gym.evaluate.judging`, `.statistics` or `.comparison` computed.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.comparison.comparison import Comparison
from roep_gym.evaluate.comparison.premises import EQUAL, NOT_RECORDED
from roep_gym.evaluate.report.cells import (
    INFORM,
    INTERVAL_PARTS,
    PAIR_COLUMNS,
    ROW_COLUMNS,
    interval_cell,
    label_cells,
    pair_cells,
    range_cell,
    status_cell,
    with_bounds,
    words,
)
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text

__all__ = [
    "beside_paper_table",
    "break_points_table",
    "comparison_means_table",
    "comparison_table",
    "detectable_table",
    "floors_table",
    "groups_table",
    "pairs_table",
    "power_tables",
    "premises_table",
    "subsamples_table",
]


def pairs_table(evidence: xr.Dataset, pair: str) -> Table:
    """Return the statistics of one pair of conditions, as `paired_evidence` gives them."""
    one = evidence.sel(pair=pair)
    level = evidence.attrs["power"]
    rows = []
    for row in range(one.sizes["row"]):
        cell = one.isel(row=row)
        rows.append((*label_cells(cell), *pair_cells(cell), _detectable(cell)))
    return Table(
        name=pair,
        title=f"Paired differences of SR, {pair} (positive: the base succeeds more often)",
        columns=(*ROW_COLUMNS, *PAIR_COLUMNS, Column("detectable_drop", "Detectable drop")),
        rows=tuple(rows),
        notes=(
            f"Detectable drop: the smallest one that the exact McNemar test reports with probability {level:g} at this "
            "number of pairs and this share of gained ones. Holm p: adjusted for all rows of the table.",
            f"McNemar's test is exact; the bootstrap is too narrow where few pairs are discordant. {INFORM}",
        ),
    )


def groups_table(groups: xr.Dataset) -> Table:
    """Return the mean differences of `roep_gym.evaluate.judging.paired_evidence.group_evidence`."""
    names = [str(name) for name in groups.coords if name != "pair"]
    rows = []
    for group in range(groups.sizes["group"]):
        for pair in groups["pair"].values:
            cell = groups.isel(group=group).sel(pair=pair)
            rows.append((
                *(text(cell[name].item()) for name in names), text(pair),
                count(int(cell["tasks"])),
                number(float(cell["difference"]), "+.3f", str(cell["bootstrap_reason"].item())),
                interval_cell(cell),
            ))  # fmt: skip
    return Table(
        name="means",
        title="Mean differences of SR over tasks, with a bootstrap over tasks and initial states",
        columns=(
            *(Column(name, name.capitalize(), "left") for name in names),
            Column("pair", "Pair", "left"),
            Column("tasks", "Tasks"),
            Column("difference", "Mean difference"),
            Column("bootstrap", "Interval", "left", parts=INTERVAL_PARTS),
        ),
        rows=tuple(rows),
        notes=(f"With few tasks the interval is too narrow: it knows no other tasks than these. {INFORM}",),
    )


def detectable_table(evidence: xr.Dataset) -> Table:
    """Return the smallest drops that a run's pairs show."""
    pairs = ("perturb given baseline", "recovery given baseline", "full given perturb")
    rows = [
        (
            *label_cells(evidence.isel(row=row)),
            *(_detectable(evidence.isel(row=row).sel(pair=pair)) for pair in pairs),
        )
        for row in range(evidence.sizes["row"])
    ]
    return Table(
        name="detectable",
        title=f"Smallest drop of SR that this run shows with probability {evidence.attrs['power']:g}",
        columns=(*ROW_COLUMNS, *(Column(pair.replace(" ", "_"), pair) for pair in pairs)),
        rows=tuple(rows),
        notes=("By the exact McNemar test of a single row, at the recorded share of gained pairs.",),
    )


def power_tables(table: xr.Dataset) -> tuple[Table, ...]:
    """Return the numbers of episodes of `roep_gym.evaluate.statistics.power.power_table`, one table a design."""
    designs = {
        "paired_best": "paired, no pair gains (the fewest that can do)",
        "paired_independent": "paired, partners have nothing in common but their rates",
        "unpaired": "not paired",
    }
    level = f"power {table.attrs['power']:g}, level {table.attrs['alpha']:g}"
    tests = table.attrs["tests"]
    if tests > 1:
        level += f" over {tests} rows (Holm's first step)"
    drops = table["success_drop"].values.tolist()
    return tuple(
        Table(
            name=name,
            title=f"Episodes of each condition that show a drop of SR: {design} ({level})",
            columns=(
                Column("base_rate", "Base SR"),
                *(Column(f"drop_{drop:g}", f"drop {drop:g}") for drop in drops),
            ),
            rows=tuple(
                (
                    number(float(rate), ".2f", ""),
                    *(
                        number(float(n), ".0f", "more than the base rate")
                        for n in table[name].sel(base_rate=rate).values
                    ),
                )
                for rate in table["base_rate"].values
            ),
        )
        for name, design in designs.items()
    )


def _detectable(cell: xr.Dataset) -> Cell:
    reason = str(cell["bootstrap_reason"].item()) if math.isnan(float(cell["mcnemar_p"])) else ""
    return number(
        float(cell["detectable_drop"]), ".2f", reason or "not even the loss of every success would show"
    )


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
            range_cell(mean.low, mean.high, mean.reason),
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
        columns=words(premise="Premise", verdict="Verdict", detail="Detail", tasks="Tasks"),
        rows=tuple((*map(text, finding), text(", ".join(names))) for finding, names in tasks.items()),
        notes=(
            f"Equal in every row: {', '.join(equal) or 'none'}. A row of which a premise differs is refused; what was "
            "not recorded is taken on trust.",
        ),
    )


def beside_paper_table(beside: pd.DataFrame) -> Table:
    """Return a run beside the published numbers, of `roep_gym.evaluate.comparison.published.beside_published`."""
    rates = {"clean": "Clean SR", "perturb": "Medium SR"}
    columns = [*ROW_COLUMNS, *words(published_model="Paper's model")]
    for name, heading in rates.items():
        columns += [Column(f"{name}_sr", heading), Column(f"published_{name}_sr", "paper")]
        columns.append(Column(f"{name}_difference", "Difference", parts=INTERVAL_PARTS))
    columns += [Column("delta_sr", "Delta SR"), Column("published_delta_sr", "paper")]
    columns += [Column("timeout_rate", "Medium timeouts"), Column("published_timeout_rate", "paper")]
    columns += words(claim_status="Claim status", published_claim_status="paper")
    columns += words(limiting_factor="Limiting factor", published_limiting_factor="paper")
    rows = []
    for line in beside.to_dict("records"):
        in_paper = bool(line["published_model"])
        absent = "the run does not hold it" if in_paper else "the paper has no such model and task"
        cells = {
            name: text(line[name]) for name in ("model", "suite", "task", "claim_status", "limiting_factor")
        }
        for name in ("model", "claim_status", "limiting_factor"):
            cells[f"published_{name}"] = text(line[f"published_{name}"]) if in_paper else missing(absent)
        for name, form in {
            "clean_sr": ".2f",
            "perturb_sr": ".2f",
            "delta_sr": "+.2f",
            "timeout_rate": ".2f",
        }.items():
            for side in (name, f"published_{name}"):
                cells[side] = number(float(line[side]), form, absent)
        for name in rates:
            value, low, high = (float(line[f"{name}_difference{part}"]) for part in ("", "_low", "_high"))
            cells[f"{name}_difference"] = with_bounds(value, low, high, absent)
        rows.append(tuple(cells[column.name] for column in columns))
    return Table(
        name="paper",
        title="The run beside Table 3 of the paper",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            "Difference: run minus paper with Newcombe's interval for independent rates; the paper's episodes cannot "
            "be paired with the run's, and a difference may come from the checkpoint, the simulator or the budget.",
        ),
    )
