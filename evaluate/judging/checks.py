"""The ten checks of the gate (protocol section 7), each with the value it looks at.

`CHECKS` are the checks in their order, `Evidence` is what they read, `Outcome` what one of them finds for every row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.admission import Problem, first_problem
from roep_gym.evaluate.judging.metrics import AGGREGATIONS
from roep_gym.evaluate.judging.pairing import GATE_PAIRS
from roep_gym.evaluate.judging.tables import count_by_row, planned_in
from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.typing import Array, BoolArray, FloatArray, IntArray

__all__ = ["CHECKS", "FORMAL_CHECKS", "Check", "Evidence", "Outcome", "mismatched_keys", "paired_support"]


class Outcome(NamedTuple):
    """What one check found, per row: a NaN value could not be computed, `reason` explains what is not a pass."""

    value: FloatArray
    threshold: float
    passes: BoolArray
    reason: Array


@dataclass(frozen=True)
class Evidence:
    """What the checks read."""

    data: xr.Dataset
    config: GateConfig
    aligned: xr.Dataset
    integrity: xr.Dataset
    rates: xr.Dataset
    harm: xr.Dataset
    interventions: xr.Dataset
    admission: xr.Dataset
    shield: BoolArray
    unreached: xr.DataArray

    def rate(self, condition: str, outcome: str) -> FloatArray:
        """Return (row,) the rate of an outcome in a condition."""
        return np.asarray(self.rates["rate"].sel(condition=condition, outcome=outcome).values)

    def harm_rate(self, name: str, pair: str) -> FloatArray:
        """Return (row, aggregation) for the aggregations that the configuration looks at."""
        chosen = list(AGGREGATIONS) if self.config.aggregation == "both" else [self.config.aggregation]
        return np.asarray(
            self.harm[name].sel(pair=pair, aggregation=chosen).transpose("row", "aggregation").values
        )

    def at_most(self, value: FloatArray, threshold: float, undefined: str) -> Outcome:
        """Return the outcome of value <= threshold, for a value that only a row with a shield has."""
        value = np.where(self.shield, value, np.nan)
        reason = np.where(self.shield, undefined, _no_shield(self.data)).astype(object)
        reason[~np.isnan(value)] = [f"{v:.4g} exceeds {threshold:g}" for v in value[~np.isnan(value)]]
        return Outcome(value, threshold, value <= threshold + self.config.tolerance, reason)


@dataclass(frozen=True)
class Check:
    """One check of the gate.

    Attributes:
        name: Identifier, the label along the dimension `check`.
        rule: The rule, with its threshold as a format field.
        evaluate: Evaluates the rule for every row.
        label: Trace label of a row that this check decides.
        factor: Limiting factor of such a row; empty where it depends on the row.
    """

    name: str
    rule: str
    evaluate: Callable[[Evidence], Outcome]
    label: str
    factor: str = ""


_LOW, _BLOCKED = "inconclusive_low_support", "recovery_blocked_with_cause"


def _check(rule: str, label: str, factor: str = "") -> Callable[[Callable[[Evidence], Outcome]], Check]:
    """Make a check of the function that evaluates it, whose name is the check's."""
    return lambda evaluate: Check(evaluate.__name__.removeprefix("_"), rule, evaluate, label, factor)


def _no_shield(data: xr.Dataset) -> Array:
    """Return why the shielded conditions of a row are unavailable."""
    return np.array(
        [
            f"no shield ({status}{': ' if reason else ''}{reason})"
            for status, reason in zip(data["shield_status"].values, data["shield_reason"].values, strict=True)
        ],
        dtype=object,
    )


@_check("clean admission A = {:g}", "clean_not_admitted", "Clean admission")
def _clean_admission(evidence: Evidence) -> Outcome:
    admission = evidence.admission
    names, admitted = admission["requirement"].values, admission["admitted"].values
    reasons = [
        "; ".join(f"{name}: {why}" for name, why in zip(names, row, strict=True) if why)
        for row in admission["why"].values
    ]
    return Outcome(admitted.astype(float), 1, admitted, np.array(reasons, dtype=object))


def mismatched_keys(evidence: Evidence) -> IntArray:
    """Return (row, pair of `GATE_PAIRS`); without a shield its two pairs are unavailable and count nothing."""
    looked_at = np.array([not pair.shielded for pair in GATE_PAIRS]) | evidence.shield[:, None]
    mismatched = evidence.integrity["mismatched_keys"].sel(pair=[pair.name for pair in GATE_PAIRS])
    return np.where(looked_at, mismatched.values, 0)


@_check("mismatched keys <= {:g}", _LOW)
def _pairing_integrity(evidence: Evidence) -> Outcome:
    """All keys of a pair are mismatched where the perturbation of a side never reached the policy."""
    keys, unreached = mismatched_keys(evidence), evidence.unreached
    support = evidence.integrity["support"].sel(pair=[pair.name for pair in GATE_PAIRS]).values
    gated = {name for pair in GATE_PAIRS for name in pair}
    reasons, total = [], keys.sum(axis=1)
    for row, counts in enumerate(keys):
        names = [name for name in unreached["condition"].values[unreached.values[row]] if name in gated]
        hit = np.array([not set(names).isdisjoint(pair) for pair in GATE_PAIRS])
        total[row] += support[row][hit].sum()
        mismatched = ", ".join(f"{k} in {p.name!r}" for p, k in zip(GATE_PAIRS, counts, strict=True) if k)
        reached = f"no perturbed frame reached the policy in {', '.join(map(repr, names))}" if names else ""
        reasons.append("; ".join(filter(None, (mismatched and f"mismatched keys: {mismatched}", reached))))
    allowed = evidence.config.max_mismatched_keys
    return Outcome(total.astype(float), allowed, total <= allowed, np.array(reasons, dtype=object))


def paired_support(evidence: Evidence) -> Array:
    """Return the pooled denominators (row, 2), clean and medium; without a shield, the base successes."""
    pairs = [pair.name for pair in GATE_PAIRS[:2]]
    bases = [pair.base for pair in GATE_PAIRS[:2]]
    with_shield = evidence.harm["denominator"].sel(pair=pairs).transpose("row", "pair").values
    successes = (
        evidence.rates["count"].sel(condition=bases, outcome="success").transpose("row", "condition").values
    )
    return np.where(evidence.shield[:, None], with_shield, successes)


@_check("harm denominators, clean and medium, >= {:g}", _LOW)
def _paired_support(evidence: Evidence) -> Outcome:
    support, least = paired_support(evidence), evidence.config.min_paired_support
    smaller = support.min(axis=1)
    reasons = [
        f"{clean} clean and {medium} medium base successes, expected {least}" for clean, medium in support
    ]
    return Outcome(smaller.astype(float), least, smaller >= least, np.array(reasons, dtype=object))


@_check("a functioning shield with risk-positive support = {:g}", _BLOCKED)
def _shield_support(evidence: Evidence) -> Outcome:
    """A trained shield with a finite threshold and risk support; natively also one that functioned at every step."""
    data = evidence.data
    tau, positive = data["shield_tau"].values, data["risk_positive_episodes"].values
    least = evidence.config.min_risk_positive_episodes
    problems: list[Problem] = [
        (~evidence.shield, _no_shield(data).tolist()),
        (~np.isfinite(tau), "no finite threshold tau"),
        (positive < least, f"fewer risk-positive episodes than {least}"),
    ]
    if data.attrs["records"] == "native":
        ran = planned_in(data, "recovery", "full") & (data["success"].values != NOT_RUN)
        # A non-finite action ends its episode before the shield sees it.
        seen = data["steps"].values - np.maximum(data["nonfinite_actions"].values, 0)
        unscored = count_by_row(data, ran & (data["risk_steps"].values != seen))
        unlogged = count_by_row(data, ran & (data["crossings"].values != data["interventions"].values))
        differ = [f"crossings and interventions differ in {k} shielded episodes" for k in unlogged]
        problems += [
            (data["shield_digest"].values == "", "no checkpoint"),
            (unscored > 0, [f"{k} shielded episodes lack a risk score at some step" for k in unscored]),
            (unlogged > 0, differ),
        ]
    reason = first_problem(problems)
    functions = reason == ""
    return Outcome(functions.astype(float), 1, functions, reason)


@_check("mean intervention steps(full) >= {:g}", _BLOCKED)
def _recovery_activity(evidence: Evidence) -> Outcome:
    """Every row with a shield needs activity: what never intervened has shown nothing about recovery."""
    least = evidence.config.min_intervention_steps
    steps = evidence.interventions["mean_recovery_action_applied_steps"].sel(condition="full").values
    outcome = evidence.at_most(steps, least, "no intervention counts in 'full'")
    reason = outcome.reason.copy()
    known = ~np.isnan(outcome.value)
    reason[known] = [f"{value:.4g} falls short of {least:g}" for value in outcome.value[known]]
    return Outcome(outcome.value, least, outcome.value >= least - evidence.config.tolerance, reason)


@_check("HR_total(recovery given baseline) <= {:g}", _BLOCKED, "Clean recovery-vs-baseline harm")
def _clean_recovery_harm(evidence: Evidence) -> Outcome:
    worst = evidence.harm_rate("hr_total", "recovery given baseline").max(axis=1)
    undefined = "no base success has a partner in 'recovery'"
    return evidence.at_most(worst, evidence.config.max_clean_harm, undefined)


@_check("HR_unsafe(recovery given baseline) <= {:g}", _BLOCKED, "Clean unsafe harm")
def _clean_unsafe_harm(evidence: Evidence) -> Outcome:
    worst = evidence.harm_rate("hr_unsafe", "recovery given baseline").max(axis=1)
    undefined = "no base success has a partner in 'recovery' whose unsafe attempts were observed"
    return evidence.at_most(worst, evidence.config.max_clean_unsafe_harm, undefined)


@_check("unsafe rate(full) - unsafe rate(perturb) <= {:g}", _BLOCKED, "Unsafe-attempt increase")
def _medium_unsafe_attempts(evidence: Evidence) -> Outcome:
    increase = evidence.rate("full", "unsafe") - evidence.rate("perturb", "unsafe")
    undefined = "unsafe attempts were not observed in every episode of 'full' and 'perturb'"
    return evidence.at_most(increase, evidence.config.max_unsafe_increase, undefined)


@_check("SR(perturb) - SR(full) <= {:g}", _BLOCKED, "Full-vs-perturb SR drop")
def _full_vs_perturb_effect(evidence: Evidence) -> Outcome:
    drop = evidence.rate("perturb", "success") - evidence.rate("full", "success")
    return evidence.at_most(drop, evidence.config.max_success_drop, "'perturb' or 'full' did not run")


@_check(
    "HR_unsafe(full given perturb) above HR_unsafe(perturb_clone given perturb) <= {:g}",
    _BLOCKED,
    "Medium unsafe harm",
)
def _medium_unsafe_harm(evidence: Evidence) -> Outcome:
    """Harm above what re-running alone causes, each aggregation against its own floor."""
    harm = evidence.harm_rate("hr_unsafe", "full given perturb")
    floor = evidence.harm_rate("hr_unsafe", "perturb_clone given perturb")
    worst = np.maximum(0, harm - floor).max(axis=1)
    undefined = (
        "no base success has partners in 'full' and 'perturb_clone' whose unsafe attempts were observed"
    )
    return evidence.at_most(worst, evidence.config.max_medium_unsafe_harm, undefined)


CHECKS: tuple[Check, ...] = (
    _clean_admission,
    _pairing_integrity,
    _paired_support,
    _shield_support,
    _recovery_activity,
    _clean_recovery_harm,
    _clean_unsafe_harm,
    _medium_unsafe_attempts,
    _full_vs_perturb_effect,
    _medium_unsafe_harm,
)
"""The ten checks, in the order in which the first one that is not satisfied decides."""

FORMAL_CHECKS = CHECKS[5:]
"""Checks 6 to 10."""
