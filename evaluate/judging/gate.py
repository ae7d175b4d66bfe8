"""The gate (protocol section 7): which claim the records of each row support, and which they withhold.

`judge` runs everything on a Dataset and returns a `Judgement`; `collect_evidence` and `decide` are its two halves, for
whoever decides several times on the same evidence. A status is a statement about records, and never a
recommendation of any kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.admission import ATTESTED, admit
from roep_gym.evaluate.judging.calibrated_effect import REPLICATED, calibrated_effects, clean_replicated
from roep_gym.evaluate.judging.checks import CHECKS, FORMAL_CHECKS, Evidence, mismatched_keys, paired_support
from roep_gym.evaluate.judging.metrics import condition_rates, harm_metrics, intervention_metrics
from roep_gym.evaluate.judging.noise_floor import noise_floor
from roep_gym.evaluate.judging.pairing import GATE_PAIRS, align, pair_integrity, shield_exists
from roep_gym.evaluate.judging.reach import trained_on_test_scenes, unreached
from roep_gym.evaluate.schema import NOT_RUN, check_dataset
from roep_gym.evaluate.store.labelled import stored_form
from roep_gym.typing import Array, BoolArray

__all__ = [
    "CHECKS",
    "CLAIM_STATUS",
    "FAIL",
    "LABELS",
    "NOT_COMPUTABLE",
    "PASS",
    "Judgement",
    "collect_evidence",
    "decide",
    "judge",
]

PASS, FAIL, NOT_COMPUTABLE = "pass", "fail", "not computable"

CLAIM_STATUS = {
    "clean_not_admitted": "Clean prerequisite not met",
    "inconclusive_low_support": "Insufficient evidence",
    "recovery_blocked_with_cause": "Recovery-facing claim withheld",
    "recovery_ready": "Recovery-facing claim supported",
}
"""Trace labels in the order in which the gate reaches them, with the status shown to people."""

LABELS: tuple[str, ...] = tuple(CLAIM_STATUS)

UNREACHED = "Perturbation did not reach the policy"
"""The limiting factor of a row whose pairs are complete and whose perturbed conditions were none."""

SETTLED = 0.02
"""An object that moves farther sideways than this while settling, in metres, is not where the stored state puts it."""


@dataclass(frozen=True)
class Judgement:
    """Everything that judging a Dataset yields, along `row`.

    Attributes:
        config: The configuration, which belongs to the verdicts.
        integrity: `roep_gym.evaluate.judging.pairing.pair_integrity`.
        rates: `roep_gym.evaluate.judging.metrics.condition_rates`.
        harm: `roep_gym.evaluate.judging.metrics.harm_metrics`.
        interventions: `roep_gym.evaluate.judging.metrics.intervention_metrics`.
        floor: `roep_gym.evaluate.judging.noise_floor.noise_floor`.
        calibrated: `roep_gym.evaluate.judging.calibrated_effect.calibrated_effects`.
        admission: `roep_gym.evaluate.judging.admission.admit`.
        verdicts: Along `row`: `trace_label`, `claim_status`, `limiting_factor`, `deciding_check` (empty when ready),
            `notes`. Along (`row`, `check`): `value`, `threshold`, `verdict` ("pass", "fail", "not computable") and
            `reason` (why it is not a pass).
    """

    config: GateConfig
    integrity: xr.Dataset
    rates: xr.Dataset
    harm: xr.Dataset
    interventions: xr.Dataset
    floor: xr.Dataset
    calibrated: xr.Dataset
    admission: xr.Dataset
    verdicts: xr.Dataset


def judge(data: xr.Dataset, config: GateConfig | None = None) -> Judgement:
    """Judge every row of a Dataset.

    Args:
        data: A Dataset of `load_run`, or in the form of `roep_gym.evaluate.schema`; `attrs["records"]` says "native"
            or "flat".
        config: Thresholds; None takes the paper's.

    Raises:
        InvalidInputError: The Dataset is not of the schema, or holds an episode twice.
    """
    evidence = collect_evidence(stored_form(data), config or GateConfig())
    return Judgement(
        config=evidence.config,
        integrity=evidence.integrity,
        rates=evidence.rates,
        harm=evidence.harm,
        interventions=evidence.interventions,
        floor=noise_floor(evidence.rates, tolerance=evidence.config.tolerance),
        calibrated=calibrated_effects(evidence.aligned),
        admission=evidence.admission,
        verdicts=decide(evidence),
    )


def collect_evidence(data: xr.Dataset, config: GateConfig) -> Evidence:
    """Compute what the checks read.

    Raises:
        InvalidInputError: The Dataset is not of the schema, or holds an episode twice.
    """
    check_dataset(data)
    if data.attrs.get("records") not in ("native", "flat"):
        raise InvalidInputError(
            f"Expected the attribute records to be 'native' or 'flat', got {data.attrs.get('records')!r}; set it."
        )
    aligned = align(data)
    rates = condition_rates(aligned, confidence=config.confidence)
    return Evidence(
        data=data,
        config=config,
        aligned=aligned,
        integrity=pair_integrity(aligned),
        rates=rates,
        harm=harm_metrics(aligned, confidence=config.confidence),
        interventions=intervention_metrics(aligned),
        admission=admit(data, rates, config),
        shield=shield_exists(data),
        unreached=unreached(data),
    )


def decide(evidence: Evidence) -> xr.Dataset:
    """Evaluate the checks and let the first one that is not satisfied decide: the `verdicts` of a `Judgement`."""
    outcomes = [check.evaluate(evidence) for check in CHECKS]
    value = np.stack([outcome.value for outcome in outcomes], axis=1)
    passes = np.stack([outcome.passes for outcome in outcomes], axis=1)
    undefined = np.isnan(value)
    verdict = np.select([undefined, passes], [NOT_COMPUTABLE, PASS], FAIL).astype(object)
    reason = np.where(passes & ~undefined, "", np.stack([outcome.reason for outcome in outcomes], axis=1))
    decided = verdict != PASS
    ready = ~decided.any(axis=1)
    first = decided.argmax(axis=1)
    label = [LABELS[-1] if ok else CHECKS[k].label for ok, k in zip(ready, first, strict=True)]
    factor = _limiting_factors(evidence, verdict, ready, first)
    row_text = {
        "trace_label": (label, "trace label"),
        "claim_status": ([CLAIM_STATUS[name] for name in label], "claim status"),
        "limiting_factor": (factor, "limiting factor"),
        "deciding_check": (
            ["" if ok else CHECKS[k].name for ok, k in zip(ready, first, strict=True)],
            "deciding check",
        ),
        "notes": (_notes(evidence), "what stands beside the verdict and does not gate"),
    }
    table = {
        "value": (value, "value"),
        "threshold": (np.broadcast_to([float(o.threshold) for o in outcomes], value.shape), "threshold"),
        "verdict": (verdict, "verdict: pass, fail or not computable"),
        "reason": (reason.astype(object), "why the verdict is not a pass"),
    }
    return xr.Dataset(
        {
            **{
                name: ("row", np.asarray(v, dtype=object), {"long_name": text})
                for name, (v, text) in row_text.items()
            },
            **{
                name: (("row", "check"), np.array(v), {"long_name": text})
                for name, (v, text) in table.items()
            },
        },
        coords={
            "check": ("check", np.asarray([check.name for check in CHECKS], dtype=object)),
            **{name: evidence.data[name] for name in ("model", "suite", "task")},
        },
        attrs={"records": evidence.data.attrs["records"], "config": evidence.config.to_json()},
    )


def _limiting_factors(evidence: Evidence, verdict: Array, ready: BoolArray, first: Array) -> list[str]:
    """Return the limiting factor of each row, empty where it is ready (protocol section 7)."""
    support, status = paired_support(evidence), evidence.data["shield_status"].values
    mismatched = mismatched_keys(evidence).sum(axis=1) > evidence.config.max_mismatched_keys
    formal_failed = (verdict[:, -len(FORMAL_CHECKS) :] == FAIL).any(axis=1)
    factors = []
    for row, (ok, k) in enumerate(zip(ready, first, strict=True)):
        name = "" if ok else CHECKS[k].name
        if name == "pairing_integrity":
            factors.append("Pair mismatch" if mismatched[row] else UNREACHED)
        elif name == "paired_support":
            clean_low = support[row, 0] < evidence.config.min_paired_support
            factors.append(f"{'Clean' if clean_low else 'Medium'} paired-support denominator")
        elif name == "shield_support" and status[row] == "failed":
            factors.append("Shield bootstrap support")
        elif name == "recovery_activity" and formal_failed[row]:
            factors.append("Formal gate/recovery-full support")
        elif name in ("shield_support", "recovery_activity"):
            factors.append("Recovery/full support")
        else:
            factors.append("" if ok else CHECKS[k].factor)
    return factors


def _notes(evidence: Evidence) -> list[str]:
    """Return what the reader of a verdict must know and no check looks at."""
    data, config = evidence.data, evidence.config
    pairs = [pair.name for pair in GATE_PAIRS]
    aborts = evidence.integrity["unequal_aborts"].sel(pair=pairs).values.sum(axis=1)
    fingerprints = evidence.integrity["unequal_fingerprints"].sel(pair=pairs).values.sum(axis=1)
    moved = data["row_index"].values[data["settle_displacement"].values > SETTLED]
    unsettled = np.bincount(moved, minlength=data.sizes["row"])
    seen = trained_on_test_scenes(data)
    planned = _planned_episodes(data)
    budget = config.seed_groups * config.episodes_per_group
    replicated = clean_replicated(evidence.aligned) == 1
    notes = []
    for row in range(data.sizes["row"]):
        beside = [ATTESTED] if data.attrs["records"] == "flat" else []
        status, note = data["contract_status"].values[row], str(data["contract_note"].values[row]).strip()
        if status != "match" and note:
            beside.append(f"contract {status}, accepted: {note}")
        if planned[row] != budget:
            beside.append(
                f"support budget of {planned[row]} episodes a condition, the protocol's is {budget}"
            )
        if seen[row]:
            beside.append(
                f"{seen[row]} bootstrap episodes have the scene of an evaluated episode: the shield was trained on the "
                "scenes that it is judged on"
            )
        if aborts[row]:
            beside.append(f"unequal aborts in {aborts[row]} pairs")
        if unsettled[row]:
            beside.append(
                f"an object moved over {SETTLED:g} m sideways while settling in {unsettled[row]} episodes"
            )
        if replicated[row]:
            beside.append(REPLICATED)
        if fingerprints[row]:
            beside.append(f"{fingerprints[row]} pairs across numeric fingerprints")
        notes.append("; ".join(beside))
    return notes


def _planned_episodes(data: xr.Dataset) -> Array:
    """Return the number of planned baseline episodes of each row."""
    labels = data["condition"].values.tolist()
    code = labels.index("baseline") if "baseline" in labels else NOT_RUN
    return np.bincount(
        data["row_index"].values[data["condition_index"].values == code], minlength=data.sizes["row"]
    )
