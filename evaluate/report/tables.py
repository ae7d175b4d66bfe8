"""The tables of the gate: what is claimed, on which outcomes (Tables 2, 3, 4, A1, A3, A4), and the checks behind it.

`TABLES` maps every table's name to the function that makes it of a run; `make_tables` finds tables by name. The tables
of provenance, shields, severity and failures are in `evidence_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import xarray as xr

from roep_gym.error import unknown_name
from roep_gym.evaluate.judging import claim_table
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import CLAIM_STATUS, FAIL, LABELS, NOT_COMPUTABLE, PASS
from roep_gym.evaluate.judging.summaries import (
    harm_support,
    model_suite_summary,
    model_summary,
    status_counts,
)
from roep_gym.evaluate.report import evidence_tables
from roep_gym.evaluate.report.cells import ROW_COLUMNS, row_cells, success_cell, unless
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import RATE_PARTS, Cell, Column, Table, count, missing, number, text

__all__ = ["TABLES", "make_tables"]

_MEANING = {
    "recovery_ready": (
        "all checks hold",
        "Under the recorded budget the shielded conditions keep clean behaviour and do not add harm beyond the limits.",
        "It does not say that interventions caused successes, nor anything about other tasks, scenes or severities.",
    ),
    "recovery_blocked_with_cause": (
        "checks 4 to 10",
        "Clean capability is admitted and paired, but a shield check does not hold; the limiting factor names it.",
        "It does not lower the clean or medium success rates, which stand as measured.",
    ),
    "inconclusive_low_support": (
        "checks 2 and 3",
        "Pairs are mismatched or too few base successes exist to speak of harm.",
        "It is no finding for or against the policy or its shield.",
    ),
    "clean_not_admitted": (
        "check 1",
        "The clean run is missing, incomplete, not faithful to the declared runtime, or below the success floor.",
        "Downstream values are withheld, and nothing follows from them.",
    ),
}
LOW_SUPPORT = "* fewer than 10 paired base successes"


def semantics(run: Run) -> Table:
    """Table 2: what each claim status means, and how many rows of the run have it."""
    labels = run.judgement.verdicts["trace_label"].values.tolist()
    rows = [
        (text(CLAIM_STATUS[label]), text(label), *map(text, _MEANING[label]), count(labels.count(label)))
        for label in reversed(LABELS)
    ]
    columns = (
        Column("claim_status", "Claim status", "left"),
        Column("trace_label", "Trace label", "left"),
        Column("decided_by", "Decided by", "left"),
        Column("says", "What the records show", "left"),
        Column("does_not_say", "What they do not", "left"),
        Column("rows", "Rows"),
    )
    return Table("2", "Claim statuses and their meaning", columns, tuple(rows), (claim_table.WORDING,))


def outcomes(run: Run) -> Table:
    """Table 3: the outcome matrix, one line a row."""
    verdicts, floor = run.judgement.verdicts, run.judgement.floor.sel(outcome="success")
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        both = run.absent(row, "baseline") or run.absent(row, "perturb")
        clones = both or run.absent(row, "baseline_clone") or run.absent(row, "perturb_clone")
        downstream = (
            success_cell(run, row, "perturb"),
            number(floor["signed_effect"].values[row], "+.2f", both),
            number(floor["floor"].values[row], ".2f", clones),
            success_cell(run, row, "perturb", "timeout"),
        )
        rows.append(
            (
                *row_cells(run, row),
                success_cell(run, row, "baseline"),
                *(unless(barred, cell) for cell in downstream),
                *(text(verdicts[name].values[row]) for name in ("claim_status", "limiting_factor")),
                text(verdicts["trace_label"].values[row]),
            )
        )
    columns = (
        *ROW_COLUMNS,
        Column("clean_sr", "Clean SR", parts=RATE_PARTS),
        Column("perturb_sr", "Medium SR", parts=RATE_PARTS),
        Column("delta_sr", "Delta SR"),
        Column("noise_floor_sr", "Floor F_SR"),
        Column("perturb_timeout_rate", "Medium timeout rate", parts=RATE_PARTS),
        Column("claim_status", "Claim status", "left"),
        Column("limiting_factor", "Limiting factor", "left"),
        Column("trace_label", "Trace label", "left"),
    )
    notes = (
        "Rates stand with (episodes / n) and their "
        f"{100 * run.judgement.config.confidence:g} % Wilson interval, which informs and does not gate.",
        claim_table.WORDING,
    )
    return Table("3", "Outcome matrix", columns, tuple(rows), notes)


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
ALL_SUITES = "all"


def aggregates(run: Run) -> Table:
    """Table 4: means over the tasks of each model and suite, then over all tasks of each model."""
    rows = []
    for summary in (model_suite_summary(run.judgement), model_summary(run.judgement)):
        for k in range(summary.sizes["group"]):
            rows.append(_aggregate_cells(summary, k))
    columns = (
        Column("model", "Model", "left"),
        Column("suite", "Suite", "left"),
        Column("tasks", "Tasks"),
        *(Column(f"mean_{name}", heading, parts=("n",)) for name, heading in _MEANS.items()),
        Column("rows_effect_above_floor", "Rows with effect above floor", parts=("n",)),
    )
    notes = (
        "Arithmetic means of task-level values; episodes are never pooled across tasks. (n) is the number of tasks "
        "where the value is defined, where it is not all of them; downstream of a row that is not admitted nothing is.",
        "HR_timeout and HR_unsafe: full given perturb, seed-macro.",
    )
    return Table("4", "Model-suite aggregates", columns, tuple(rows), notes)


def _aggregate_cells(summary: xr.Dataset, k: int) -> tuple[Cell, ...]:
    tasks = int(summary["tasks"].values[k])
    suite = str(summary["suite"].values[k]) if "suite" in summary.coords else ALL_SUITES
    means = []
    for name in _MEANS:
        n = int(summary[f"{name}_n"].values[k])
        cell = number(
            float(summary[name].values[k]),
            ".3f",
            "undefined for every task, or downstream of rows that are not admitted",
        )
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


def gate_rules(run: Run) -> Table:
    """Table A1: the gate as it was configured, with how the run's rows fare at each check."""
    verdicts = run.judgement.verdicts
    rows = []
    for k, check in enumerate(CHECKS):
        verdict = verdicts["verdict"].values[:, k].tolist()
        threshold = float(verdicts["threshold"].values[0, k])
        rows.append(
            (
                count(k + 1),
                text(check.name),
                text(check.rule.format(threshold)),
                Cell(threshold, f"{threshold:g}"),
                text(CLAIM_STATUS[check.label]),
                *(count(verdict.count(name)) for name in (PASS, FAIL, NOT_COMPUTABLE)),
            )
        )
    columns = (
        Column("number", "#"),
        Column("check", "Check", "left"),
        Column("rule", "Rule", "left"),
        Column("threshold", "Threshold"),
        Column("otherwise", "If not satisfied", "left"),
        Column("pass", "Rows that pass"),
        Column("fail", "Rows that fail"),
        Column("not_computable", "Rows where not computable"),
    )
    departures = run.judgement.config.departures()
    settings = ", ".join(f"{name} = {value}" for name, value in departures.items())
    notes = (
        "The first check in this order that is not satisfied decides; equality passes.",
        f"Departs from the paper's settings: {settings}." if settings else "All settings are the paper's.",
    )
    return Table("A1", "The gate as configured", columns, tuple(rows), notes)


def statuses(run: Run) -> Table:
    """Table A3: how many rows of each model and suite have each status."""
    counts = status_counts(run.judgement)["rows"].sel(trace_label=list(reversed(LABELS)))
    rows = [
        (text(group["model"].item()), text(group["suite"].item()), *(count(int(k)) for k in group.values))
        for group in counts.transpose("group", "trace_label")
    ]
    total = counts.sum("group").values
    rows.append((text(ALL_SUITES), text(ALL_SUITES), *(count(int(k)) for k in total)))
    columns = (
        Column("model", "Model", "left"),
        Column("suite", "Suite", "left"),
        *(Column(label, CLAIM_STATUS[label]) for label in reversed(LABELS)),
    )
    return Table("A3", "Status counts", columns, tuple(rows), (claim_table.WORDING,))


def harm(run: Run) -> Table:
    """Table A4: harm, full given perturb, under both aggregations, with its support."""
    values = harm_support(run.judgement)
    floor = run.judgement.floor.sel(outcome="success")
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        absent = barred or run.absent(row, "perturb") or run.absent(row, "full")
        unobserved = absent or "no base success has a partner whose unsafe attempts were observed"
        undefined = absent or "no base success has a partner"
        support = int(values["paired_support"].values[row])
        rates = [
            unless(barred, number(float(values[name].sel(aggregation=how).values[row]), ".3f", why))
            for name, why in (("hr_total", undefined), ("hr_timeout", undefined), ("hr_unsafe", unobserved))
            for how in ("pooled", "seed_macro")
        ]
        paired = missing(absent) if absent else Cell(support, f"{support}{'*' if support < 10 else ''}")
        clones = [
            number(
                float(floor[f"{name}_difference"].values[row]),
                ".3f",
                run.absent(row, base) or run.absent(row, f"{base}_clone"),
            )
            for name, base in (("nominal", "baseline"), ("perturbed", "perturb"))
        ]
        rows.append(
            (
                *row_cells(run, row),
                success_cell(run, row, "baseline"),
                unless(barred, success_cell(run, row, "perturb")),
                unless(barred, success_cell(run, row, "perturb", "timeout")),
                paired,
                *rates,
                *(unless(barred, clone) for clone in clones),
            )
        )
    heads = {"hr_total": "HR_total", "hr_timeout": "HR_timeout", "hr_unsafe": "HR_unsafe"}
    columns = (
        *ROW_COLUMNS,
        Column("clean_sr", "Clean SR", parts=RATE_PARTS),
        Column("perturb_sr", "Medium SR", parts=RATE_PARTS),
        Column("perturb_timeout_rate", "Medium timeout rate", parts=RATE_PARTS),
        Column("paired_support", "Paired support"),
        *(
            Column(f"{name}_{how}", f"{heading}, {how.replace('_', '-')}")
            for name, heading in heads.items()
            for how in ("pooled", "seed_macro")
        ),
        Column("nominal_clone_difference", "Clean clone |Delta SR|"),
        Column("perturbed_clone_difference", "Medium clone |Delta SR|"),
    )
    notes = (
        "Direction: full given perturb; the share of perturb successes whose full partner failed.",
        LOW_SUPPORT,
    )
    return Table("A4", "Harm decomposition, full given perturb", columns, tuple(rows), notes)


def claims(run: Run) -> Table:
    """The claim table as `roep-gym gate` prints it."""
    columns = tuple(Column(name.lower().replace(" ", "_"), name, "left") for name in claim_table.COLUMNS)
    rows = tuple(
        tuple(text(cell) for cell in line.values()) for line in claim_table.claim_rows(run.judgement)
    )
    notes = (claim_table.status_summary(run.judgement), claim_table.WORDING)
    return Table("claims", "Claims", columns, rows, notes)


def checks(run: Run) -> Table:
    """Every check of every row with its value, threshold and verdict."""
    verdicts = run.judgement.verdicts
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        for k, check in enumerate(CHECKS):
            threshold = float(verdicts["threshold"].values[row, k])
            reason = str(verdicts["reason"].values[row, k])
            value = number(float(verdicts["value"].values[row, k]), ".4g", reason)
            verdict = text(verdicts["verdict"].values[row, k])
            if k:
                value, verdict = unless(barred, value), unless(barred, verdict)
            rows.append(
                (
                    *row_cells(run, row),
                    count(k + 1),
                    text(check.name),
                    text(check.rule.format(threshold)),
                    value,
                    Cell(threshold, f"{threshold:g}"),
                    verdict,
                    text("" if barred and k else reason),
                )
            )
    columns = (
        *ROW_COLUMNS,
        Column("number", "#"),
        Column("check", "Check", "left"),
        Column("rule", "Rule", "left"),
        Column("value", "Value"),
        Column("threshold", "Threshold"),
        Column("verdict", "Verdict", "left"),
        Column("reason", "Why it is not a pass", "left"),
    )
    return Table("checks", "Every check of every row", columns, tuple(rows), (claim_table.WORDING,))


TABLES: Mapping[str, Callable[[Run], Table]] = {
    "claims": claims,
    "checks": checks,
    "2": semantics,
    "3": outcomes,
    "4": aggregates,
    "A1": gate_rules,
    "A2": evidence_tables.provenance,
    "A3": statuses,
    "A4": harm,
    "A5": evidence_tables.shield_bootstrap,
    "A6a": evidence_tables.severity_by_model,
    "A6b": evidence_tables.severity_by_suite,
    "severity": evidence_tables.severity,
    "contract": evidence_tables.contract_fields,
    "effects": evidence_tables.effects,
    "failures": evidence_tables.failures,
}
"""Every table by name: those of the paper under its numbers, further ones under a word."""


def make_tables(run: Run, names: Sequence[str] = ()) -> list[Table]:
    """Return tables by name, in the order of `TABLES`; "A6" is both of its panels, no name is all of them.

    Raises:
        UnknownNameError: A name is not a table's.
    """
    chosen = set()
    for name in names or TABLES:
        found = {
            known
            for known in TABLES
            if known.lower() in (name.lower(), f"{name}a".lower(), f"{name}b".lower())
        }
        if not found:
            raise unknown_name("table", name, TABLES)
        chosen |= found
    return [make(run) for name, make in TABLES.items() if name in chosen]
