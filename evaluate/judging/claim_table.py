"""The claim table: what the gate says about each row, in the forms in which people and programs read it.

`claim_rows` is the table people read, `claims_csv`, `markdown` and `latex` write it, `verdict_document` holds the
verdicts with the configuration and the metrics behind them, as JSON. `WORDING` stands below every table.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from typing import Any

import xarray as xr

from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import FAIL, LABELS, NOT_COMPUTABLE, Judgement
from roep_gym.typing import JSON

__all__ = [
    "COLUMNS",
    "WORDING",
    "claim_rows",
    "claims_csv",
    "latex",
    "markdown",
    "not_applicable",
    "status_summary",
    "verdict_document",
    "verdicts_json",
]

WORDING = (
    "A status says which claim the records support; it is no statement about use outside this evaluation."
)

COLUMNS: tuple[str, ...] = (
    "Model",
    "Suite",
    "Task",
    "Clean SR",
    "Medium SR",
    "Delta SR",
    "Floor",
    "Effect",
    "Claim status",
    "Limiting factor",
    "Checks behind it",
)
_ROW = ("model", "suite", "task")
_EFFECT = {1: "distinguishable", 0: "within variability", -1: "N/A"}
"""The effect against the noise floor, in short."""
_NUMBER = {check.name: number for number, check in enumerate(CHECKS, start=1)}


def not_applicable(judgement: Judgement, row: int) -> str:
    """Return why downstream values of a row are N/A; empty where the row is admitted."""
    failed = judgement.admission["failed"].values[row]
    return f"N/A: clean prerequisite not met ({failed})" if failed else ""


def claim_rows(judgement: Judgement) -> list[dict[str, str]]:
    """Return one mapping from `COLUMNS` to text for each row.

    Rates stand with their counts. Downstream values of a row that is not admitted are N/A, with what failed in
    "Checks behind it"; there stand the numbers of all checks that are not satisfied, the deciding one with its reason.
    """
    verdicts, success = judgement.verdicts, judgement.rates.sel(outcome="success")
    floor = judgement.floor.sel(outcome="success")
    table = []
    for row in range(verdicts.sizes["row"]):
        admitted = bool(judgement.admission["admitted"].values[row])
        baseline, perturb = (success.sel(condition=name).isel(row=row) for name in ("baseline", "perturb"))
        downstream = {
            "Medium SR": _rate(perturb),
            "Delta SR": _number(floor["signed_effect"].values[row], "+.2f"),
            "Floor": _number(floor["floor"].values[row], ".2f"),
            "Effect": _EFFECT[int(floor["above_floor"].values[row])],
        }
        cells = (
            *(str(verdicts[name].values[row]) for name in _ROW),
            _rate(baseline),
            *(value if admitted else "N/A" for value in downstream.values()),
            str(verdicts["claim_status"].values[row]),
            str(verdicts["limiting_factor"].values[row]) or "-",
            _checks_behind(judgement, row) or "-",
        )
        table.append(dict(zip(COLUMNS, cells, strict=True)))
    return table


def _checks_behind(judgement: Judgement, row: int) -> str:
    """Return the deciding check with its reason and the numbers of the others that are not satisfied."""
    verdicts = judgement.verdicts
    deciding = str(verdicts["deciding_check"].values[row])
    if not deciding:
        return ""
    decided_by = _NUMBER[deciding]
    text = f"{decided_by} ({verdicts['reason'].values[row, decided_by - 1]})"
    if not judgement.admission["admitted"].values[row]:
        return text
    later = [
        str(k)
        for k, verdict in enumerate(verdicts["verdict"].values[row], start=1)
        if verdict == FAIL and k > decided_by
    ]
    return ", ".join([text, *later])


def claims_csv(judgement: Judgement) -> str:
    """Return the claims as CSV.

    Columns: model, suite, task, trace_label, claim_status, limiting_factor; `<check>_value` and `<check>_verdict` of
    every check; then what stands beside them: admission_failed, effect, notes; last thresholds, which is "paper" or the
    settings that differ from the paper's, as `name=value; ...`. A verdict that is not pass or fail is followed by its
    reason.
    """
    verdicts = judgement.verdicts
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = [*_ROW, "trace_label", "claim_status", "limiting_factor"]
    of_checks = [f"{check.name}_{part}" for check in CHECKS for part in ("value", "verdict")]
    writer.writerow([*head, *of_checks, "admission_failed", "effect", "notes", "thresholds"])
    effect = judgement.floor["label"].sel(outcome="success").values
    thresholds = _departures(judgement, "; ") or "paper"
    for row in range(verdicts.sizes["row"]):
        cells: list[str] = []
        unavailable = not_applicable(judgement, row)
        for k, check in enumerate(CHECKS):
            verdict, reason = str(verdicts["verdict"].values[row, k]), verdicts["reason"].values[row, k]
            if unavailable and check is not CHECKS[0]:
                cells += ["N/A", unavailable]
            elif verdict == NOT_COMPUTABLE:
                cells += ["N/A", f"{verdict}: {reason}"]
            else:
                cells += [f"{verdicts['value'].values[row, k]:.10g}", verdict]
        writer.writerow(
            [
                *(verdicts[name].values[row] for name in head),
                *cells,
                judgement.admission["failed"].values[row],
                unavailable or effect[row],
                verdicts["notes"].values[row],
                thresholds,
            ]
        )
    return text.getvalue()


def markdown(judgement: Judgement) -> str:
    """Return the claim table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    for cells in claim_rows(judgement):
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells.values()) + " |")
    return "\n".join([*lines, "", status_summary(judgement), "", WORDING, ""])


def latex(judgement: Judgement) -> str:
    """Return the claim table as a LaTeX tabular (package booktabs)."""
    lines = [
        rf"\begin{{tabular}}{{{'l' * len(COLUMNS)}}}",
        r"\toprule",
        " & ".join(COLUMNS) + r" \\",
        r"\midrule",
    ]
    lines += [" & ".join(map(_escaped, cells.values())) + r" \\" for cells in claim_rows(judgement)]
    return "\n".join(
        [*lines, r"\bottomrule", r"\end{tabular}", "% " + status_summary(judgement), "% " + WORDING, ""]
    )


def status_summary(judgement: Judgement) -> str:
    """Return how many rows have each status, and what the judgement rests on, in one line."""
    labels = judgement.verdicts["trace_label"].values.tolist()
    short = ("not admitted", "insufficient", "withheld", "supported")
    counts = ", ".join(
        f"{labels.count(label)} {name}" for label, name in zip(LABELS[::-1], short[::-1], strict=True)
    )
    settings = _departures(judgement, ", ") or "the paper's"
    records = (
        " Outcomes attested, step records absent." if judgement.verdicts.attrs["records"] == "flat" else ""
    )
    return f"{len(labels)} rows: {counts}. Thresholds: {settings}.{records}"


def _departures(judgement: Judgement, separator: str) -> str:
    """Return the settings that differ from the paper's; empty where none does."""
    return separator.join(f"{name}={value}" for name, value in judgement.config.departures().items())


def verdict_document(judgement: Judgement) -> dict[str, JSON]:
    """Return the verdicts with their configuration and the metrics behind them; undefined numbers are None."""
    return {
        "format": "roep-gym verdicts",
        "version": 1,
        "wording": WORDING,
        "records": judgement.verdicts.attrs["records"],
        "config": judgement.config.to_dict(),
        "departures_from_the_paper": judgement.config.departures(),
        "rows": _row_documents(judgement),
    }


def verdicts_json(judgement: Judgement) -> str:
    """Return `verdict_document` as JSON text, one line a row."""
    document = verdict_document(judgement)
    rows = ",\n".join(json.dumps(row, allow_nan=False) for row in document.pop("rows"))
    head = json.dumps(document, indent=1, allow_nan=False).removesuffix("\n}")
    return f'{head},\n "rows": [\n{rows}\n ]\n}}\n'


def _row_documents(judgement: Judgement) -> list[dict[str, JSON]]:
    verdicts, admission = judgement.verdicts, judgement.admission
    requirements = admission["requirement"].values.tolist()
    branches = {
        "rates": _branches(judgement.rates, ("condition", "outcome"), present="n"),
        "interventions": _branches(judgement.interventions, ("condition",), present="n"),
        "noise_floor": _branches(judgement.floor, ("outcome",)),
        "harm": _branches(judgement.harm, ("pair",), present="support"),
        "pairing": _branches(judgement.integrity, ("pair",)),
    }
    names = (*_ROW, "trace_label", "claim_status", "limiting_factor", "deciding_check", "notes")
    return [
        {
            **{name: verdicts[name].values[row] for name in names},
            "downstream": not_applicable(judgement, row) or "applicable",
            "checks": [_check_document(verdicts, row, k) for k in range(len(CHECKS))],
            "admission": {
                name: f"fails: {why}" if why else "holds"
                for name, why in zip(requirements, admission["why"].values[row], strict=True)
            },
            **{name: rows[row] for name, rows in branches.items()},
        }
        for row in range(verdicts.sizes["row"])
    ]


def _check_document(verdicts: xr.Dataset, row: int, k: int) -> dict[str, JSON]:
    threshold = float(verdicts["threshold"].values[row, k])
    return {
        "number": k + 1,
        "name": CHECKS[k].name,
        "rule": CHECKS[k].rule.format(threshold),
        "value": _plain(float(verdicts["value"].values[row, k])),
        "threshold": threshold,
        "verdict": verdicts["verdict"].values[row, k],
        "reason": verdicts["reason"].values[row, k],
    }


def _branches(data: xr.Dataset, dims: tuple[str, ...], present: str = "") -> list[dict[str, JSON]]:
    """Return each row of a Dataset as mappings nested along `dims`, without cells whose count `present` is 0.

    A variable with further dimensions becomes one entry a label of them: `hr_total_pooled`, `hr_total_seed_macro`.
    """
    labels = [data[dim].values.tolist() for dim in dims]
    values: dict[str, JSON] = {}
    for name, variable in data.data_vars.items():
        further = [dim for dim in variable.dims if dim != "row" and dim not in dims]
        for label in itertools.product(*(data[dim].values for dim in further)):
            part = variable.sel(dict(zip(further, label, strict=True))).transpose("row", *dims)
            values["_".join([str(name), *label])] = _plain(part.values.tolist())

    def branch(cell: dict[str, JSON], depth: int) -> dict[str, JSON]:
        if depth == len(dims):
            return cell
        parts = {
            label: branch({name: value[k] for name, value in cell.items()}, depth + 1)
            for k, label in enumerate(labels[depth])
        }
        return {label: part for label, part in parts.items() if part and part.get(present) != 0}

    return [
        branch({name: value[row] for name, value in values.items()}, 0) for row in range(data.sizes["row"])
    ]


def _plain(value: Any) -> JSON:
    """Return a value with NaN as None."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _rate(cell: xr.Dataset) -> str:
    n = int(cell["n"])
    return f"{float(cell['rate']):.2f} ({int(cell['count'])}/{n})" if n else "N/A (0 episodes)"


def _number(value: float, form: str) -> str:
    return "N/A" if math.isnan(value) else format(value, form)


def _escaped(text: str) -> str:
    return "".join(
        {"_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "<": "$<$", ">": "$>$", "|": "$|$"}.get(c, c)
        for c in text
    )
