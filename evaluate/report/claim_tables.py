"""The tables of the gate: the claims, the checks behind them, and what the statuses mean (Tables 2, A1 and A3).

Each function makes one table of a run; `roep_gym.evaluate.report.tables.TABLES` lists them all. Whatever the checks
decide follows from `roep_gym.evaluate.judging.checks.CHECKS`.
"""

from __future__ import annotations

from dataclasses import replace

from roep_gym.evaluate.judging.checks import CHECKS, Check
from roep_gym.evaluate.judging.gate import CLAIM_STATUS, FAIL, LABELS, NOT_COMPUTABLE, PASS
from roep_gym.evaluate.judging.summaries import status_counts
from roep_gym.evaluate.judging.verdict_document import WORDING, departures, status_summary
from roep_gym.evaluate.report.cells import ROW_COLUMNS, Field, row_cells, row_table, success_cell, words
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text

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

    def verdict_text(name: str) -> Field:
        (column,) = words(**{name: name.replace("_", " ").capitalize()})
        return Field(column, lambda row: text(verdicts[name].values[row]))

    def delta(row: int) -> Cell:
        value, limit = (float(floor[name].values[row]) for name in ("signed_effect", "floor"))
        cell = number(value, "+.2f", run.absent(row, "baseline") or run.absent(row, "perturb"))
        place = {1: f" above {limit:.2f}", 0: f" within {limit:.2f}"}.get(
            int(floor["above_floor"].values[row]), ""
        )
        return replace(cell, text=cell.text + place)

    people = (
        Field(Column("clean_sr", "Clean SR", reader="people"), lambda row: _counted(run, row, "baseline")),
        Field(
            Column("perturb_sr", "Medium SR", reader="people"),
            lambda row: _counted(run, row, "perturb"),
            True,
        ),
        Field(Column("delta_sr", "Delta SR, floor", reader="people"), delta, True),
    )
    label, status, factor, notes = map(
        verdict_text, ("trace_label", "claim_status", "limiting_factor", "notes")
    )
    behind = Column("checks_behind", "Checks behind it", "left", reader="people")
    further = (
        Field(
            Column("admission_failed", ""), lambda row: text(run.judgement.admission["failed"].values[row])
        ),
        Field(Column("effect", ""), lambda row: text(floor["label"].values[row]), True),
        notes,
        Field(Column("thresholds", ""), lambda _: text(thresholds)),
    )
    programs = (*(field for k in range(len(CHECKS)) for field in _check_fields(run, k)), *further)
    fields = (
        *people,
        _for_programs(label),
        status,
        factor,
        Field(behind, lambda row: text(_checks_behind(run, row))),
        *map(_for_programs, programs),
    )
    below = (status_summary(run.judgement), *_notes_below(run), WORDING)
    return row_table(run, "claims", "Claims and what limits them", fields, below)


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


def _for_programs(field: Field) -> Field:
    return field._replace(column=replace(field.column, reader="programs"))


def _counted(run: Run, row: int, condition: str) -> Cell:
    """Return a success rate with its counts."""
    cell = success_cell(run, row, condition)
    counts = (
        f"{cell.value:.2f} ({cell.parts['count']}/{cell.parts['n']})" if cell.value is not None else cell.text
    )
    return replace(cell, text=counts)


def _check_fields(run: Run, k: int) -> tuple[Field, Field]:
    """Return value and verdict of a check for programs; a verdict that is not pass or fail comes with its reason."""
    verdicts, name = run.judgement.verdicts, CHECKS[k].name

    def value(row: int) -> Cell:
        known = verdicts["verdict"].values[row, k] != NOT_COMPUTABLE and not (k and run.not_admitted(row))
        return number(float(verdicts["value"].values[row, k]), ".10g", "") if known else text("N/A")

    def verdict(row: int) -> Cell:
        found, reason = verdicts["verdict"].values[row, k], verdicts["reason"].values[row, k]
        return text(f"{found}: {reason}" if found == NOT_COMPUTABLE else found)

    return Field(Column(f"{name}_value", ""), value), Field(Column(f"{name}_verdict", ""), verdict, bool(k))


def _checks_behind(run: Run, row: int) -> str:
    """Return the deciding check with its reason and the numbers of the later ones that fail."""
    verdicts = run.judgement.verdicts
    deciding = str(verdicts["deciding_check"].values[row])
    if not deciding:
        return ""
    first = [check.name for check in CHECKS].index(deciding)
    later = () if run.not_admitted(row) else verdicts["verdict"].values[row, first + 1 :].tolist()
    failed = [str(first + k) for k, verdict in enumerate(later, start=2) if verdict == FAIL]
    return ", ".join([f"{first + 1} ({verdicts['reason'].values[row, first]})", *failed])


def checks(run: Run) -> Table:
    """Every check of every row with its value, threshold and verdict."""
    return Table(
        "checks",
        "Every check of every row",
        (
            *ROW_COLUMNS,
            Column("number", "#"),
            *words(check="Check", rule="Rule"),
            Column("value", "Value"),
            Column("threshold", "Threshold"),
            *words(verdict="Verdict", reason="Why it is not a pass"),
        ),
        tuple(_check_line(run, row, k, check) for row in range(run.rows) for k, check in enumerate(CHECKS)),
        (WORDING,),
    )


def _check_line(run: Run, row: int, k: int, check: Check) -> tuple[Cell, ...]:
    verdicts, barred = run.judgement.verdicts, run.not_admitted(row) if k else ""
    value, threshold = (float(verdicts[name].values[row, k]) for name in ("value", "threshold"))
    verdict, reason = (str(verdicts[name].values[row, k]) for name in ("verdict", "reason"))
    return (
        *row_cells(run, row),
        count(k + 1),
        text(check.name),
        text(check.rule.format(threshold)),
        missing(barred) if barred else number(value, ".4g", reason),
        Cell(threshold, f"{threshold:g}"),
        missing(barred) if barred else text(verdict),
        text("" if barred else reason),
    )


def semantics(run: Run) -> Table:
    """Table 2: what each claim status means, and how many rows of the run have it."""
    labels = run.judgement.verdicts["trace_label"].values.tolist()
    rows = [
        (
            *map(text, (CLAIM_STATUS[label], label, _decided_by(label), *_MEANING[label])),
            count(labels.count(label)),
        )
        for label in reversed(LABELS)
    ]
    columns = words(
        claim_status="Claim status",
        trace_label="Trace label",
        decided_by="Decided by",
        says="What the records show",
        does_not_say="What they do not",
    )
    title = "Claim statuses and their meaning"
    return Table("2", title, (*columns, Column("rows", "Rows")), tuple(rows), (WORDING,))


def _decided_by(label: str) -> str:
    """Return the numbers of the checks that decide a label."""
    numbers = [k for k, check in enumerate(CHECKS, start=1) if check.label == label]
    if len(numbers) < 2:
        return f"check {numbers[0]}" if numbers else "all checks hold"
    return f"checks {numbers[0]} {'and' if len(numbers) == 2 else 'to'} {numbers[-1]}"


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
                count(k + 1),
                text(check.name),
                text(check.rule.format(threshold)),
                Cell(threshold, f"{threshold:g}"),
                text(CLAIM_STATUS[check.label]),
                *(count(found.count(name)) for name in (PASS, FAIL, NOT_COMPUTABLE)),
            )
        )
    columns = (
        Column("number", "#"),
        *words(check="Check", rule="Rule"),
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
    counts = status_counts(run.judgement)["rows"].sel(trace_label=list(reversed(LABELS)))
    rows = [
        (text(group["model"].item()), text(group["suite"].item()), *(count(int(k)) for k in group.values))
        for group in counts.transpose("group", "trace_label")
    ]
    rows.append((text(ALL_SUITES), text(ALL_SUITES), *(count(int(k)) for k in counts.sum("group").values)))
    columns = (*ROW_COLUMNS[:2], *(Column(label, CLAIM_STATUS[label]) for label in reversed(LABELS)))
    return Table("A3", "Status counts", columns, tuple(rows), (WORDING,))
