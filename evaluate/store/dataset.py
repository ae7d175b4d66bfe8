"""From the journal to the files of a run: the episode Dataset and the step Datasets.

`build_dataset` makes what judging reads, `build_steps` one Dataset of steps a row and condition (a contiguous ragged
array: `row_size` steps for each episode, CF conventions chapter 9), `write_run` writes all of it. `contract_entries`
and `observed_value` say what a row ran with.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import xarray as xr

from roep_gym import contracts, fingerprint
from roep_gym.episode import EpisodeIdentity
from roep_gym.episode_record import EpisodeRecord
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan
from roep_gym.evaluate.schema import (
    EPISODE_VARIABLES,
    NOT_RUN,
    REASONS,
    ROW_VARIABLES,
    UNSAFE_CHANNELS,
    check_dataset,
    empty_dataset,
)
from roep_gym.evaluate.store.journal import Abort, Journal
from roep_gym.evaluate.store.row_shield import RowShield, load_row_shield
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import save_dataset, write_records
from roep_gym.typing import Array

__all__ = ["build_dataset", "build_steps", "contract_entries", "observed_value", "write_run"]

_PATCH_ENTRIES = ("row", "column", "side")
_STEP_ATTRIBUTES: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "proposed_action": (("action_entry",), "action proposed by the policy", "1"),
    "executed_action": (("action_entry",), "action sent to the environment", "1"),
    "shielded_action": (
        ("action_entry",),
        "action that the shield let pass, where actions are perturbed",
        "1",
    ),
    "reward": ((), "reward", "1"),
    "proprio": (("proprio_entry",), "low-dimensional observation acted on", "see proprio_entry"),
    "looked": ((), "whether the frames acted on were asked for", "1"),
    "unsafe": (("unsafe_channel",), "unsafe attempt; -1 where the channel is not active", "1"),
    "risk": ((), "risk score of the shield", "1"),
    "intervened": ((), "whether the shield intervened; -1 without a shield", "1"),
    "shield_reason": ((), "code of the shield's reason; -1 without a shield", "1"),
    "projection": ((), "code of the shield's projection; -1 without a shield", "1"),
    "patch": (("image", "patch_entry"), "occluding patch: row, column, side", "pixel"),
    "dropped_fraction": (("depth",), "fraction of depth pixels set to 0", "1"),
}


def write_run(run: RunDirectory, plan: ResolvedPlan, journal: Journal) -> None:
    """Write the run's Dataset, flat tables and step Datasets from its journal, which holds everything."""
    data = build_dataset(run, plan, journal)
    write_records(data, run.root)
    for row in plan.rows:
        for condition in plan.conditions:
            records = list(journal.records(row.index, condition.name))
            if records:
                save_dataset(build_steps(records), run.steps / f"{row.index:04d}-{condition.name}.nc")


def build_dataset(run: RunDirectory, plan: ResolvedPlan, journal: Journal) -> xr.Dataset:
    """Return the episode Dataset of a run, planned episodes that were not run included."""
    outcomes = _Outcomes(plan)
    for _, entries in groupby(journal.records(), key=lambda entry: entry[0].row):
        outcomes.add_row(list(entries))
    outcomes.add_aborts(journal.aborts())
    row, condition, group, episode = (index.ravel() for index in np.indices(outcomes.shape, dtype=np.int32))
    measured = run.measured_determinism()
    keys = [_pairing_key(plan.identity(planned)) for planned in plan.episodes()]
    init_state, env_seed = np.array(keys, dtype=np.int64).reshape(-1, 2).T
    data = empty_dataset(
        rows=_row_variables(run, plan, outcomes.declared, outcomes.observed),
        conditions=[condition.name for condition in plan.conditions],
        planned={
            "row_index": row,
            "condition_index": condition,
            "seed_group": group,
            "episode_index": episode,
            "init_state": init_state,
            "env_seed": env_seed,
        },
        run_ids=[[plan.run_id(row, condition) for condition in plan.conditions] for row in plan.rows],
        attrs={
            "title": f"ROEP evaluation {plan.plan.name!r}",
            "Conventions": "CF-1.11",
            "records": "native",
            "provenance": json.dumps(
                {
                    "plan": json.loads(plan.plan.to_json()),
                    "plan_digest": plan.digest,
                    "profiles": plan.profiles,
                    "versions": fingerprint.versions(),
                    "fingerprints": outcomes.fingerprints,
                    **({"determinism": measured} if measured else {}),
                },
                sort_keys=True,
            ),
        },
    )
    for name, values in outcomes.columns.items():
        data[name].values[:] = values
    data["unsafe_channel_attempts"].values[:] = outcomes.channels
    if outcomes.action_variance:
        data["clean_action_variance"] = _action_variance(outcomes.action_variance, data.sizes["row"])
    check_dataset(data)
    return data


class _Outcomes:
    """What the records of a run say, a column for each variable, in the order of the plan.

    Attributes:
        shape: Rows, conditions, seed groups and episodes of the plan.
        columns: Values of the episode variables that records determine.
        channels: Unsafe attempts (episode, unsafe channel).
        fingerprints: Numeric fingerprints by their hash.
        declared: Contract that the policy declared, by row.
        observed: Values that each contract field was observed with, by row.
        action_variance: Variance of each entry of the proposed actions over the clean run, by row.
    """

    def __init__(self, plan: ResolvedPlan) -> None:
        self.shape = (len(plan.rows), len(plan.conditions), plan.plan.seed_groups, plan.plan.episodes)
        size = math.prod(self.shape)
        self.columns = {
            name: np.full(size, spec.fill, dtype=spec.dtype)
            for name, spec in EPISODE_VARIABLES.items()
            if name
            not in ("row_index", "condition_index", "episode_index", "seed_group", "init_state", "env_seed")
        }
        self.channels = np.full((size, len(UNSAFE_CHANNELS)), -1, dtype=np.int32)
        self.fingerprints: dict[str, Mapping[str, str]] = {}
        self.declared: dict[int, Mapping[str, Any]] = {}
        self.observed: dict[int, dict[str, list[Any]]] = {row.index: {} for row in plan.rows}
        self.action_variance: dict[int, Array] = {}
        self._conditions = {condition.name: i for i, condition in enumerate(plan.conditions)}

    def add_row(self, entries: Sequence[tuple[PlannedEpisode, EpisodeRecord]]) -> None:
        """Take all records of one row."""
        row = entries[0][0].row
        observed: Mapping[str, Any] = {}
        for planned, record in entries:
            position, summary, attributes = self._position(planned), record.summary, record.attributes
            for name, value in vars(summary).items():
                if name in self.columns:
                    self.columns[name][position] = REASONS.index(value) if name == "reason" else value
            attempts = summary.unsafe_channel_attempts
            self.channels[position] = [attempts[channel] for channel in UNSAFE_CHANNELS]
            self.fingerprints[str(summary.fingerprint)] = attributes.fingerprint
            self.declared[row] = attributes.declared
            if attributes.observed != observed:  # mostly those of the episode before
                observed = attributes.observed
                _collect_observed(self.observed[row], observed)
        clean = [
            record.steps["proposed_action"] for planned, record in entries if planned.condition == "baseline"
        ]
        if clean:
            self.action_variance[row] = np.concatenate(clean).astype(np.float64).var(axis=0)

    def add_aborts(self, aborts: Sequence[Abort]) -> None:
        """Count the aborted attempts."""
        for planned, count in Counter(abort.planned for abort in aborts).items():
            self.columns["aborts"][self._position(planned)] = count

    def _position(self, planned: PlannedEpisode) -> int:
        _, conditions, groups, episodes = self.shape
        condition = self._conditions[planned.condition]
        group = (planned.row * conditions + condition) * groups + planned.seed_group
        return group * episodes + planned.episode


def _pairing_key(identity: EpisodeIdentity) -> tuple[int, int]:
    """Return initial state and scene seed as the Dataset holds them: -1 where the scene follows from its seed alone."""
    init_state, seed = identity.init_state, identity.scene_seed
    return init_state if isinstance(init_state, int) else NOT_RUN, NOT_RUN if seed is None else seed


def build_steps(records: Sequence[tuple[PlannedEpisode, EpisodeRecord]]) -> xr.Dataset:
    """Return the steps of one condition of one row as a contiguous ragged array."""
    planned, first = records[0]
    attributes = first.attributes
    variables: dict[str, Any] = {
        "row_size": (
            "episode",
            np.array([len(r.steps["reward"]) for _, r in records], dtype=np.int32),
            {"long_name": "steps of the episode", "sample_dimension": "step", "units": "1"},
        )
    }
    for name, (dimensions, long_name, units) in _STEP_ATTRIBUTES.items():
        if name not in records[0][1].steps:
            continue
        values = np.concatenate([record.steps[name] for _, record in records])
        variables[name] = (("step", *dimensions), values, {"long_name": long_name, "units": units})
    data = xr.Dataset(
        variables,
        coords={
            "seed_group": ("episode", np.array([p.seed_group for p, _ in records], dtype=np.int32)),
            "episode_index": ("episode", np.array([p.episode for p, _ in records], dtype=np.int32)),
            "unsafe_channel": ("unsafe_channel", np.array(attributes.unsafe_channels, dtype=object)),
            "proprio_entry": ("proprio_entry", np.array(attributes.proprio, dtype=object)),
            "image": ("image", np.array(attributes.image_keys, dtype=object)),
            "depth": ("depth", np.array(attributes.depth_keys, dtype=object)),
            "patch_entry": ("patch_entry", np.array(_PATCH_ENTRIES, dtype=object)),
        },
        attrs={
            "title": f"steps of row {planned.row}, condition {planned.condition}",
            "Conventions": "CF-1.11",
        },
    )
    for name, codes in (("shield_reason", attributes.shield_reasons), ("projection", attributes.projections)):
        data[name].attrs.update(flag_values=list(range(len(codes))), flag_meanings=" ".join(codes))
    return data


def _action_variance(by_row: Mapping[int, Array], rows: int) -> xr.Variable:
    """Return the variance of each action entry over all steps of a row's clean run, NaN where nothing ran."""
    variance = np.full((rows, max(map(len, by_row.values()))), np.nan)
    for row, values in by_row.items():
        variance[row, : len(values)] = values
    attributes = {"long_name": "variance of the proposed actions of the clean run", "units": "1"}
    return xr.Variable(("row", "action_entry"), variance, attributes)


def _collect_observed(row: dict[str, list[Any]], values: Mapping[str, Any]) -> None:
    """Add what an episode observed of its runtime; a field may have been observed with several values."""
    for name, value in values.items():
        if value is not None and value not in row.setdefault(name, []):
            row[name].append(value)


def _row_variables(
    run: RunDirectory,
    plan: ResolvedPlan,
    declared: Mapping[int, Mapping[str, Any]],
    observed: Mapping[int, Mapping[str, list[Any]]],
) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for row in plan.rows:
        ran = {name: observed_value(values) for name, values in observed[row.index].items()}
        entries = {
            **{name: spec.fill for name, spec in ROW_VARIABLES.items()},
            "model": row.model.name,
            "suite": row.suite,
            "task": row.task,
            "instruction": row.instruction,
            **contract_entries(declared.get(row.index, {}), ran, row.model.accept),
            **_shield_entries(plan, load_row_shield(run, row)),
        }
        for name, value in entries.items():
            rows.setdefault(name, []).append(value)
    return rows


def observed_value(values: Sequence[Any]) -> Any:
    """Return the one value that a contract field was observed with, or in words that it varied."""
    return values[0] if len(values) == 1 else f"varied: {list(values)}"


def contract_entries(
    declared: Mapping[str, Any], ran: Mapping[str, Any], accepted: Mapping[str, str]
) -> dict[str, Any]:
    """Return the row variables of a runtime contract, from what was declared, what ran and what is accepted."""
    lines = contracts.compare(contracts.RuntimeContract(**declared), ran, accepted=accepted)
    notes = [f"{line.name}: {line.resolution}" for line in lines if line.resolution]
    return {
        "action_mode": ran.get("control_mode") or "",
        "contract_status": contracts.contract_status(lines),
        "contract_unresolved": len(contracts.unresolved(lines)),
        "contract_note": "; ".join(notes),
        "contract": json.dumps([line._asdict() for line in lines]),
    }


def _shield_entries(plan: ResolvedPlan, shield: RowShield | None) -> dict[str, Any]:
    if shield is None:
        planned = any(condition.shielded for condition in plan.conditions)
        reason = "the bootstrap is not complete" if planned else "no shielded condition is planned"
        return {"shield_reason": reason}
    return {
        "shield_status": shield.status,
        "shield_tau": np.nan if shield.tau is None else shield.tau,
        "shield_digest": shield.digest,
        "shield_reason": shield.reason,
        "risk_positive_episodes": shield.metadata["risk_positive_episodes"],
        "risk_label_source": shield.metadata["label_source"],
        "shield_metadata": json.dumps(shield.metadata, sort_keys=True),
    }
