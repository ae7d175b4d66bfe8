"""The tables of the gate: the claims, the checks behind them, and what the statuses mean (Tables 2, A1 and A3).

Whatever the checks decide follows from `roep_gym.evaluate.judging.checks.CHECKS`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from typing import Literal

from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import CLAIM_STATUS, FAIL, LABELS, NOT_COMPUTABLE, PASS
from roep_gym.evaluate.judging.summaries import status_counts
from roep_gym.evaluate.judging.verdict_document import WORDING, departures, status_summary
from roep_gym.evaluate.report.cells import ROW_COLUMNS, row_cells, row_table, success_cell, texts, words
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Field, Table, count, missing, number, table_of, text

__all__ = ["ALL_SUITES", "checks", "claims", "gate_rules", "semantics", "statuses"]

ALL_SUITES = "all"

_MEANING = {
    "recovery_ready": (
        "Under the recorded budget the shielded conditions keep clean behaviour and do not add harm beyond the limits.",
        "It does not say that interventions caused successes, nor anything about other tasks, scenes or severities.",
    ),
    "recovery_blocked_with_cause": (
        "Clean capability is admitted and paired, but a shield check does not hold; the limiting factor names it.",
        "It does not lower the clean or medium success rates, which stand as measured.",
    ),
    "inconclusive_low_support": (
        "Pairs are mismatched or too few base successes exist to speak of harm.",
        "It is no finding for or against the policy or its shield.",
    ),
    "clean_not_admitted": (
        "The clean run is missing, incomplete, not faithful to the declared runtime, or below the success floor.",
        "Downstream values are withheld, and nothing follows from them.",
    ),
}


def claims(run: Run) -> Table:
    """The claims as `roep-gym gate` prints and stores them.

    People get the rates with their counts, the status, and the numbers of the checks that are not satisfied, the
    deciding one with its reason. Programs get value and verdict of every check, and what stands beside them.
    """
    verdicts, floor = run.judgement.verdicts, run.judgement.floor.sel(outcome="success")
    thresholds = departures(run.judgement, "; ") or "paper"

    def counted(condition: str, row: int) -> Cell:
        cell = success_cell(run, row, condition)
        if cell.value is None:
            return cell
        return replace(cell, text=f"{cell.value:.2f} ({cell.parts['count']}/{cell.parts['n']})")

    def delta(row: int) -> Cell:
        value, limit = (float(floor[name].values[row]) for name in ("signed_effect", "floor"))
        cell = number(value, "+.2f", run.first_absent(row, ("baseline", "perturb")))
        where = {1: f" above {limit:.2f}", 0: f" within {limit:.2f}"}
        return replace(cell, text=cell.text + where.get(int(floor["above_floor"].values[row]), ""))

    def checks_behind(row: int) -> Cell:
        deciding = str(verdicts["deciding_check"].values[row])
        if not deciding:
            return text("")
        first = [check.name for check in CHECKS].index(deciding)
        later = () if run.not_admitted(row) else verdicts["verdict"].values[row, first + 1 :].tolist()
        failed = [str(first + k) for k, verdict in enumerate(later, start=2) if verdict == FAIL]
        return text(", ".join([f"{first + 1} ({verdicts['reason'].values[row, first]})", *failed]))

    (label,) = texts(verdicts, trace_label="Trace label")
    conclusion = texts(verdicts, claim_status="Claim status", limiting_factor="Limiting factor")
    (notes,) = texts(verdicts, notes="Notes")
    failed, effect = run.judgement.admission["failed"].values, floor["label"].values
    fields = (
        *_for(
            "people",
            Field("clean_sr", "Clean SR", cell=partial(counted, "baseline")),
            Field("perturb_sr", "Medium SR", cell=partial(counted, "perturb"), downstream=True),
            Field("delta_sr", "Delta SR, floor", cell=delta, downstream=True),
        ),
        *_for("programs", label),
        *conclusion,
        *_for("people", Field("checks_behind", "Checks behind it", "left", cell=checks_behind)),
        *_for(
            "programs",
            *(field for k in range(len(CHECKS)) for field in _check_fields(run, k)),
            Field("admission_failed", "", cell=lambda row: text(failed[row])),
            Field("effect", "", cell=lambda row: text(effect[row]), downstream=True),
            notes,
            Field("thresholds", "", cell=lambda _: text(thresholds)),
        ),
    )
    below = (status_summary(run.judgement), *_notes_below(run), WORDING)
    return row_table(run, "claims", "Claims and what limits them", fields, below)


def _for(reader: Literal["people", "programs"], *fields: Field) -> tuple[Field, ...]:
    return tuple(replace(field, reader=reader) for field in fields)


def _notes_below(run: Run) -> list[str]:
    """Return the notes of the verdicts, each once with the rows that it concerns."""
    rows: dict[str, list[str]] = {}
    for row, note in enumerate(run.judgement.verdicts["notes"].values.tolist()):
        rows.setdefault(note, []).append(run.short(row))
    rows.pop("", None)
    return [
        f"{'Every row' if len(labels) == run.rows else '; '.join(labels)}: {note}."
        for note, labels in rows.items()
    ]


def _check_fields(run: Run, k: int) -> tuple[Field, Field]:
    """Return value and verdict of a check for programs; a verdict that is not pass or fail comes with its reason."""
    verdicts, name = run.judgement.verdicts, CHECKS[k].name

    def value(row: int) -> Cell:
        known = verdicts["verdict"].values[row, k] != NOT_COMPUTABLE and not (k and run.not_admitted(row))
        return number(float(verdicts["value"].values[row, k]), ".10g", "") if known else text("N/A")

    def verdict(row: int) -> Cell:
        found, reason = verdicts["verdict"].values[row, k], verdicts["reason"].values[row, k]
        return text(f"{found}: {reason}" if found == NOT_COMPUTABLE else found)

    return (
        Field(f"{name}_value", "", cell=value),
        Field(f"{name}_verdict", "", cell=verdict, downstream=k > 0),
    )


_CHECK_COLUMNS = (Column("number", "#"), *words(check="Check", rule="Rule"))


def _check_cells(k: int, threshold: float) -> tuple[Cell, ...]:
    """Return the cells of `_CHECK_COLUMNS`."""
    return count(k + 1), text(CHECKS[k].name), text(CHECKS[k].rule.format(threshold))


def checks(run: Run) -> Table:
    """Every check of every row with its value, threshold and verdict."""
    verdicts = run.judgement.verdicts
    rows = []
    for row, k in itertools.product(range(run.rows), range(len(CHECKS))):
        value, threshold = (float(verdicts[name].values[row, k]) for name in ("value", "threshold"))
        verdict, reason = (str(verdicts[name].values[row, k]) for name in ("verdict", "reason"))
        barred = run.not_admitted(row) if k else ""
        rows.append(
            (
                *row_cells(run, row),
                *_check_cells(k, threshold),
                missing(barred) if barred else number(value, ".4g", reason),
                Cell(threshold, f"{threshold:g}"),
                missing(barred) if barred else text(verdict),
                text("" if barred else reason),
            )
        )
    columns = (
        *ROW_COLUMNS,
        *_CHECK_COLUMNS,
        Column("value", "Value"),
        Column("threshold", "Threshold"),
        *words(verdict="Verdict", reason="Why it is not a pass"),
    )
    return Table("checks", "Every check of every row", columns, tuple(rows), (WORDING,))


def semantics(run: Run) -> Table:
    """Table 2: what each claim status means, and how many rows of the run have it."""
    found = run.judgement.verdicts["trace_label"].values.tolist()
    fields = (
        Field("claim_status", "Claim status", "left", cell=lambda label: text(CLAIM_STATUS[label])),
        Field("trace_label", "Trace label", "left", cell=text),
        Field("decided_by", "Decided by", "left", cell=_decided_by),
        Field("says", "What the records show", "left", cell=lambda label: text(_MEANING[label][0])),
        Field("does_not_say", "What they do not", "left", cell=lambda label: text(_MEANING[label][1])),
        Field("rows", "Rows", cell=lambda label: count(found.count(label))),
    )
    return table_of("2", "Claim statuses and their meaning", fields, reversed(LABELS), (WORDING,))


def _decided_by(label: str) -> Cell:
    """Return the numbers of the checks that decide a label."""
    numbers = [k for k, check in enumerate(CHECKS, start=1) if check.label == label]
    if len(numbers) < 2:
        return text(f"check {numbers[0]}" if numbers else "all checks hold")
    return text(f"checks {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]}")


def gate_rules(run: Run) -> Table:
    """Table A1: the gate as it was configured, with how the run's rows fare at each check."""
    verdicts = run.judgement.verdicts
    rows = []
    for k, check in enumerate(CHECKS):
        found, threshold = (
            verdicts["verdict"].values[:, k].tolist(),
            float(verdicts["threshold"].values[0, k]),
        )
        rows.append(
            (
                *_check_cells(k, threshold),
                Cell(threshold, f"{threshold:g}"),
                text(CLAIM_STATUS[check.label]),
                *(count(found.count(name)) for name in (PASS, FAIL, NOT_COMPUTABLE)),
            )
        )
    columns = (
        *_CHECK_COLUMNS,
        Column("threshold", "Threshold"),
        *words(otherwise="If not satisfied"),
        Column("pass", "Rows that pass"),
        Column("fail", "Rows that fail"),
        Column("not_computable", "Rows where not computable"),
    )
    changed = ", ".join(f"{name} = {value}" for name, value in run.judgement.config.departures().items())
    notes = (
        "The first check in this order that is not satisfied decides; equality passes.",
        f"Departs from the paper's settings: {changed}." if changed else "All settings are the paper's.",
    )
    return Table("A1", "The gate as configured", columns, tuple(rows), notes)


def statuses(run: Run) -> Table:
    """Table A3: how many rows of each model and suite have each status."""
    labels = LABELS[::-1]
    counts = (
        status_counts(run.judgement)["rows"].sel(trace_label=list(labels)).transpose("group", "trace_label")
    )
    rows = [(group["model"].item(), group["suite"].item(), *group.values) for group in counts]
    rows.append((ALL_SUITES, ALL_SUITES, *counts.sum("group").values))
    cells = tuple((text(model), text(suite), *map(count, numbers)) for model, suite, *numbers in rows)
    columns = (*ROW_COLUMNS[:2], *(Column(label, CLAIM_STATUS[label]) for label in labels))
    return Table("A3", "Status counts", columns, cells, (WORDING,))
