"""The tables of outcomes: rates, means, harm, effects and failures (Tables 3, 4 and A4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from functools import partial

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.summaries import harm_support, model_suite_summary, model_summary
from roep_gym.evaluate.judging.verdict_document import WORDING
from roep_gym.evaluate.report.cells import (
    CALIBRATED_NOTE,
    INFORM,
    RATE_PARTS,
    REPLICATED_NOTE,
    ROW_COLUMNS,
    effect_fields,
    rate_field,
    row_table,
    success_cell,
    texts,
)
from roep_gym.evaluate.report.claim_tables import ALL_SUITES
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Field, Table, count, missing, number, text
from roep_gym.evaluate.schema import REASONS
from roep_gym.evaluate.statistics.intervals import paired_difference_interval
from roep_gym.typing import Array

__all__ = ["aggregates", "effects", "failures", "harm", "outcomes", "success"]


def outcomes(run: Run) -> Table:
    """Table 3: the outcome matrix, one line a row."""
    delta, floor, *_ = effect_fields(run)
    fields = (
        rate_field(run, "clean_sr", "Clean SR", "baseline"),
        rate_field(run, "perturb_sr", "Medium SR", "perturb"),
        delta,
        floor,
        rate_field(run, "perturb_timeout_rate", "Medium timeout rate", "perturb", "timeout"),
        *texts(
            run.judgement.verdicts,
            claim_status="Claim status",
            limiting_factor="Limiting factor",
            trace_label="Trace label",
        ),
    )
    notes = (f"{_rates_note(run)}, which informs and does not gate.", REPLICATED_NOTE, WORDING)
    return row_table(run, "3", "Outcome matrix", fields, notes)


def _rates_note(run: Run) -> str:
    confidence = 100 * run.judgement.config.confidence
    return f"Rates with (episodes / n) and their {confidence:g} % Wilson interval"


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
        _aggregate_cells(summary.isel(group=k))
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


def _aggregate_cells(group: xr.Dataset) -> tuple[Cell, ...]:
    tasks, above = int(group["tasks"]), int(group["rows_effect_above_floor"])
    means = []
    for name in _MEANS:
        reason = "undefined for every task, or downstream of rows that are not admitted"
        n, cell = int(group[f"{name}_n"]), number(float(group[name]), ".3f", reason)
        shown = cell.text if n in (0, tasks) else f"{cell.text} ({n})"
        means.append(Cell(cell.value, shown, cell.reason, {"n": n}))
    defined = min(int(group["abs_effect_sr_n"]), int(group["noise_floor_sr_n"]))
    effect = Cell(above, f"{above}/{defined}", parts={"n": defined})
    if not defined:
        effect = missing("no task has an effect and a noise floor")
    suite = group["suite"].item() if "suite" in group.coords else ALL_SUITES
    return (text(group["model"].item()), text(suite), count(tasks), *means, effect)


def harm(run: Run) -> Table:
    """Table A4: harm, full given perturb, under both aggregations, with its support and the active channels."""
    values = harm_support(run.judgement)

    def absent(row: int) -> str:
        return run.first_absent(row, ("perturb", "full"))

    def support(row: int) -> Cell:
        pairs = int(values["paired_support"].values[row])
        return missing(absent(row)) if absent(row) else Cell(pairs, f"{pairs}{'*' if pairs < 10 else ''}")

    def harm_rate(name: str, heading: str, how: str, unobserved: str = "") -> Field:
        found = values[name].sel(aggregation=how).values

        def cell(row: int) -> Cell:
            reason = absent(row) or f"no base success has a partner{unobserved}"
            return number(float(found[row]), ".3f", reason)

        return Field(f"{name}_{how}", f"{heading}, {how.replace('_', '-')}", cell=cell, downstream=True)

    def channels(row: int) -> Cell:
        active = run.channels(run.at(row, "full"))
        return text(active.names) if active.names else missing(absent(row) or active.sentence)

    def clone(name: str, heading: str, base: str) -> Field:
        def cell(row: int) -> Cell:
            return number(float(values[name][row]), ".3f", run.first_absent(row, (base, f"{base}_clone")))

        return Field(name, heading, cell=cell, downstream=True)

    unobserved = " whose unsafe attempts were observed"
    both = ("pooled", "seed_macro")
    fields = (
        rate_field(run, "clean_sr", "Clean SR", "baseline"),
        rate_field(run, "perturb_sr", "Medium SR", "perturb"),
        rate_field(run, "perturb_timeout_rate", "Medium timeout rate", "perturb", "timeout"),
        Field("paired_support", "Paired support", cell=support, downstream=True),
        *(harm_rate("hr_total", "HR_total", how) for how in both),
        *(harm_rate("hr_timeout", "HR_timeout", how) for how in both),
        *(harm_rate("hr_unsafe", "HR_unsafe", how, unobserved) for how in both),
        Field("unsafe_channels", "Active unsafe channels", "left", cell=channels, downstream=True),
        clone("nominal_clone_difference", "Clean clone |Delta SR|", "baseline"),
        clone("perturbed_clone_difference", "Medium clone |Delta SR|", "perturb"),
    )
    notes = (
        "Direction: full given perturb; the share of perturb successes whose full partner failed.",
        "* fewer than 10 paired base successes",
        _channels_note(run),
    )
    return row_table(run, "A4", "Harm decomposition, full given perturb", fields, notes)


def effects(run: Run) -> Table:
    """The effect of the perturbation in each row, as a paired difference with its interval, against the floor."""
    pair = run.judgement.harm.sel(pair="perturb given baseline")
    support, lost, gained = (pair[name].values for name in ("support", "harmed", "gained"))
    both = pair["denominator"].values - lost
    confidence = run.judgement.config.confidence
    interval = paired_difference_interval(both, lost, gained, support - both - lost - gained, confidence)
    difference = np.where(support > 0, (lost - gained) / np.maximum(support, 1), math.nan)

    def counted(name: str, heading: str, values: Array) -> Field:
        return Field(name, heading, cell=lambda row: count(int(values[row])), downstream=True)

    def valued(name: str, heading: str, values: Array, form: str = "+.2f") -> Field:
        def cell(row: int) -> Cell:
            why = run.first_absent(row, ("baseline", "perturb")) or "no pair ran in the same scene"
            return number(float(values[row]), form, why)

        return Field(name, heading, cell=cell, downstream=True)

    _, *against_floor = effect_fields(run)
    fields = (
        counted("pairs", "Pairs", support),
        counted("lost", "Lost", lost),
        counted("gained", "Gained", gained),
        valued("paired_delta_sr", "Paired Delta SR", difference),
        valued("low", "Lower", interval.low),
        valued("high", "Upper", interval.high),
        *against_floor,
        valued("mcnemar_p", "McNemar p", pair["mcnemar_p"].values, ".3g"),
    )
    notes = (
        f"Delta SR = SR(clean) - SR(medium) over pairs, with the {100 * confidence:g} % hybrid score interval for "
        "paired rates (Newcombe 1998, method 10); p is the exact McNemar test, not corrected for the number of rows.",
        f"{INFORM} A negative difference is not called an improvement.",
        CALIBRATED_NOTE,
        REPLICATED_NOTE,
    )
    title = "Effect of the medium perturbation against the noise floor"
    return row_table(run, "effects", title, fields, notes)


def success(run: Run) -> Table:
    """The plain success rates: what people want first, and no claim."""

    def failed(row: int, condition: str) -> Cell:
        counts = zip(REASONS, _by_reason(run, row, condition), strict=True)
        shown = ", ".join(f"{n} {reason}" for reason, n in counts if n and reason != "success")
        why = run.absent(row, condition)
        return missing(why) if why else text(shown or "none")

    name, rate, not_run, steps = _condition_fields(run, ".0f")
    fields = (name, rate, Field("failures", "Failures", "left", cell=failed), not_run, steps)
    notes = (f"{_rates_note(run)}. They claim nothing about recovery.",)
    return row_table(run, "success", "Success rates", fields, notes, _rows_and_conditions(run))


def failures(run: Run) -> Table:
    """How the episodes of each row and condition ended."""

    def ended(code: int, row: int, condition: str) -> Cell:
        why = run.absent(row, condition)
        return missing(why) if why else count(_by_reason(run, row, condition)[code])

    name, rate, not_run, steps = _condition_fields(run, ".1f")
    fields = (
        name,
        Field("planned", "Planned", cell=lambda row, condition: count(run.at(row, condition).size)),
        *(
            Field(reason, reason.replace("_", " ").capitalize(), cell=partial(ended, code))
            for code, reason in enumerate(REASONS)
        ),
        not_run,
        rate,
        steps,
    )
    notes = (
        "An episode that infrastructure ended is no outcome: it counts as not run.",
        "These are the recorded episodes, those of rows that are not admitted included.",
    )
    return row_table(run, "failures", "How episodes ended", fields, notes, _rows_and_conditions(run))


def _rows_and_conditions(run: Run) -> Iterable[tuple[int, str]]:
    return itertools.product(range(run.rows), run.conditions)


def _condition_fields(run: Run, form: str) -> tuple[Field, Field, Field, Field]:
    """Return fields of a row and condition: its name, success rate, episodes that did not run, and mean steps."""

    def not_run(row: int, condition: str) -> Cell:
        return count(run.at(row, condition).size - run.recorded(row, condition).size)

    def mean_steps(row: int, condition: str) -> Cell:
        steps = run.data["steps"].values[run.recorded(row, condition)]
        return number(float(steps.mean()) if steps.size else math.nan, form, run.absent(row, condition))

    return (
        Field("condition", "Condition", "left", cell=lambda row, condition: text(condition)),
        Field("success_rate", "Success rate", parts=RATE_PARTS, cell=partial(success_cell, run)),
        Field("not_run", "Not run", cell=not_run),
        Field("mean_steps", "Mean steps", cell=mean_steps),
    )


def _by_reason(run: Run, row: int, condition: str) -> list[int]:
    """Return how many recorded episodes ended for each of `REASONS`."""
    reasons = run.data["reason"].values[run.recorded(row, condition)]
    counts: list[int] = np.bincount(reasons, minlength=len(REASONS)).tolist()
    return counts
