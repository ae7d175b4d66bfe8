"""Clean admission (protocol section 4, Eq. 1): whether a row's clean run is evidence at all.

`admit` evaluates C_src, C_log, C_act, C_fid and the two floors, each with the reason of its failure, and reports
the action diagnostics beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.metrics import ratio
from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.typing import Array, BoolArray, IntArray

__all__ = ["ATTESTED", "REQUIREMENTS", "admit"]

ATTESTED = "attested, step records absent"
"""The mark of verdicts that rest on flat tables."""

REQUIREMENTS: tuple[str, ...] = ("C_src", "C_log", "C_act", "C_fid", "clean successes", "clean success rate")
"""What admission requires, in the order of Eq. 1."""

_Problem = tuple[BoolArray, str | list[str]]
"""The rows that have a problem, and its text, one for all or one a row."""


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
    checks = [
        _source(clean),
        _log(clean),
        _actions(clean, config),
        _fidelity(data),
        _floor(successes >= config.min_clean_successes, successes, config.min_clean_successes),
        _floor(
            rate >= config.min_clean_success_rate - config.tolerance,
            np.round(rate, 4),
            config.min_clean_success_rate,
        ),
    ]
    why = np.stack(checks, axis=1)
    holds = why == ""
    admitted = holds.all(axis=1)
    failed = [
        ", ".join(name for name, good in zip(REQUIREMENTS, row, strict=True) if not good) for row in holds
    ]
    result = xr.Dataset(
        {
            "holds": (("row", "requirement"), holds, {"long_name": "requirement holds"}),
            "why": (("row", "requirement"), why, {"long_name": "why a requirement fails"}),
            "admitted": ("row", admitted, {"long_name": "clean admission A"}),
            "failed": ("row", np.asarray(failed, dtype=object), {"long_name": "requirements that fail"}),
        },
        coords={
            "requirement": ("requirement", np.asarray(REQUIREMENTS, dtype=object)),
            **{name: data[name] for name in ("model", "suite", "task")},
        },
    )
    diagnostics = {name: data[name] for name in ("clean_action_variance",) if name in data}
    return result.assign({**_diagnostics(clean), **diagnostics})


@dataclass(frozen=True)
class _CleanRun:
    """The planned baseline episodes of all rows.

    Attributes:
        episodes: One line an episode, with its `row`.
        action_mode: Action mode of each row.
        native: Whether step records are expected.
    """

    episodes: pd.DataFrame
    action_mode: Array
    native: bool

    @classmethod
    def of(cls, data: xr.Dataset) -> _CleanRun:
        labels = data["condition"].values.tolist()
        code = labels.index("baseline") if "baseline" in labels else NOT_RUN
        at = np.flatnonzero(data["condition_index"].values == code)
        names = (
            "success", "reason", "steps", "recorded_steps", "max_abs_action", "nonfinite_actions",
            "repeated_actions", "clipped_actions", "unique_actions",
        )  # fmt: skip
        episodes = pd.DataFrame({name: data[name].values[at] for name in names})
        episodes["row"] = data["row_index"].values[at].astype(np.int64)
        return cls(episodes, data["action_mode"].values, native=data.attrs["records"] == "native")

    @property
    def rows(self) -> int:
        return len(self.action_mode)

    @property
    def run(self) -> BoolArray:
        """Which episodes have an outcome."""
        return np.asarray(self.episodes["success"] != NOT_RUN, dtype=bool)

    def lacks(self, name: str) -> BoolArray:
        """Return which episodes ran and lack the count `name`."""
        return np.asarray(self.run & (self.episodes[name] == NOT_RUN).to_numpy(), dtype=bool)

    def count(self, mask: BoolArray) -> IntArray:
        """Return, a row, how many episodes `mask` holds."""
        return np.bincount(self.episodes["row"].to_numpy()[mask], minlength=self.rows)


def _source(clean: _CleanRun) -> Array:
    """C_src: the plan names the clean rollout and its records are present."""
    return _first_problem(
        [
            (
                clean.count(np.ones(len(clean.episodes), dtype=bool)) == 0,
                "the plan names no baseline episode",
            ),
            (clean.count(clean.run) == 0, "no baseline episode was recorded"),
        ]
    )


def _log(clean: _CleanRun) -> Array:
    """C_log: every planned episode is recorded, with its step count and, natively, with every step."""
    planned = clean.count(np.ones(len(clean.episodes), dtype=bool))
    absent, uncounted = planned - clean.count(clean.run), clean.count(clean.lacks("steps"))
    problems: list[_Problem] = [
        (planned == 0, "no planned baseline episode"),
        (
            absent > 0,
            [f"{k} of {n} planned baseline episodes absent" for k, n in zip(absent, planned, strict=True)],
        ),
        (uncounted > 0, [f"{k} baseline episodes without a step count" for k in uncounted]),
    ]
    if clean.native:
        torn = clean.count(
            clean.run & (clean.episodes["recorded_steps"] != clean.episodes["steps"]).to_numpy()
        )
        problems.append((torn > 0, [f"{k} baseline episodes without a record of every step" for k in torn]))
    return _first_problem(problems)


def _actions(clean: _CleanRun, config: GateConfig) -> Array:
    """C_act: recorded actions, all of them finite, and not all of them zero."""
    episodes = clean.episodes
    magnitude = episodes["max_abs_action"].to_numpy()
    # `invalid_execution` means that the policy returned a non-finite or wrongly shaped action.
    malformed = (episodes["nonfinite_actions"] > 0) | (
        episodes["reason"] == REASONS.index("invalid_execution")
    )
    bad = clean.count(clean.run & (malformed.to_numpy() | ~np.isfinite(magnitude)))
    finite = clean.run & np.isfinite(magnitude)
    largest = np.full(clean.rows, -np.inf)
    np.maximum.at(largest, episodes["row"].to_numpy()[finite], magnitude[finite])
    problems: list[_Problem] = [(clean.count(clean.run) == 0, "no action was recorded")]
    if clean.native:
        unrecorded = clean.count(clean.lacks("recorded_steps") | clean.lacks("nonfinite_actions"))
        problems += [
            (unrecorded > 0, [f"{k} baseline episodes without step records" for k in unrecorded]),
            (clean.action_mode == "", "the action mode was not recorded"),
        ]
    problems += [
        (
            bad > 0,
            [f"{k} baseline episodes with an action that is missing, not finite or malformed" for k in bad],
        ),
        (largest <= config.min_abs_action, f"no action exceeds {config.min_abs_action:g} in absolute value"),
    ]
    return _first_problem(problems)


def _fidelity(data: xr.Dataset) -> Array:
    """C_fid: the runtime contract matches, or every departure was accepted with a written reason."""
    status, unresolved = data["contract_status"].values, data["contract_unresolved"].values
    accepted = np.array([bool(str(note).strip()) for note in data["contract_note"].values], dtype=bool)
    return _first_problem(
        [
            (unresolved > 0, [f"{k} unresolved contract fields" for k in unresolved]),
            (
                (status != "match") & ~accepted,
                [f"the contract status {s!r} has no accepted reason" for s in status],
            ),
        ]
    )


def _floor(holds: BoolArray, values: Array, threshold: float) -> Array:
    texts = [
        f"{value:g} below {threshold:g}" if np.isfinite(value) else "undefined without episodes"
        for value in values
    ]
    return _first_problem([(~holds, texts)])


def _first_problem(problems: list[_Problem]) -> Array:
    """Return the first problem of each row, empty where there is none."""
    size = len(problems[0][0])
    result = np.full(size, "", dtype=object)
    for mask, text in problems:
        texts = np.asarray([text] * size if isinstance(text, str) else text, dtype=object)
        at = mask & (result == "")
        result[at] = texts[at]
    return result


def _diagnostics(clean: _CleanRun) -> dict[str, xr.Variable]:
    """Return the action diagnostics of the clean run, a row."""
    known = clean.episodes[clean.run & ~clean.lacks("repeated_actions")]
    row = known["row"].to_numpy()
    steps, episodes = np.bincount(row, known["steps"], clean.rows), np.bincount(row, minlength=clean.rows)

    def mean(name: str, total: Array, text: str) -> xr.Variable:
        values = ratio(np.bincount(row, known[name], clean.rows), total)
        return xr.Variable("row", values, {"long_name": text, "units": "1"})

    return {
        "repeated_fraction": mean(
            "repeated_actions", steps, "share of clean actions equal to the one before"
        ),
        "clipped_fraction": mean(
            "clipped_actions", steps, "share of clean actions outside the action bounds"
        ),
        "mean_unique_actions": mean("unique_actions", episodes, "distinct actions of a clean episode"),
    }
