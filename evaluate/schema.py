"""The schema of an evaluation's Dataset: what judging reads, whoever wrote it.

Dimensions: `episode` (every *planned* episode, in canonical order: row, condition, seed group, episode index),
`row` (model, suite, task), `condition` and `unsafe_channel`. An outcome that does not exist is `NOT_RUN` or
NaN, never 0. `empty_dataset` builds a Dataset in which nothing has run yet; `check_dataset` holds one against
the schema; `CONDITIONS` and `REASONS` are the vocabularies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import xarray as xr

from roep_gym.episode_record import NOT_RUN, REASONS, UNSAFE_CHANNELS, EpisodeSummary, Variable
from roep_gym.error import InvalidInputError

__all__ = [
    "CONDITIONS",
    "EPISODE_VARIABLES",
    "MAIN_PROFILE",
    "MAX_CLONES",
    "NOT_RUN",
    "PAIRING_KEY",
    "REASONS",
    "ROW_VARIABLES",
    "SCHEMA_VERSION",
    "UNSAFE_CHANNELS",
    "Condition",
    "check_dataset",
    "clones_of",
    "empty_dataset",
]

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Condition:
    """One way to run a row (protocol section 1).

    Attributes:
        name: Name of the condition.
        profile: Perturbation profile.
        shielded: Whether the shield acts.
        clone_of: Condition that this one re-executes.
        role: "main", "bootstrap", "sweep", or "clone" for the clones beyond the first.
    """

    name: str
    profile: str
    shielded: bool = False
    clone_of: str = ""
    role: str = "main"


MAIN_PROFILE = "medium"
"""What conditions call the profile that the claims are about: the paper's, unless a plan names another."""

MAX_CLONES = 5
"""The largest number of clones of a condition that a plan may ask for."""

_PROTOCOL = (
    Condition("baseline", "clean"),
    Condition("baseline_clone", "clean", clone_of="baseline"),
    Condition("perturb", "medium"),
    Condition("perturb_clone", "medium", clone_of="perturb"),
    Condition("bootstrap_clean", "clean", role="bootstrap"),
    Condition("bootstrap_perturb", "medium", role="bootstrap"),
    Condition("recovery", "clean", shielded=True),
    Condition("full", "medium", shielded=True),
    Condition("mild", "mild", role="sweep"),
    Condition("mild_clone", "mild", clone_of="mild", role="sweep"),
    Condition("strong", "strong", role="sweep"),
    Condition("strong_clone", "strong", clone_of="strong", role="sweep"),
)
_FURTHER_CLONES = tuple(
    replace(clone, name=f"{clone.name}_{number}", role="clone")
    for clone in _PROTOCOL
    if clone.clone_of
    for number in range(2, MAX_CLONES + 1)
)
CONDITIONS: Mapping[str, Condition] = {c.name: c for c in (*_PROTOCOL, *_FURTHER_CLONES)}
"""The conditions of the protocol, then further clones: the paper's rule uses the first of each, `perturb_clone`, the
calibrated verdict beside it also `perturb_clone_2` and so on."""


def clones_of(condition: str) -> tuple[str, ...]:
    """Return the names of a condition's clones, the first one first."""
    return tuple(c.name for c in CONDITIONS.values() if c.clone_of == condition)


PAIRING_KEY: tuple[str, ...] = ("seed_group", "episode_index", "init_state", "env_seed")
"""Variables that, with suite and task, are equal for the same episode in every condition of a row."""


EPISODE_VARIABLES: Mapping[str, Variable] = {
    "row_index": Variable("int32", NOT_RUN, "index of the row along the dimension row"),
    "condition_index": Variable("int8", NOT_RUN, "index of the condition along the dimension condition"),
    "seed_group": Variable("int32", NOT_RUN, "seed group"),
    "episode_index": Variable("int32", NOT_RUN, "episode index within the seed group"),
    "init_state": Variable(
        "int32", NOT_RUN, "index of the initial state; -1 where the scene seed places everything"
    ),
    "env_seed": Variable("int64", NOT_RUN, "scene seed of the environment"),
    **{f.name: f.metadata["variable"] for f in fields(EpisodeSummary) if "variable" in f.metadata},
    "aborts": Variable("int32", 0, "attempts that an infrastructure failure ended"),
}
"""Variables along `episode`: the plan's, those of `EpisodeSummary`, and the aborted attempts; those marked `timing`
differ between identical runs."""

ROW_VARIABLES: Mapping[str, Variable] = {
    "model": Variable("str", "", "model"),
    "suite": Variable("str", "", "LIBERO suite"),
    "task": Variable("str", "", "task"),
    "instruction": Variable("str", "", "instruction"),
    "shield_status": Variable("str", "none", "trained, failed or none"),
    "shield_tau": Variable("float64", np.nan, "risk threshold"),
    "shield_digest": Variable("str", "", "content hash of the shield"),
    "shield_reason": Variable("str", "", "why there is no shield"),
    "risk_positive_episodes": Variable(
        "int32", NOT_RUN, "risk episodes in the training part of the bootstrap data"
    ),
    "risk_label_source": Variable("str", "", "unsafe_attempt or timeout_tail"),
    "shield_metadata": Variable("str", "{}", "metadata of the shield's training, JSON"),
    "contract_status": Variable("str", "unknown", "match, mismatch or unknown"),
    "contract_unresolved": Variable("int32", 0, "contract fields that close C_fid"),
    "contract_note": Variable("str", "", "why mismatches and unknowns are accepted"),
    "action_mode": Variable(
        "str", "", "action mode that ran (relative or absolute); empty where it was not recorded"
    ),
    "contract": Variable("str", "[]", "contract fields with declared, observed, verdict, resolution, JSON"),
}
"""Variables along `row`."""


def empty_dataset(
    *,
    rows: Mapping[str, Sequence[Any]],
    conditions: Sequence[str],
    planned: Mapping[str, Any],
    run_ids: Sequence[Sequence[str]],
    attrs: Mapping[str, Any],
) -> xr.Dataset:
    """Return a Dataset of a plan in which no episode has run.

    Args:
        rows: Row variables; at least `model`, `suite` and `task`, one value per row.
        conditions: Planned conditions, in canonical order.
        planned: `row_index`, `condition_index` and the `PAIRING_KEY` of each planned episode, in canonical order.
        run_ids: Run id of each (row, condition).
        attrs: Attributes; `schema_version` is added.
    """
    n_rows, n_episodes = len(rows["model"]), len(planned["row_index"])
    data = xr.Dataset(attrs={"schema_version": SCHEMA_VERSION, **attrs})
    for name, spec in ROW_VARIABLES.items():
        entries = rows.get(name, [spec.fill] * n_rows)
        dtype = object if spec.dtype == "str" else spec.dtype
        data[name] = ("row", np.asarray(list(entries), dtype=dtype), _attributes(spec))
    for name, spec in EPISODE_VARIABLES.items():
        values = planned[name] if name in planned else np.full(n_episodes, spec.fill)
        data[name] = ("episode", np.asarray(values, dtype=spec.dtype), _attributes(spec))
    data["reason"].attrs.update(flag_values=list(range(len(REASONS))), flag_meanings=" ".join(REASONS))
    data["unsafe_channel_attempts"] = (
        ("episode", "unsafe_channel"),
        np.full((n_episodes, len(UNSAFE_CHANNELS)), NOT_RUN, dtype=np.int32),
        {
            "long_name": "steps with an unsafe attempt in the channel; -1 where the channel was not active",
            "units": "1",
        },
    )
    data["run_id"] = (("row", "condition"), np.asarray(run_ids, dtype=object).reshape(n_rows, len(conditions)),
                      {"long_name": "run id"})  # fmt: skip
    data = data.assign_coords(
        condition=("condition", np.asarray(list(conditions), dtype=object)),
        unsafe_channel=("unsafe_channel", np.asarray(UNSAFE_CHANNELS, dtype=object)),
    )
    return data.set_coords(["model", "suite", "task", "row_index", "condition_index", *PAIRING_KEY])


def check_dataset(data: xr.Dataset) -> None:
    """Validate a Dataset against the schema: variables, dimensions, vocabularies, and outcomes against reasons."""
    version = data.attrs.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InvalidInputError(
            f"Expected a run of schema version {SCHEMA_VERSION}, got {version}; write it again with this version."
        )
    for dim, specs in (("episode", EPISODE_VARIABLES), ("row", ROW_VARIABLES)):
        for name in specs:
            if name not in data.variables:
                raise InvalidInputError(f"Expected the variable {name!r} along {dim!r}, but it is missing.")
            if data[name].dims != (dim,):
                raise InvalidInputError(
                    f"Expected {name!r} to have the dimensions ({dim!r},), got {data[name].dims}."
                )
    unknown = set(data["condition"].values.tolist()) - set(CONDITIONS)
    if unknown:
        raise InvalidInputError(f"Expected conditions among {list(CONDITIONS)}, got {sorted(unknown)}.")
    success, reason = data["success"].values, data["reason"].values
    if not np.isin(success, (NOT_RUN, 0, 1)).all() or not np.isin(reason, np.arange(-1, len(REASONS))).all():
        raise InvalidInputError("Expected success in {-1, 0, 1} and known reasons, got other codes.")
    bad = np.flatnonzero((success == 1) != (reason == REASONS.index("success")))
    if bad.size or ((success == NOT_RUN) != (reason == NOT_RUN)).any():
        raise InvalidInputError(
            f"Expected success and reason to agree; {max(bad.size, 1)} episodes contradict themselves."
        )


def _attributes(spec: Variable) -> dict[str, Any]:
    attributes: dict[str, Any] = {"long_name": spec.long_name}
    if spec.dtype != "str":
        attributes["units"] = spec.units
    if spec.timing:
        attributes["timing"] = 1
    return attributes
