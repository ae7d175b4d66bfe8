"""The tables of outcomes: rates, means, harm, effects and failures (Tables 3, 4 and A4).

Each function makes one table of a run; `roep_gym.evaluate.report.tables.TABLES` lists them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.summaries import harm_support, model_suite_summary, model_summary
from roep_gym.evaluate.judging.verdict_document import WORDING
from roep_gym.evaluate.report.cells import (
    CALIBRATED_COLUMNS,
    CALIBRATED_NOTE,
    INFORM,
    REPLICATED_NOTE,
    ROW_COLUMNS,
    Field,
    calibrated_cells,
    columns_of_rates,
    floor_cell,
    row_cells,
    row_table,
    success_cell,
    words,
)
from roep_gym.evaluate.report.claim_tables import ALL_SUITES
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text
from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.evaluate.statistics.paired_interval import paired_difference_interval

__all__ = [
    "LOW_SUPPORT",
    "aggregates",
    "effects",
    "failures",
    "harm",
    "outcomes",
    "success",
]

LOW_SUPPORT = "* fewer than 10 paired base successes"
_PAIR = ("baseline", "perturb")
_CLONES = ("baseline_clone", "perturb_clone")
_EFFECT_NOTE = "A negative difference is not called an improvement."


def _rate_field(run: Run, name: str, heading: str, condition: str, outcome: str = "success") -> Field:
    """Return the field of a rate; what is not clean is downstream of admission."""
    (column,) = columns_of_rates(**{name: heading})
    return Field(column, lambda row: success_cell(run, row, condition, outcome), condition != "baseline")


def _floor_fields(run: Run) -> tuple[Field, Field]:
    """Return the fields of Delta SR and of its noise floor."""
    floor = run.judgement.floor.sel(outcome="success")

    def delta(row: int) -> Cell:
        return number(float(floor["signed_effect"].values[row]), "+.2f", run.first_absent(row, _PAIR))

    def limit(row: int) -> Cell:
        return floor_cell(
            run, row, float(floor["floor"].values[row]), run.first_absent(row, (*_PAIR, *_CLONES))
        )

    return (
        Field(Column("delta_sr", "Delta SR"), delta, True),
        Field(Column("noise_floor_sr", "Floor F_SR"), limit, True),
    )


def outcomes(run: Run) -> Table:
    """Table 3: the outcome matrix, one line a row."""
    verdicts = run.judgement.verdicts

    def verdict(name: str, heading: str) -> Field:
        return Field(Column(name, heading, "left"), lambda row: text(verdicts[name].values[row]))

    fields = (
        _rate_field(run, "clean_sr", "Clean SR", "baseline"),
        _rate_field(run, "perturb_sr", "Medium SR", "perturb"),
        *_floor_fields(run),
        _rate_field(run, "perturb_timeout_rate", "Medium timeout rate", "perturb", "timeout"),
        verdict("claim_status", "Claim status"),
        verdict("limiting_factor", "Limiting factor"),
        verdict("trace_label", "Trace label"),
    )
    notes = (
        f"Rates with (episodes / n) and their {100 * run.judgement.config.confidence:g} % Wilson interval, which "
        "informs and does not gate.",
        REPLICATED_NOTE,
        WORDING,
    )
    return row_table(run, "3", "Outcome matrix", fields, notes)


_MEANS = {
    "clean_sr": "Mean clean SR",
    "perturb_sr": "Mean medium SR",
    "signed_delta_sr": "Mean signed Delta SR",
    "abs_effect_sr": "Mean effect |Delta SR|",
    "noise_floor_sr": "Mean floor F_SR",
    "perturb_timeout_rate": "Mean medium timeout rate",
    "hr_timeout": "Mean HR_timeout",
    "hr_unsafe": "Mean HR_unsafe",
}


def aggregates(run: Run) -> Table:
    """Table 4: means over the tasks of each model and suite, then over all tasks of each model."""
    rows = tuple(
        _aggregate_cells(summary, k)
        for summary in (model_suite_summary(run.judgement), model_summary(run.judgement))
        for k in range(summary.sizes["group"])
    )
    columns = (
        *ROW_COLUMNS[:2],
        Column("tasks", "Tasks"),
        *(Column(f"mean_{name}", heading, parts=("n",)) for name, heading in _MEANS.items()),
        Column("rows_effect_above_floor", "Rows with effect above floor", parts=("n",)),
    )
    notes = (
        "Arithmetic means of task-level values; episodes are never pooled across tasks. (n) is the number of tasks "
        "where the value is defined, where it is not all of them; downstream of a row that is not admitted nothing is.",
        "HR_timeout and HR_unsafe: full given perturb, seed-macro.",
        _channels_note(run),
    )
    return Table("4", "Model-suite aggregates", columns, rows, notes)


def _channels_note(run: Run) -> str:
    """Return under which channels unsafe attempts were looked for, without which no unsafe rate can be read."""
    return (
        f"Unsafe channels: {run.channels().sentence} A value of 0 means not observed under them, never safe."
    )


def _aggregate_cells(summary: xr.Dataset, k: int) -> tuple[Cell, ...]:
    tasks = int(summary["tasks"].values[k])
    suite = str(summary["suite"].values[k]) if "suite" in summary.coords else ALL_SUITES
    reason = "undefined for every task, or downstream of rows that are not admitted"
    means = []
    for name in _MEANS:
        n, cell = int(summary[f"{name}_n"].values[k]), number(float(summary[name].values[k]), ".3f", reason)
        shown = cell.text if n in (0, tasks) else f"{cell.text} ({n})"
        means.append(Cell(cell.value, shown, cell.reason, {"n": n}))
    defined = int(min(summary["abs_effect_sr_n"].values[k], summary["noise_floor_sr_n"].values[k]))
    above = int(summary["rows_effect_above_floor"].values[k])
    effect = (
        Cell(above, f"{above}/{defined}", parts={"n": defined})
        if defined
        else missing("no task has an effect and a noise floor")
    )
    return (text(summary["model"].values[k]), text(suite), count(tasks), *means, effect)


def harm(run: Run) -> Table:
    """Table A4: harm, full given perturb, under both aggregations, with its support and the active channels."""
    values, floor = harm_support(run.judgement), run.judgement.floor.sel(outcome="success")

    def absent(row: int) -> str:
        return run.first_absent(row, ("perturb", "full"))

    def support(row: int) -> Cell:
        pairs = int(values["paired_support"].values[row])
        return missing(absent(row)) if absent(row) else Cell(pairs, f"{pairs}{'*' if pairs < 10 else ''}")

    def rate_of(name: str, how: str, undefined: str) -> Callable[[int], Cell]:
        found = values[name].sel(aggregation=how).values
        return lambda row: number(float(found[row]), ".3f", absent(row) or undefined)

    def clone(name: str, base: str) -> Callable[[int], Cell]:
        found = floor[f"{name}_difference"].values
        return lambda row: number(float(found[row]), ".3f", run.first_absent(row, (base, f"{base}_clone")))

    def channels(row: int) -> Cell:
        active = run.channels(run.at(row, "full"))
        return text(active.names) if active.names else missing(absent(row) or active.sentence)

    undefined = "no base success has a partner"
    rates = {
        "hr_total": ("HR_total", undefined),
        "hr_timeout": ("HR_timeout", undefined),
        "hr_unsafe": ("HR_unsafe", f"{undefined} whose unsafe attempts were observed"),
    }
    fields = (
        _rate_field(run, "clean_sr", "Clean SR", "baseline"),
        _rate_field(run, "perturb_sr", "Medium SR", "perturb"),
        _rate_field(run, "perturb_timeout_rate", "Medium timeout rate", "perturb", "timeout"),
        Field(Column("paired_support", "Paired support"), support, True),
        *(
            Field(
                Column(f"{name}_{how}", f"{heading}, {how.replace('_', '-')}"), rate_of(name, how, why), True
            )
            for name, (heading, why) in rates.items()
            for how in ("pooled", "seed_macro")
        ),
        Field(Column("unsafe_channels", "Active unsafe channels", "left"), channels, True),
        Field(
            Column("nominal_clone_difference", "Clean clone |Delta SR|"), clone("nominal", "baseline"), True
        ),
        Field(
            Column("perturbed_clone_difference", "Medium clone |Delta SR|"),
            clone("perturbed", "perturb"),
            True,
        ),
    )
    notes = (
        "Direction: full given perturb; the share of perturb successes whose full partner failed.",
        LOW_SUPPORT,
        _channels_note(run),
    )
    return row_table(run, "A4", "Harm decomposition, full given perturb", fields, notes)


def effects(run: Run) -> Table:
    """The effect of the perturbation in each row, as a paired difference with its interval, against the floor."""
    pair = run.judgement.harm.sel(pair="perturb given baseline")
    floor = run.judgement.floor.sel(outcome="success")
    support, lost, gained = (pair[name].values for name in ("support", "harmed", "gained"))
    both = pair["denominator"].values - lost
    confidence = run.judgement.config.confidence
    interval = paired_difference_interval(both, lost, gained, support - both - lost - gained, confidence)
    difference = np.where(support > 0, (lost - gained) / np.maximum(support, 1), math.nan)

    def why(row: int) -> str:
        return run.first_absent(row, _PAIR) or "no pair ran in the same scene"

    def clones(row: int) -> str:
        return run.first_absent(row, _CLONES) or why(row)

    def counted(name: str, heading: str, values: np.ndarray) -> Field:
        return Field(Column(name, heading), lambda row: count(int(values[row])), True)

    def valued(name: str, heading: str, values: np.ndarray, form: str, reason: Callable[[int], str]) -> Field:
        return Field(Column(name, heading), lambda row: number(float(values[row]), form, reason(row)), True)

    def effect(row: int) -> Cell:
        known = floor["above_floor"].values[row] >= 0
        return text(floor["label"].values[row]) if known else missing(clones(row))

    def limit(row: int) -> Cell:
        return floor_cell(run, row, float(floor["floor"].values[row]), clones(row))

    def calibrated(part: int, row: int) -> Cell:
        return calibrated_cells(run, row, "medium", why(row))[part]

    fields = (
        counted("pairs", "Pairs", support),
        counted("lost", "Lost", lost),
        counted("gained", "Gained", gained),
        valued("paired_delta_sr", "Paired Delta SR", difference, "+.2f", why),
        valued("low", "Lower", interval.low, "+.2f", why),
        valued("high", "Upper", interval.high, "+.2f", why),
        Field(Column("noise_floor_sr", "Floor F_SR"), limit, True),
        Field(Column("effect", "Effect", "left"), effect, True),
        *(Field(column, partial(calibrated, k), True) for k, column in enumerate(CALIBRATED_COLUMNS)),
        valued("mcnemar_p", "McNemar p", pair["mcnemar_p"].values, ".3g", why),
    )
    notes = (
        f"Delta SR = SR(clean) - SR(medium) over pairs, with the {100 * confidence:g} % hybrid score interval for "
        "paired rates (Newcombe 1998, method 10); p is the exact McNemar test, not corrected for the number of rows.",
        f"{INFORM} {_EFFECT_NOTE}",
        CALIBRATED_NOTE,
        REPLICATED_NOTE,
    )
    title = "Effect of the medium perturbation against the noise floor"
    return row_table(run, "effects", title, fields, notes)


class _Endings(NamedTuple):
    """How the planned episodes of a row and condition ended: counts by reason, and the mean steps."""

    planned: int
    not_run: int
    by_reason: list[int]
    mean_steps: float


def _endings(run: Run, row: int, condition: str) -> _Endings:
    at = run.at(row, condition)
    ran = at[run.data["success"].values[at] != NOT_RUN]
    counts = np.bincount(run.data["reason"].values[ran], minlength=len(REASONS)).tolist()
    steps = float(run.data["steps"].values[ran].mean()) if ran.size else math.nan
    return _Endings(len(at), len(at) - len(ran), counts, steps)


def success(run: Run) -> Table:
    """The plain success rates: what people want first, and no claim."""
    rows = []
    for row in range(run.rows):
        for condition in run.conditions:
            ended, why = _endings(run, row, condition), run.absent(row, condition)
            failed = zip(REASONS, ended.by_reason, strict=True)
            shown = ", ".join(f"{n} {reason}" for reason, n in failed if n and reason != "success")
            rows.append(
                (
                    *row_cells(run, row),
                    text(condition),
                    success_cell(run, row, condition),
                    missing(why) if why else text(shown or "none"),
                    count(ended.not_run),
                    number(ended.mean_steps, ".0f", why),
                )
            )
    columns = (
        *ROW_COLUMNS,
        *words(condition="Condition"),
        *columns_of_rates(success_rate="Success rate"),
        *words(failures="Failures"),
        Column("not_run", "Not run"),
        Column("mean_steps", "Mean steps"),
    )
    interval = f"{100 * run.judgement.config.confidence:g} % Wilson interval"
    notes = (f"Rates with (episodes / n) and their {interval}. They claim nothing about recovery.",)
    return Table("success", "Success rates", columns, tuple(rows), notes)


def failures(run: Run) -> Table:
    """How the episodes of each row and condition ended."""
    rows = []
    for row in range(run.rows):
        for condition in run.conditions:
            ended, why = _endings(run, row, condition), run.absent(row, condition)
            rows.append(
                (
                    *row_cells(run, row),
                    text(condition),
                    count(ended.planned),
                    *(missing(why) if why else count(n) for n in ended.by_reason),
                    count(ended.not_run),
                    success_cell(run, row, condition),
                    number(ended.mean_steps, ".1f", why),
                )
            )
    columns = (
        *ROW_COLUMNS,
        *words(condition="Condition"),
        Column("planned", "Planned"),
        *(Column(reason, reason.replace("_", " ").capitalize()) for reason in REASONS),
        Column("not_run", "Not run"),
        *columns_of_rates(success_rate="Success rate"),
        Column("mean_steps", "Mean steps"),
    )
    notes = (
        "An episode that infrastructure ended is no outcome: it counts as not run.",
        "These are the recorded episodes, those of rows that are not admitted included.",
    )
    return Table("failures", "How episodes ended", columns, tuple(rows), notes)
