"""What the gate says about each row, as a document for programs, and the sentences that belong to every claim.

`verdict_document` holds the verdicts with the configuration and the metrics behind them, `verdicts_json` writes it.
`WORDING` and `status_summary` are printed below every claim table (`roep_gym.evaluate.report.claim_tables`).
"""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import xarray as xr

from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import LABELS, Judgement
from roep_gym.evaluate.judging.tables import ROW
from roep_gym.typing import JSON

__all__ = [
    "WORDING",
    "departures",
    "not_applicable",
    "status_summary",
    "verdict_document",
    "verdicts_json",
]

WORDING = (
    "A status says which claim the records support; it is no statement about use outside this evaluation."
)


def not_applicable(judgement: Judgement, row: int) -> str:
    """Return why downstream values of a row are N/A; empty where the row is admitted."""
    failed = judgement.admission["failed"].values[row]
    return f"clean prerequisite not met ({failed})" if failed else ""


def status_summary(judgement: Judgement) -> str:
    """Return how many rows have each status, and what the judgement rests on, in one line."""
    labels = judgement.verdicts["trace_label"].values.tolist()
    short = ("not admitted", "insufficient", "withheld", "supported")
    counts = ", ".join(
        f"{labels.count(label)} {name}" for label, name in zip(LABELS[::-1], short[::-1], strict=True)
    )
    settings = departures(judgement, ", ") or "the paper's"
    records = (
        " Outcomes attested, step records absent." if judgement.verdicts.attrs["records"] == "flat" else ""
    )
    return f"{len(labels)} rows: {counts}. Thresholds: {settings}.{records}"


def departures(judgement: Judgement, separator: str) -> str:
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
        "calibrated_effect": _branches(
            judgement.calibrated.drop_vars("clean_replicated"), ("severity",), present="perturbed_executions"
        ),
        "harm": _branches(judgement.harm, ("pair",), present="support"),
        "pairing": _branches(judgement.integrity, ("pair",)),
    }
    names = (*ROW, "trace_label", "claim_status", "limiting_factor", "deciding_check", "notes")
    return [
        {
            **{name: verdicts[name].values[row] for name in names},
            "downstream": f"N/A: {why}" if (why := not_applicable(judgement, row)) else "applicable",
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
