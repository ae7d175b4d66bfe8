"""Clean admission (protocol section 4, Eq. 1): whether a row's clean run is evidence at all.

`admit` evaluates C_src, C_log, C_act, C_fid and the two floors, each with the reason of its failure, and reports
the action diagnostics beside them. `first_problem` finds that reason among several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.metrics import ratio
from roep_gym.evaluate.judging.tables import Columns, count_by_row, planned_in, table
from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.typing import Array, BoolArray, FloatArray, IntArray

__all__ = ["ATTESTED", "REQUIREMENTS", "Problem", "admit", "first_problem", "largest_clean_action"]

ATTESTED = "attested, step records absent"
"""The mark of verdicts that rest on flat tables."""

REQUIREMENTS: tuple[str, ...] = ("C_src", "C_log", "C_act", "C_fid", "clean successes", "clean success rate")
"""What admission requires, in the order of Eq. 1."""

Problem = tuple[BoolArray, str | Sequence[str]]
"""The rows that have a problem, and its text, one for all or one per row."""


def admit(data: xr.Dataset, rates: xr.Dataset, config: GateConfig) -> xr.Dataset:
    """Evaluate the clean admission of every row.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`; `attrs["records"]` is "native" or "flat".
        rates: The Dataset of `roep_gym.evaluate.judging.metrics.condition_rates`.
        config: Thresholds.

    Returns:
        A Dataset along `row`: `holds` (along `requirement`, bool), `why` (along `requirement`, str, empty where it
        holds), `admitted` (bool), `failed` (str, the requirements that fail) and the diagnostics that do not gate:
        `repeated_fraction`, `clipped_fraction`, `mean_unique_actions` of the clean run, NaN where not recorded, and
        `clean_action_variance` (along `action_entry`) where the Dataset holds it.
    """
    clean = _CleanRun.of(data)
    success = rates.sel(condition="baseline", outcome="success")
    successes, rate = success["count"].values, success["rate"].values
    enough = rate >= config.min_clean_success_rate - config.tolerance
    checks = [
        _source(clean),
        _log(clean),
        _actions(clean, config),
        _fidelity(data),
        _floor(successes >= config.min_clean_successes, successes, config.min_clean_successes),
        _floor(enough, np.round(rate, 4), config.min_clean_success_rate),
    ]
    why = np.stack(checks, axis=1)
    holds = why == ""
    failed = [", ".join(np.array(REQUIREMENTS)[~row]) for row in holds]
    dims = ("row", "requirement")
    result = table(
        {
            "holds": (dims, holds, "requirement holds"),
            "why": (dims, why, "why a requirement fails"),
            "admitted": ("row", holds.all(axis=1), "clean admission A"),
            "failed": ("row", failed, "requirements that fail"),
            **_diagnostics(clean),
        },
        data,
        requirement=REQUIREMENTS,
    )
    if "clean_action_variance" in data:
        result["clean_action_variance"] = data["clean_action_variance"]
    return result


@dataclass(frozen=True)
class _CleanRun:
    """The planned baseline episodes of all rows.

    Attributes:
        data: The episodes and the rows.
        native: Whether step records are expected.
        run: Which episodes have an outcome.
        planned: Number of episodes of each row.
    """

    data: xr.Dataset
    native: bool
    run: BoolArray
    planned: IntArray

    @classmethod
    def of(cls, data: xr.Dataset) -> _CleanRun:
        clean = data.isel(episode=planned_in(data, "baseline"))
        run = clean["success"].values != NOT_RUN
        return cls(clean, data.attrs["records"] == "native", run, count_by_row(clean, np.ones_like(run)))

    def count(self, mask: BoolArray) -> IntArray:
        """Return (row,) how many of the episodes that ran `mask` holds."""
        return count_by_row(self.data, self.run & mask)

    def lacking(self, *names: str) -> IntArray:
        """Return (row,) how many of the episodes that ran lack one of these counts."""
        return self.count(np.any([self.data[name].values == NOT_RUN for name in names], axis=0))


def _source(clean: _CleanRun) -> Array:
    """C_src: the plan names the clean rollout and its records are present."""
    return first_problem(
        [
            (clean.planned == 0, "the plan names no baseline episode"),
            (clean.count(clean.run) == 0, "no baseline episode was recorded"),
        ]
    )


def _log(clean: _CleanRun) -> Array:
    """C_log: every planned episode is recorded, with its step count and, natively, with every step."""
    planned = clean.planned
    absent = planned - clean.count(clean.run)
    texts = [f"{k} of {n} planned baseline episodes absent" for k, n in zip(absent, planned, strict=True)]
    problems: list[Problem] = [
        (planned == 0, "no planned baseline episode"),
        (absent > 0, texts),
        _some(clean.lacking("steps"), "baseline episodes without a step count"),
    ]
    if clean.native:
        torn = clean.count(clean.data["recorded_steps"].values != clean.data["steps"].values)
        problems.append(_some(torn, "baseline episodes without a record of every step"))
    return first_problem(problems)


def _actions(clean: _CleanRun, config: GateConfig) -> Array:
    """C_act: recorded actions, all of them finite, and not all of them zero."""
    data = clean.data
    finite = np.isfinite(data["max_abs_action"].values)
    # `invalid_execution` means that the policy returned a non-finite or wrongly shaped action.
    invalid = data["reason"].values == REASONS.index("invalid_execution")
    bad = clean.count((data["nonfinite_actions"].values > 0) | invalid | ~finite)
    problems: list[Problem] = [(clean.count(clean.run) == 0, "no action was recorded")]
    if clean.native:
        unrecorded = clean.lacking("recorded_steps", "nonfinite_actions")
        problems += [
            _some(unrecorded, "baseline episodes without step records"),
            (data["action_mode"].values == "", "the action mode was not recorded"),
        ]
    largest = largest_clean_action(data)
    problems += [
        _some(bad, "baseline episodes with an action that is missing, not finite or malformed"),
        (
            ~(largest > config.min_abs_action),
            f"no action exceeds {config.min_abs_action:g} in absolute value",
        ),
    ]
    return first_problem(problems)


def largest_clean_action(data: xr.Dataset) -> FloatArray:
    """Return (row,) the largest finite absolute action of the baseline, NaN without one."""
    magnitude = data["max_abs_action"].values
    at = planned_in(data, "baseline") & (data["success"].values != NOT_RUN) & np.isfinite(magnitude)
    largest = np.full(data.sizes["row"], np.nan)
    np.fmax.at(largest, data["row_index"].values[at], magnitude[at])
    return largest


def _fidelity(data: xr.Dataset) -> Array:
    """C_fid: the runtime contract matches, or every departure was accepted with a written reason."""
    status = data["contract_status"].values
    accepted = np.array([bool(str(note).strip()) for note in data["contract_note"].values], dtype=bool)
    unaccepted = [f"the contract status {s!r} has no accepted reason" for s in status]
    return first_problem(
        [
            _some(data["contract_unresolved"].values, "unresolved contract fields"),
            ((status != "match") & ~accepted, unaccepted),
        ]
    )


def _floor(holds: BoolArray, values: Array, threshold: float) -> Array:
    texts = [
        f"{value:g} below {threshold:g}" if np.isfinite(value) else "undefined without episodes"
        for value in values
    ]
    return first_problem([(~holds, texts)])


def _some(counts: IntArray, what: str) -> Problem:
    """Return the problem of the rows that have some of what should not be."""
    return counts > 0, [f"{count} {what}" for count in counts]


def first_problem(problems: Sequence[Problem]) -> Array:
    """Return (row,) the text of the first problem that each row has, empty where it has none."""
    result = np.full(len(problems[0][0]), "", dtype=object)
    for mask, text in reversed(problems):
        result = np.where(mask, np.asarray(text, dtype=object), result)
    return result


def _diagnostics(clean: _CleanRun) -> Columns:
    """Return the action diagnostics of the clean run."""
    known = clean.run & (clean.data["repeated_actions"].values != NOT_RUN)

    def total(name: str) -> Array:
        weights = clean.data[name].values[known]
        return np.bincount(clean.data["row_index"].values[known], weights, clean.data.sizes["row"])

    steps, unique = total("steps"), ratio(total("unique_actions"), count_by_row(clean.data, known))
    repeated, clipped = (ratio(total(f"{name}_actions"), steps) for name in ("repeated", "clipped"))
    return {
        "repeated_fraction": ("row", repeated, "share of clean actions equal to the one before"),
        "clipped_fraction": ("row", clipped, "share of clean actions outside the action bounds"),
        "mean_unique_actions": ("row", unique, "distinct actions of a clean episode"),
    }
