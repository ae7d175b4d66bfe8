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
from roep_gym.evaluate.judging.admission import ATTESTED, Problem, admit
from roep_gym.evaluate.judging.calibrated_effect import REPLICATED, calibrated_effects, clean_replicated
from roep_gym.evaluate.judging.checks import CHECKS, FORMAL_CHECKS, Evidence, mismatched_keys, paired_support
from roep_gym.evaluate.judging.metrics import condition_rates, harm_metrics, intervention_metrics
from roep_gym.evaluate.judging.noise_floor import noise_floor
from roep_gym.evaluate.judging.pairing import GATE_PAIRS, align, pair_integrity, shield_exists
from roep_gym.evaluate.judging.reach import trained_on_test_scenes, unreached
from roep_gym.evaluate.judging.tables import count_by_row, planned_in, table
from roep_gym.evaluate.schema import check_dataset
from roep_gym.evaluate.store.labelled import stored_form
from roep_gym.typing import Array, BoolArray

__all__ = [
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
    verdict = np.select([undefined, passes], [NOT_COMPUTABLE, PASS], FAIL)
    reason = np.where(passes & ~undefined, "", np.stack([outcome.reason for outcome in outcomes], axis=1))
    decided = verdict != PASS
    ready = ~decided.any(axis=1)
    first = decided.argmax(axis=1)
    label = [LABELS[-1] if ok else CHECKS[k].label for ok, k in zip(ready, first, strict=True)]
    name = ["" if ok else CHECKS[k].name for ok, k in zip(ready, first, strict=True)]
    threshold = np.tile([float(outcome.threshold) for outcome in outcomes], (len(value), 1))
    dims = ("row", "check")
    return table(
        {
            "trace_label": ("row", label, "trace label"),
            "claim_status": ("row", [CLAIM_STATUS[status] for status in label], "claim status"),
            "limiting_factor": ("row", _limiting_factors(evidence, verdict, ready, first), "limiting factor"),
            "deciding_check": ("row", name, "deciding check"),
            "notes": ("row", _notes(evidence), "what stands beside the verdict and does not gate"),
            "value": (dims, value, "value"),
            "threshold": (dims, threshold, "threshold"),
            "verdict": (dims, verdict, "verdict: pass, fail or not computable"),
            "reason": (dims, reason, "why the verdict is not a pass"),
        },
        evidence.data,
        check=[check.name for check in CHECKS],
    ).assign_attrs(records=evidence.data.attrs["records"], config=evidence.config.to_json())


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
    status, accepted = (
        data["contract_status"].values,
        [str(note).strip() for note in data["contract_note"].values],
    )
    planned, budget = (
        count_by_row(data, planned_in(data, "baseline")),
        config.seed_groups * config.episodes_per_group,
    )
    seen = trained_on_test_scenes(data)
    unsettled = count_by_row(data, data["settle_displacement"].values > SETTLED)
    pairs = evidence.integrity.sel(pair=[pair.name for pair in GATE_PAIRS]).sum("pair")
    aborts, fingerprints = pairs["unequal_aborts"].values, pairs["unequal_fingerprints"].values
    remarks: list[Problem] = [
        (np.full(status.shape, data.attrs["records"] == "flat"), ATTESTED),
        (
            (status != "match") & (np.array(accepted) != ""),
            [f"contract {s}, accepted: {note}" for s, note in zip(status, accepted, strict=True)],
        ),
        (
            planned != budget,
            [f"support budget of {n} episodes a condition, the protocol's is {budget}" for n in planned],
        ),
        (
            seen > 0,
            [
                f"{n} bootstrap episodes have the scene of an evaluated episode: the shield was trained on the scenes "
                "that it is judged on"
                for n in seen
            ],
        ),
        (aborts > 0, [f"unequal aborts in {n} pairs" for n in aborts]),
        (
            unsettled > 0,
            [
                f"an object moved over {SETTLED:g} m sideways while settling in {n} episodes"
                for n in unsettled
            ],
        ),
        (clean_replicated(evidence.aligned) == 1, REPLICATED),
        (fingerprints > 0, [f"{n} pairs across numeric fingerprints" for n in fingerprints]),
    ]
    return [
        "; ".join(text if isinstance(text, str) else text[row] for mask, text in remarks if mask[row])
        for row in range(data.sizes["row"])
    ]
