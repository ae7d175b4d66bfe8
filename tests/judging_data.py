"""Datasets for the tests of judging: one row whose outcomes are given episode by episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from roep_gym.evaluate.schema import REASONS, clones_of, empty_dataset

MAIN = ("baseline", "baseline_clone", "perturb", "perturb_clone", "recovery", "full")
KEYS = 50


def evaluation(
    reasons: Mapping[str, Sequence[str]] | None = None,
    *,
    conditions: Sequence[str] = MAIN,
    groups: Sequence[int] | None = None,
    records: str = "flat",
    rows: Mapping[str, Any] | None = None,
    clones: int = 1,
) -> xr.Dataset:
    """Return a Dataset of one row that is recovery_ready unless something is changed.

    Args:
        reasons: Reason of each episode, a condition; "" for not run. Conditions that are left out succeed always.
        conditions: Planned conditions.
        groups: Seed group of each episode; by default 10 episodes a group.
        records: "flat" or "native".
        rows: Row variables to change.
        clones: Clones of the medium condition.
    """
    reasons = reasons or {}
    conditions = [*conditions, *clones_of("perturb")[1:clones]]
    n = len(groups) if groups is not None else max([len(v) for v in reasons.values()], default=KEYS)
    seed_group = np.asarray(groups if groups is not None else np.arange(n) // 10)
    episode = np.concatenate([np.arange((seed_group == g).sum()) for g in np.unique(seed_group)])
    row = {
        "model": "model", "suite": "suite", "task": "task", "shield_status": "trained", "shield_tau": 0.5,
        "shield_digest": "digest", "risk_positive_episodes": 4, "contract_status": "match", "action_mode": "relative",
        **(rows or {}),
    }  # fmt: skip
    count = len(conditions)
    data = empty_dataset(
        rows={name: [value] for name, value in row.items()},
        conditions=conditions,
        planned={
            "row_index": np.zeros(n * count, dtype=int),
            "condition_index": np.repeat(np.arange(count), n),
            "seed_group": np.tile(seed_group, count),
            "episode_index": np.tile(episode, count),
            "init_state": np.tile(np.arange(n), count),
            "env_seed": np.tile(1000 + np.arange(n), count),
        },
        run_ids=[[f"run-{name}" for name in conditions]],
        attrs={"records": records},
    )
    native = records == "native"
    for name in conditions:
        ran = np.array(list(reasons.get(name, ["success"] * n)), dtype=object)
        at = episodes(data, name)[ran != ""]
        shielded = name in ("recovery", "full")
        codes = [REASONS.index(reason) for reason in ran[ran != ""]]
        values = {
            "reason": codes, "success": np.asarray(codes) == 0, "steps": 100, "max_abs_action": 0.5,
            "intervention_steps": int(shielded), "refusals": 0, "unsafe_attempts": 0,
        }  # fmt: skip
        if native:
            values |= {"recorded_steps": 100, "nonfinite_actions": 0, "scene_hash": 7, "fingerprint": 9}
        if native and shielded:
            values |= {"risk_steps": 100, "interventions": 1, "crossings": 1}
        for variable, value in values.items():
            data[variable].values[at] = value
    return data


def episodes(data: xr.Dataset, condition: str) -> np.ndarray:
    """Return the positions of a condition's episodes, in the order of their keys."""
    return np.flatnonzero(
        data["condition_index"].values == data["condition"].values.tolist().index(condition)
    )


def drop(data: xr.Dataset, condition: str, *which: int) -> None:
    """Make episodes of a condition not run (all when none is named)."""
    at = episodes(data, condition)
    at = at[list(which)] if which else at
    for name in (
        "success",
        "reason",
        "steps",
        "intervention_steps",
        "unsafe_attempts",
        "refusals",
        "scene_hash",
    ):
        data[name].values[at] = -1
    data["max_abs_action"].values[at] = np.nan


def failures(n: int, total: int = KEYS, reason: str = "timeout") -> list[str]:
    """Return reasons of which the first `n` are failures."""
    return [reason] * n + ["success"] * (total - n)


def join(*datasets: xr.Dataset) -> xr.Dataset:
    """Return one Dataset with the rows of several that planned the same conditions."""
    parts, begin = [], 0
    for data in datasets:
        parts.append(data.assign_coords(row_index=data["row_index"] + np.int32(begin)))
        begin += data.sizes["row"]
    rows = xr.concat([data.drop_dims("episode") for data in parts], dim="row")
    records = xr.concat([data.drop_dims("row") for data in parts], dim="episode")
    return rows.merge(records)
