"""The tables of what the claims stand on: provenance (A2), shields (A5), severity (A6), effects and failures.

Each function makes one table of a run; `roep_gym.evaluate.report.tables.TABLES` lists them all.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.noise_floor import SEVERITIES, severity_effects
from roep_gym.evaluate.judging.summaries import model_suite_summary, model_summary
from roep_gym.evaluate.report.cells import ROW_COLUMNS, row_cells, success_cell, unless
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import RATE_PARTS, Cell, Column, Table, count, missing, number, text
from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.evaluate.statistics.paired_interval import paired_difference_interval
from roep_gym.typing import JSON

__all__ = [
    "contract_fields",
    "effects",
    "failures",
    "provenance",
    "severity",
    "severity_by_model",
    "severity_by_suite",
    "shield_bootstrap",
]

_NO_CONTRACT = "the records hold no runtime contract (flat tables name its status only)"
_SHOWN_FIELDS: Mapping[str, str] = {
    "checkpoint_source": "Checkpoint",
    "checkpoint_revision": "Revision",
    "runtime_bridge": "Runtime bridge",
    "cameras": "Cameras",
    "resolution": "Resolution",
    "control_mode": "Control mode",
    "executed_steps": "Executed steps of a chunk",
    "precision": "Precision",
    "mujoco": "MuJoCo",
    "robosuite": "robosuite",
}
_VERDICTS = ("match", "mismatch", "unknown")


def provenance(run: Run) -> Table:
    """Table A2: what each row ran with and how far that is what its policy was built for."""
    rows = []
    for row in range(run.rows):
        fields = {line["name"]: line for line in json.loads(str(run.data["contract"].values[row]))}
        verdicts = [line["verdict"] for line in fields.values()]
        unresolved = int(run.data["contract_unresolved"].values[row])
        rows.append(
            (
                *row_cells(run, row),
                text(run.data["contract_status"].values[row]),
                *(count(verdicts.count(name)) if fields else missing(_NO_CONTRACT) for name in _VERDICTS),
                count(unresolved),
                text(str(run.data["contract_note"].values[row]).strip()),
                *(_ran_with(fields.get(name)) for name in _SHOWN_FIELDS),
            )
        )
    columns = (
        *ROW_COLUMNS,
        Column("contract_status", "Contract", "left"),
        *(Column(name, f"Fields: {name}") for name in _VERDICTS),
        Column("unresolved", "Unresolved"),
        Column("accepted", "Accepted because", "left"),
        *(Column(name, heading, "left") for name, heading in _SHOWN_FIELDS.items()),
    )
    notes = (
        "What ran is shown, or, marked (declared), what the policy declares where nothing was observed.",
        "A mismatch or an unknown that nobody has resolved with a written reason closes C_fid.",
    )
    return Table("A2", "Provenance and fidelity", columns, tuple(rows), notes)


def _ran_with(line: Mapping[str, JSON] | None) -> Cell:
    if line is None:
        return missing(_NO_CONTRACT)
    if line["observed"] is not None:
        return text(_plain(line["observed"]))
    declared = line["declared"]
    return (
        missing("neither declared nor observed")
        if declared is None
        else text(f"{_plain(declared)} (declared)")
    )


def _plain(value: JSON) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def contract_fields(run: Run) -> Table:
    """Every field of every row's runtime contract: declared, observed, verdict and written resolution."""
    rows = []
    for row in range(run.rows):
        fields = json.loads(str(run.data["contract"].values[row]))
        if not fields:
            rows.append((*row_cells(run, row), *[missing(_NO_CONTRACT)] * 5))
        for line in fields:
            sides = [
                missing(f"not {side}") if line[side] is None else text(_plain(line[side]))
                for side in ("declared", "observed")
            ]
            rows.append(
                (
                    *row_cells(run, row),
                    text(line["name"]),
                    *sides,
                    text(line["verdict"]),
                    text(line["resolution"]),
                )
            )
    columns = (
        *ROW_COLUMNS,
        Column("field", "Field", "left"),
        Column("declared", "Declared", "left"),
        Column("observed", "Observed", "left"),
        Column("verdict", "Verdict", "left"),
        Column("resolution", "Accepted because", "left"),
    )
    notes = ('A declared "any" or "n/a" matches everything.',)
    return Table("contract", "Runtime contract, field by field", columns, tuple(rows), notes)


def shield_bootstrap(run: Run) -> Table:
    """Table A5: the bootstrap behind each row's shield, and what the shield did."""
    rows = []
    for row in range(run.rows):
        status = str(run.data["shield_status"].values[row])
        metadata = json.loads(str(run.data["shield_metadata"].values[row]))
        why = str(run.data["shield_reason"].values[row])
        no_shield = f"no shield ({status}{': ' if why else ''}{why})"
        limitation = why or str(run.judgement.verdicts["limiting_factor"].values[row])
        applied = run.judgement.interventions.sel(condition="full").isel(row=row)
        steps, share = (
            float(applied[name]) for name in ("mean_recovery_action_applied_steps", "recovery_rate")
        )
        barred = run.not_admitted(row)
        inactive = run.absent(row, "full") or "some episode of 'full' lacks its intervention count"
        rows.append(
            (
                *row_cells(run, row),
                text(status),
                *(
                    _bootstrap_episodes(run, row, reason)
                    for reason in ("success", "timeout", "unsafe_attempt")
                ),
                *(_samples(metadata, part, no_shield) for part in ("train", "validation", "calibration")),
                number(float(run.data["shield_tau"].values[row]), ".3g", no_shield),
                count(int(run.data["risk_positive_episodes"].values[row])),
                text(run.data["risk_label_source"].values[row]),
                unless(barred, number(steps, ".2f", inactive)),
                unless(barred, number(share, ".2f", inactive)),
                text(limitation),
            )
        )
    columns = (
        *ROW_COLUMNS,
        Column("bootstrap_status", "Shield", "left"),
        Column("episodes_success", "Bootstrap successes"),
        Column("episodes_timeout", "Bootstrap timeouts"),
        Column("episodes_unsafe", "Bootstrap unsafe ends"),
        Column("train_samples", "Training steps"),
        Column("val_samples", "Validation steps"),
        Column("calib_samples", "Safe calibration steps"),
        Column("tau", "tau"),
        Column("risk_positive_episodes", "Risk episodes"),
        Column("risk_label_source", "Risk labels from", "left"),
        Column("full_mean_intervention_steps", "Mean intervention steps, full"),
        Column("full_intervention_rate", "Intervention rate, full"),
        Column("main_limitation", "Main limitation", "left"),
    )
    notes = ("Interventions are activity of the shield; they say nothing about its benefit.",)
    return Table("A5", "Shield bootstrap and activity", columns, tuple(rows), notes)


def _bootstrap_episodes(run: Run, row: int, reason: str) -> Cell:
    conditions = ("bootstrap_clean", "bootstrap_perturb")
    absent = [run.absent(row, condition) for condition in conditions]
    if all(absent):
        return missing("; ".join(absent))
    ended = [run.outcomes(row, condition)["reason"] for condition in conditions]
    return count(sum(int((reasons == reason).sum()) for reasons in ended))


def _samples(metadata: Mapping[str, JSON], part: str, no_shield: str) -> Cell:
    """Return the number of steps of a part; calibration uses its safe steps alone."""
    if "counts" not in metadata:
        return missing("the records hold no training metadata" if not metadata else no_shield)
    steps = metadata["counts"][part]
    names = ("safe_steps",) if part == "calibration" else ("safe_steps", "risk_steps", "weak_safe_steps")
    return count(sum(int(steps[name]) for name in names))


_SEVERITY = {
    "mild_sr": "Mild SR",
    "strong_sr": "Strong SR",
    "strong_timeout_rate": "Strong timeout rate",
    "mild_clone_difference": "Mild: mean clone |Delta SR|",
    "strong_clone_difference": "Strong: mean clone |Delta SR|",
}
_SWEEP_NOTE = "Secondary evidence: the severity sweep never changes a claim. Means over tasks."


def severity_by_model(run: Run) -> Table:
    """Table A6, first panel: the severity sweep over all tasks of each model, with the support of its clones."""
    return _severity(run, "A6a", model_summary(run.judgement), ("model",))


def severity_by_suite(run: Run) -> Table:
    """Table A6, second panel: the severity sweep of each model and suite."""
    return _severity(run, "A6b", model_suite_summary(run.judgement), ("model", "suite"))


def severity(run: Run) -> Table:
    """The severity sweep of each row: its success rate and effect against the floor of its own clones."""
    config = run.judgement.config
    found = severity_effects(run.judgement.rates, tolerance=config.tolerance).sel(outcome="success")
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        for name, condition in SEVERITIES.items():
            here = found.sel(severity=name).isel(row=row)
            why = run.absent(row, "baseline") or run.absent(row, condition)
            clones = why or run.absent(row, "baseline_clone") or run.absent(row, f"{condition}_clone")
            cells = (
                success_cell(run, row, "baseline"),
                success_cell(run, row, condition),
                success_cell(run, row, f"{condition}_clone"),
                number(float(here["signed_effect"]), "+.2f", why),
                number(float(here["floor"]), ".2f", clones),
                text(str(here["label"].item())) if int(here["above_floor"]) >= 0 else missing(clones),
                success_cell(run, row, condition, "timeout"),
            )
            rows.append((*row_cells(run, row), text(name), *(unless(barred, cell) for cell in cells)))
    columns = (
        *ROW_COLUMNS,
        Column("severity", "Severity", "left"),
        Column("clean_sr", "Clean SR", parts=RATE_PARTS),
        Column("sr", "SR", parts=RATE_PARTS),
        Column("clone_sr", "SR of the clone", parts=RATE_PARTS),
        Column("delta_sr", "Delta SR"),
        Column("noise_floor_sr", "Floor F_SR"),
        Column("effect", "Effect", "left"),
        Column("timeout_rate", "Timeout rate", parts=RATE_PARTS),
    )
    notes = (
        "The floor of a severity is the larger of what re-running changes under clean and under that severity.",
        "Mild and strong are secondary evidence and never change a claim.",
    )
    return Table(
        "severity", "Severity sweep of each row against the noise floor", columns, tuple(rows), notes
    )


def _severity(run: Run, name: str, summary: xr.Dataset, by: tuple[str, ...]) -> Table:
    rows = []
    for k in range(summary.sizes["group"]):
        group = {key: str(summary[key].values[k]) for key in by}
        members = [
            row for row in range(run.rows)
            if all(str(run.data[key].values[row]) == value for key, value in group.items())
        ]  # fmt: skip
        values = []
        for column in _SEVERITY:
            base = column.split("_")[0]
            needed = (base, f"{base}_clone") if "clone" in column else (base,)
            reasons = [run.not_admitted(row) or run.absent(row, c) for c in needed for row in members]
            why = next(filter(None, reasons), "")
            values.append(number(float(summary[column].values[k]), ".3f", why))
        rows.append(
            (
                *map(text, group.values()),
                count(int(summary["tasks"].values[k])),
                *values,
                *(_clone_support(run, members, base) for base in ("mild", "strong")),
            )
        )
    columns = (
        *(Column(key, key.capitalize(), "left") for key in by),
        Column("tasks", "Tasks"),
        *(Column(column, heading) for column, heading in _SEVERITY.items()),
        *(
            Column(f"{base}_clone_pairs", f"{base.capitalize()} clone pairs", parts=("mismatched_keys",))
            for base in ("mild", "strong")
        ),
    )
    title = f"Severity sweep by {' and '.join(by)}"
    notes = (_SWEEP_NOTE, "Clone pairs: pairs in support (mismatched keys).")
    return Table(name, title, columns, tuple(rows), notes)


def _clone_support(run: Run, members: list[int], base: str) -> Cell:
    absent = [run.absent(row, base) or run.absent(row, f"{base}_clone") for row in members]
    if all(absent):
        return missing(absent[0])
    pair = run.judgement.integrity.sel(pair=f"{base}_clone given {base}").isel(row=members)
    support, mismatched = int(pair["support"].sum()), int(pair["mismatched_keys"].sum())
    return Cell(support, f"{support} ({mismatched})", parts={"mismatched_keys": mismatched})


def effects(run: Run) -> Table:
    """The effect of the perturbation in each row, as a paired difference with its interval, against the floor."""
    harm = run.judgement.harm.sel(pair="perturb given baseline")
    floor = run.judgement.floor.sel(outcome="success")
    support, lost, gained = (harm[name].values for name in ("support", "harmed", "gained"))
    both = harm["denominator"].values - lost
    neither = support - both - lost - gained
    confidence = run.judgement.config.confidence
    interval = paired_difference_interval(both, lost, gained, neither, confidence)
    rows = []
    for row in range(run.rows):
        barred = run.not_admitted(row)
        why = run.absent(row, "baseline") or run.absent(row, "perturb") or "no pair ran in the same scene"
        clones = run.absent(row, "baseline_clone") or run.absent(row, "perturb_clone") or why
        n = int(support[row])
        difference = (lost[row] - gained[row]) / n if n else math.nan
        cells = (
            count(n),
            count(int(lost[row])),
            count(int(gained[row])),
            number(difference, "+.2f", why),
            number(float(interval.low[row]), "+.2f", why),
            number(float(interval.high[row]), "+.2f", why),
            number(float(floor["floor"].values[row]), ".2f", clones),
            text(floor["label"].values[row]) if floor["above_floor"].values[row] >= 0 else missing(clones),
            number(float(harm["mcnemar_p"].values[row]), ".3g", why),
        )
        rows.append((*row_cells(run, row), *(unless(barred, cell) for cell in cells)))
    columns = (
        *ROW_COLUMNS,
        Column("pairs", "Pairs"),
        Column("lost", "Lost"),
        Column("gained", "Gained"),
        Column("paired_delta_sr", "Paired Delta SR"),
        Column("low", "Lower"),
        Column("high", "Upper"),
        Column("noise_floor_sr", "Floor F_SR"),
        Column("effect", "Effect", "left"),
        Column("mcnemar_p", "McNemar p"),
    )
    notes = (
        f"Delta SR = SR(clean) - SR(medium) over pairs, with the {100 * confidence:g} % hybrid score interval for "
        "paired rates (Newcombe 1998, method 10); p is the exact McNemar test, not corrected for the number of rows.",
        "They inform and do not gate. A negative difference is not called an improvement.",
    )
    return Table(
        "effects", "Effect of the medium perturbation against the noise floor", columns, tuple(rows), notes
    )


def failures(run: Run) -> Table:
    """How the episodes of each row and condition ended."""
    rows = []
    for row in range(run.rows):
        for condition in run.conditions:
            at = run.at(row, condition)
            ran = at[run.data["success"].values[at] != NOT_RUN]
            ended = np.bincount(run.data["reason"].values[ran], minlength=len(REASONS))
            why = run.absent(row, condition)
            rows.append(
                (
                    *row_cells(run, row),
                    text(condition),
                    count(len(at)),
                    *(missing(why) if why else count(int(k)) for k in ended),
                    count(len(at) - len(ran)),
                    missing(why) if why else success_cell(run, row, condition),
                    number(float(run.data["steps"].values[ran].mean()) if ran.size else math.nan, ".1f", why),
                )
            )
    columns = (
        *ROW_COLUMNS,
        Column("condition", "Condition", "left"),
        Column("planned", "Planned"),
        *(Column(reason, reason.replace("_", " ").capitalize()) for reason in REASONS),
        Column("not_run", "Not run"),
        Column("success_rate", "Success rate", parts=RATE_PARTS),
        Column("mean_steps", "Mean steps"),
    )
    notes = (
        "An episode that infrastructure ended is no outcome: it counts as not run.",
        "These are the recorded episodes, those of rows that are not admitted included.",
    )
    return Table("failures", "How episodes ended", columns, tuple(rows), notes)
