"""What a report says in words: the facts of what was evaluated, and the limits of what may be concluded.

`facts` and `limits` derive every sentence from the records.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roep_gym.evaluate.judging.admission import ATTESTED
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.schema import CONDITIONS, MAIN_PROFILE, NOT_RUN
from roep_gym.typing import JSON

__all__ = ["facts", "limits"]


def facts(run: Run) -> dict[str, str]:
    """Return what was evaluated: rows, conditions, episodes, budget, records, channels, versions."""
    data, provenance = run.data, run.provenance
    recorded = int((data["success"].values != NOT_RUN).sum())
    aborts = int(data["aborts"].values.sum())
    models, suites = (", ".join(dict.fromkeys(map(str, data[name].values))) for name in ("model", "suite"))
    versions = (f"{name} {version}" for name, version in provenance.get("versions", {}).items())
    stated = {
        "Evaluation": run.name,
        "Rows": f"{run.rows}: {models} on {len(set(data['task'].values))} tasks of {suites}",
        "Conditions": ", ".join(_condition(name) for name in run.conditions),
        "Episodes": f"{recorded} recorded of {data.sizes['episode']} planned; {aborts} aborted attempts",
        "Step budget": f"{provenance['plan']['step_budget']} control steps" if provenance.get("plan") else "",
        "Records": "native, with step records" if run.native else f"flat tables ({ATTESTED})",
        "Unsafe channels": run.channels().sentence.rstrip("."),
        "Perturbation": _perturbation(provenance),
        "Perturbed frames": _reach(run),
        "Plan digest": str(provenance.get("plan_digest", "")),
        "Merged runs": "; ".join(map(_member, provenance.get("merged", ()))),
        "Published": "; ".join(provenance.get("published", ())),
        "Numeric fingerprints": str(len(provenance.get("fingerprints", ())) or ""),
        "Versions": ", ".join(versions),
    }
    return {name: text for name, text in stated.items() if text}


def limits(run: Run) -> list[str]:
    """Return what a reader must not conclude, most general first."""
    budget = run.judgement.config.seed_groups * run.judgement.config.episodes_per_group
    small = [n for row in range(run.rows) if 0 < (n := len(run.at(row, "baseline"))) < budget]
    lines = [
        "A status says which claim these records support. It is no statement about use outside this evaluation, nor "
        "about a robot, scene or task that is not in it.",
        "It holds for these tasks, initial states, perturbation profiles, budgets and software versions.",
        "Intervention rates show that a shield acted. They do not show that its actions caused a success.",
        "An effect within repeat-run variability is not distinguishable from re-running; a negative Delta SR is never "
        "an improvement.",
        "Intervals and p-values stand beside the verdicts, are not corrected for the number of rows, and do not gate.",
    ]
    if not run.native:
        lines.append(
            f"The outcomes are {ATTESTED}: actions, perturbations and shield scores cannot be checked here."
        )
    if small:
        episodes = " or ".join(map(str, sorted(set(small))))
        lines.append(
            f"{len(small)} of {run.rows} rows have {episodes} episodes a condition, fewer than the protocol's {budget}:"
            " rates are coarse, and a small harm can stay unseen."
        )
    lines += _row_limits(run)
    if not any(CONDITIONS[name].role == "sweep" for name in run.conditions):
        lines.append("No severity sweep was run: nothing is known about milder or stronger perturbations.")
    return lines


def _row_limits(run: Run) -> list[str]:
    """Return the limits that some rows have, each with their number."""
    harm, data = run.judgement.harm.sel(pair="full given perturb"), run.data
    trained = data["shield_status"].values == "trained"
    counted = {
        "have fewer than 10 paired base successes behind their medium harm, which one episode then moves a lot": (
            (harm["denominator"].values < 10) & (harm["support"].values > 0)
        ),
        "have no shield, so nothing is known about recovery": ~trained,
        "learned risk from timeouts (timeout-tail fallback): their risk score stands for getting stuck, not harm": (
            trained & (data["risk_label_source"].values == "timeout_tail")
        ),
        "lack clones, so their effect cannot be told from re-running": np.array(
            [bool(run.first_absent(row, ("baseline_clone", "perturb_clone"))) for row in range(run.rows)]
        ),
        "ran under a runtime contract whose departures were accepted with a written reason (Table A2)": (
            (data["contract_status"].values != "match") & (data["contract_unresolved"].values == 0)
        ),
        "have planned episodes that were not run although nothing made them unavailable": np.array(
            [_incomplete(run, row) for row in range(run.rows)]
        ),
    }
    return [f"{int(mask.sum())} of {run.rows} rows {text}." for text, mask in counted.items() if mask.any()]


def _incomplete(run: Run, row: int) -> bool:
    return any(
        run.recorded(row, name).size < run.at(row, name).size
        for name in run.conditions
        if not (run.absent(row, name) and run.unavailable(row, name))
    )


def _condition(name: str) -> str:
    condition = CONDITIONS[name]
    return f"{name} ({condition.profile}{', shield' if condition.shielded else ''})"


def _perturbation(provenance: Mapping[str, JSON]) -> str:
    """Return which profile is called medium, where it is another than the paper's."""
    acting = (provenance.get("profiles") or {}).get(MAIN_PROFILE, {}).get("name", MAIN_PROFILE)
    return (
        ""
        if acting == MAIN_PROFILE
        else f"{acting}, which takes the place of {MAIN_PROFILE} everywhere below"
    )


def _reach(run: Run) -> str:
    """Return whether the perturbation reached the policy, from the frames compared at every decision."""
    data = run.data
    codes = [k for k, name in enumerate(run.conditions) if CONDITIONS[name].profile != "clean"]
    chosen = np.isin(data["condition_index"].values, codes) & (data["frames_given"].values > 0)
    if not chosen.any():
        return ""
    given, changed = (int(data[name].values[chosen].sum()) for name in ("frames_given", "frames_perturbed"))
    return f"{changed} of {given} frames given under a perturbed profile differ from the clean ones"


def _member(member: Mapping[str, JSON]) -> str:
    digest = member.get("plan_digest")
    return f"{member['name']} (plan digest {digest})" if digest else str(member["name"])
