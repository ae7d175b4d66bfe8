"""Tables of paired differences and of power: what the pairs of a run show, and what a number of pairs could."""

from __future__ import annotations

import math

import xarray as xr

from roep_gym.evaluate.report.cells import ROW_COLUMNS
from roep_gym.evaluate.report.interval_cells import (
    INFORM,
    INTERVAL_PARTS,
    PAIR_COLUMNS,
    interval_cell,
    label_cells,
    pair_cells,
)
from roep_gym.evaluate.report.table import Cell, Column, Table, count, number, text

__all__ = ["detectable_table", "groups_table", "pairs_table", "power_tables"]


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
