"""Tables with settings of their own: paired differences, power, sensitivity, comparisons, a run beside the paper.

Each function makes a table of what `roep_gym.evaluate.judging`, `.statistics` or `.comparison` computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.comparison.comparison import Comparison
from roep_gym.evaluate.comparison.premises import EQUAL, NOT_RECORDED
from roep_gym.evaluate.judging.gate import CLAIM_STATUS
from roep_gym.evaluate.report.cells import INFORM, ROW_COLUMNS, words
from roep_gym.evaluate.report.table import Cell, Column, Field, Table, count, missing, number, table_of, text

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

_BOUNDS = ("low", "high")


def _lines(data: xr.Dataset, dim: str = "row") -> list[xr.Dataset]:
    return [data.isel({dim: k}) for k in range(data.sizes[dim])]


def _texts(*columns: Column) -> tuple[Field, ...]:
    """Return fields that show variables of a line as text."""
    return tuple(
        Field(
            column.name, column.heading, "left", cell=lambda line, name=column.name: text(line[name].item())
        )
        for column in columns
    )


def _counts(**headings: str) -> tuple[Field, ...]:
    """Return fields that show variables of a line as counts."""
    return tuple(
        Field(name, heading, cell=lambda line, name=name: count(int(line[name])))
        for name, heading in headings.items()
    )


def _number(name: str, heading: str, form: str, why: Callable[[xr.Dataset], str] = lambda line: "") -> Field:
    """Return a field that shows a variable of a line as a number."""
    return Field(name, heading, cell=lambda line: number(float(line[name]), form, why(line)))


def _status(name: str, heading: str, variable: str, **at: int) -> Field:
    """Return a field that shows a variable of a line, a trace label, as people read it."""

    def cell(line: xr.Dataset) -> Cell:
        label = str(line[variable].isel(at).item())
        return Cell(label, CLAIM_STATUS[label])

    return Field(name, heading, "left", cell=cell)


def _interval(low: float, high: float, reason: str) -> Cell:
    """Return an interval, or the reason why there is none."""
    if math.isnan(low):
        return missing(reason)
    shown = f"[{low:+.2f}, {high:+.2f}]"
    return Cell(shown, shown, parts={"low": low, "high": high})


def _with_bounds(value: float, low: float, high: float, reason: str) -> Cell:
    """Return a difference with its bounds, or the reason why there is none."""
    if math.isnan(value):
        return missing(reason)
    interval = _interval(low, high, reason)
    return (
        interval
        if interval.value is None
        else replace(interval, value=value, text=f"{value:+.2f} {interval.text}")
    )


def _bootstrap(heading: str) -> Field:
    def cell(line: xr.Dataset) -> Cell:
        reason = str(line["bootstrap_reason"].item())
        return _interval(float(line["bootstrap_low"]), float(line["bootstrap_high"]), reason)

    return Field("bootstrap", heading, "left", parts=_BOUNDS, cell=cell)


def _no_pair(line: xr.Dataset) -> str:
    return str(line["bootstrap_reason"].item()) or "no pair"


def _difference(line: xr.Dataset) -> Cell:
    value, low, high = (float(line[name]) for name in ("difference", "score_low", "score_high"))
    return _with_bounds(value, low, high, _no_pair(line))


def _detectable(line: xr.Dataset) -> Cell:
    reason = str(line["bootstrap_reason"].item()) if math.isnan(float(line["mcnemar_p"])) else ""
    reason = reason or "not even the loss of every success would show"
    return number(float(line["detectable_drop"]), ".2f", reason)


_LABELS = _texts(*ROW_COLUMNS)
_PAIR = (
    *_counts(support="Pairs", lost="Lost", gained="Gained"),
    Field("difference", "Difference [paired score]", parts=_BOUNDS, cell=_difference),
    _bootstrap("Bootstrap over initial states"),
    _number("mcnemar_p", "McNemar p", ".3g", _no_pair),
    _number("holm_p", "Holm p", ".3g", _no_pair),
)
"""Fields of a line of `paired_statistics`."""


def pairs_table(evidence: xr.Dataset, pair: str) -> Table:
    """Return the statistics of one pair of conditions, as `paired_evidence` gives them."""
    fields = (*_LABELS, *_PAIR, Field("detectable_drop", "Detectable drop", cell=_detectable))
    title = f"Paired differences of SR, {pair} (positive: the base succeeds more often)"
    notes = (
        f"Detectable drop: the smallest one that the exact McNemar test reports with probability "
        f"{evidence.attrs['power']:g} at this number of pairs and this share of gained ones. Holm p: adjusted for all "
        "rows of the table.",
        f"McNemar's test is exact; the bootstrap is too narrow where few pairs are discordant. {INFORM}",
    )
    return table_of(pair, title, fields, _lines(evidence.sel(pair=pair)), notes)


def groups_table(groups: xr.Dataset) -> Table:
    """Return the mean differences of `roep_gym.evaluate.judging.paired_evidence.group_evidence`."""
    names = {str(name): str(name).capitalize() for name in groups.coords if name != "pair"}
    fields = (
        *_texts(*words(**names, pair="Pair")),
        *_counts(tasks="Tasks"),
        _number("difference", "Mean difference", "+.3f", lambda line: str(line["bootstrap_reason"].item())),
        _bootstrap("Interval"),
    )
    lines = [line for group in _lines(groups, "group") for line in _lines(group, "pair")]
    title = "Mean differences of SR over tasks, with a bootstrap over tasks and initial states"
    notes = (f"With few tasks the interval is too narrow: it knows no other tasks than these. {INFORM}",)
    return table_of("means", title, fields, lines, notes)


def detectable_table(evidence: xr.Dataset) -> Table:
    """Return the smallest drops that a run's pairs show."""
    pairs = ("perturb given baseline", "recovery given baseline", "full given perturb")
    fields = (
        *_LABELS,
        *(
            Field(pair.replace(" ", "_"), pair, cell=lambda line, pair=pair: _detectable(line.sel(pair=pair)))
            for pair in pairs
        ),
    )
    title = f"Smallest drop of SR that this run shows with probability {evidence.attrs['power']:g}"
    notes = ("By the exact McNemar test of a single row, at the recorded share of gained pairs.",)
    return table_of("detectable", title, fields, _lines(evidence), notes)


def power_tables(table: xr.Dataset) -> tuple[Table, ...]:
    """Return the numbers of episodes of `roep_gym.evaluate.statistics.power.power_table`, one table a design."""
    designs = {
        "paired_best": "paired, no pair gains (the fewest that can do)",
        "paired_independent": "paired, partners have nothing in common but their rates",
        "unpaired": "not paired",
    }
    level = f"power {table.attrs['power']:g}, level {table.attrs['alpha']:g}"
    if table.attrs["tests"] > 1:
        level += f" over {table.attrs['tests']} rows (Holm's first step)"

    def episodes(drop: float, design: str) -> Field:
        def cell(line: xr.Dataset) -> Cell:
            return number(float(line[design].sel(success_drop=drop)), ".0f", "more than the base rate")

        return Field(f"drop_{drop:g}", f"drop {drop:g}", cell=cell)

    drops = table["success_drop"].values.tolist()
    return tuple(
        table_of(
            name,
            f"Episodes of each condition that show a drop of SR: {design} ({level})",
            (_number("base_rate", "Base SR", ".2f"), *(episodes(drop, name) for drop in drops)),
            _lines(table, "base_rate"),
        )
        for name, design in designs.items()
    )


def break_points_table(points: xr.Dataset) -> Table:
    """Return the breaks of `roep_gym.evaluate.judging.sensitivity.break_points`, by threshold and value."""
    fields = (
        *_texts(Column("threshold", "Threshold")),
        _number("configured", "Configured", "g"),
        _number("break_at", "Changes at", ".4g"),
        _number("margin", "Margin", "+.4g"),
        *_LABELS,
        _status("strict_label", "Stricter than that", "strict_label"),
        _status("lenient_label", "There and more lenient", "lenient_label"),
    )
    breaks = np.isfinite(points["break_at"].values)
    still = int((~breaks.any(axis=1)).sum())
    notes = (
        "Changes at: the row's recorded value. Margin: how far the configured threshold is to the lenient side of "
        "it; 0 just passes, negative does not.",
        f"{still} rows change their status with no single threshold."
        if still
        else "Every row changes somewhere.",
    )
    lines = [
        line
        for threshold in _lines(points, "threshold")
        for line in _lines(threshold.sortby("break_at"))
        if np.isfinite(line["break_at"])
    ]
    return table_of("breaks", "Where a status changes when one threshold moves", fields, lines, notes)


def floors_table(floors: xr.Dataset) -> Table:
    """Return the statuses of `roep_gym.evaluate.judging.sensitivity.floor_statuses`."""
    statuses = (
        _status(f"floor_{floor:g}", f"floor {floor:.2f}", "trace_label", floor=k)
        for k, floor in enumerate(floors["floor"].values.tolist())
    )
    title = "Status under other floors of the clean success rate"
    return table_of("floors", title, (*_LABELS, *statuses), _lines(floors))


def subsamples_table(samples: xr.Dataset) -> Table:
    """Return the shares of `roep_gym.evaluate.judging.sensitivity.subsample_statuses`."""

    def share(size: int) -> Field:
        def cell(line: xr.Dataset) -> Cell:
            why = f"the row has {int(line['keys'])} episodes a condition"
            return number(float(line["same_share"].sel(size=size)), ".2f", why)

        return Field(f"episodes_{size}", f"{size} episodes", cell=cell)

    fields = (
        *_LABELS,
        *_counts(keys="Episodes"),
        _status("trace_label", "Status of all", "trace_label_of_all"),
        *(share(size) for size in samples["size"].values.tolist()),
    )
    title = "Share of random subsets of the episodes in which the status of all of them holds"
    notes = (
        f"{int(samples['subsets'].max())} subsets a row and size, the same episodes in every condition. "
        "Thresholds that are counts keep their values.",
    )
    return table_of("subsamples", title, fields, _lines(samples), notes)


def comparison_table(comparison: Comparison, condition: str) -> Table:
    """Return the paired differences of one condition."""

    def refusal(line: xr.Dataset) -> str:
        return str(line["refusal"].item())

    def unless_refused(field: Field) -> Field:
        return replace(field, cell=lambda line: missing(refusal(line)) if refusal(line) else field.cell(line))

    def rate(side: str) -> Field:
        def cell(line: xr.Dataset) -> Cell:
            return number(float(line[f"{side}_rate"]), ".2f", refusal(line) or "no pair")

        return Field(f"{side}_sr", f"{side.capitalize()} SR", cell=cell)

    fields = (
        *_LABELS[1:],
        rate("first"),
        rate("second"),
        *map(unless_refused, _PAIR),
        *_counts(unpaired="Without partner"),
    )
    title = f"{comparison.first} (first) against {comparison.second} (second), condition {condition}"
    notes = (
        f"Lost: the first side succeeded and the second failed. Holm p: for all rows of the table. {INFORM}",
    )
    return table_of(condition, title, fields, _lines(comparison.statistics.sel(condition=condition)), notes)


def comparison_means_table(comparison: Comparison) -> Table:
    """Return the mean differences over tasks, a condition."""
    rows = [
        (
            text(condition),
            count(mean.tasks),
            number(mean.estimate, "+.3f", mean.reason),
            _interval(mean.low, mean.high, mean.reason),
        )
        for condition, mean in comparison.means.items()
    ]
    columns = (
        *words(condition="Condition"),
        Column("tasks", "Tasks"),
        Column("difference", "Mean difference"),
        Column("bootstrap", "Bootstrap over tasks and initial states", "left", parts=_BOUNDS),
    )
    title = f"Mean difference of SR over tasks, {comparison.first} minus {comparison.second}"
    return Table("means", title, columns, tuple(rows))


def premises_table(comparison: Comparison) -> Table:
    """Return what was held against each other and is not equal, one line a finding."""
    tasks: dict[tuple[str, str, str], list[str]] = {}
    for premise in comparison.premises:
        if premise.verdict != EQUAL:
            detail = "" if premise.verdict == NOT_RECORDED else premise.detail
            tasks.setdefault((premise.name, premise.verdict, detail), []).append(premise.task)
    equal = sorted({p.name for p in comparison.premises} - {name for name, _, _ in tasks})
    columns = words(premise="Premise", verdict="Verdict", detail="Detail", tasks="Tasks")
    rows = tuple((*map(text, finding), text(", ".join(names))) for finding, names in tasks.items())
    notes = (
        f"Equal in every row: {', '.join(equal) or 'none'}. A row of which a premise differs is refused; what was "
        "not recorded is taken on trust.",
    )
    return Table(
        "premises", "Premises of the comparison that differ or were not recorded", columns, rows, notes
    )


def beside_paper_table(beside: pd.DataFrame) -> Table:
    """Return a run beside the published numbers, of `roep_gym.evaluate.comparison.published.beside_published`."""

    def absent(line: xr.Dataset) -> str:
        in_paper = bool(line["published_model"].item())
        return "the run does not hold it" if in_paper else "the paper has no such model and task"

    def published(name: str, heading: str = "paper") -> Field:
        def cell(line: xr.Dataset) -> Cell:
            in_paper = bool(line["published_model"].item())
            return text(line[f"published_{name}"].item()) if in_paper else missing(absent(line))

        return Field(f"published_{name}", heading, "left", cell=cell)

    def numbers(name: str, heading: str, form: str = ".2f") -> tuple[Field, Field]:
        return _number(name, heading, form, absent), _number(f"published_{name}", "paper", form, absent)

    def difference(name: str) -> Field:
        def cell(line: xr.Dataset) -> Cell:
            value, low, high = (float(line[f"{name}{part}"]) for part in ("", "_low", "_high"))
            return _with_bounds(value, low, high, absent(line))

        return Field(name, "Difference", parts=_BOUNDS, cell=cell)

    status, factor = _texts(*words(claim_status="Claim status", limiting_factor="Limiting factor"))
    fields = (
        *_LABELS,
        published("model", "Paper's model"),
        *numbers("clean_sr", "Clean SR"),
        difference("clean_difference"),
        *numbers("perturb_sr", "Medium SR"),
        difference("perturb_difference"),
        *numbers("delta_sr", "Delta SR", "+.2f"),
        *numbers("timeout_rate", "Medium timeouts"),
        status,
        published("claim_status"),
        factor,
        published("limiting_factor"),
    )
    notes = (
        "Difference: run minus paper with Newcombe's interval for independent rates; the paper's episodes cannot "
        "be paired with the run's, and a difference may come from the checkpoint, the simulator or the budget.",
    )
    lines = _lines(beside.to_xarray(), "index")
    return table_of("paper", "The run beside Table 3 of the paper", fields, lines, notes)
