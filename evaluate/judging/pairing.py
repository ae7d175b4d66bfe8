"""Pairs of episodes: the same episode under two conditions of a row.

`align` lays the episodes out as a table of pairing keys by conditions, on which every later step works without
a loop over episodes. `pairing_keys` numbers the keys, `PAIRS` are the pairs that are compared, `paired` says where both
partners exist, `pair_integrity` counts support, mismatched keys and what stands beside them, and `identical_replicates`
finds the clones that repeat every record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.tables import ROW, count_by_row, table
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, PAIRING_KEY, REASONS
from roep_gym.typing import Array, BoolArray, IntArray

__all__ = [
    "COMPARED",
    "GATE_PAIRS",
    "PAIRS",
    "Keys",
    "Pair",
    "align",
    "identical_replicates",
    "pair_integrity",
    "paired",
    "pairing_keys",
    "shield_exists",
]


class Pair(NamedTuple):
    """Two conditions that are compared, key by key."""

    base: str
    comparison: str

    @property
    def name(self) -> str:
        """Label along the dimension `pair`, such as "full given perturb"."""
        return f"{self.comparison} given {self.base}"

    @property
    def shielded(self) -> bool:
        """Whether one side needs a shield."""
        return CONDITIONS[self.base].shielded or CONDITIONS[self.comparison].shielded


GATE_PAIRS: tuple[Pair, ...] = (
    Pair("baseline", "recovery"),
    Pair("perturb", "full"),
    Pair("baseline", "perturb"),
    Pair("baseline", "baseline_clone"),
    Pair("perturb", "perturb_clone"),
)
"""The five pairs of check 2 (protocol section 7)."""

PAIRS: tuple[Pair, ...] = (*GATE_PAIRS, Pair("mild", "mild_clone"), Pair("strong", "strong_clone"))
"""All pairs; the clones of the severity sweep never gate."""

COMPARED: tuple[str, ...] = ("success", "reason", "steps", "max_abs_action", "unsafe_attempts", "scene_hash")
"""What must be equal in every key of a pair of identical replicates."""

_ALIGNED = (
    "success",
    "reason",
    "steps",
    "max_abs_action",
    "unsafe_attempts",
    "intervention_steps",
    "scene_hash",
    "fingerprint",
    "aborts",
)


class Keys(NamedTuple):
    """The pairing keys of a Dataset, numbered in the order of row, seed group, episode.

    Attributes:
        code: Number of each episode's key (episode,).
        first: An episode of each key (key,).
    """

    code: IntArray
    first: IntArray


def pairing_keys(data: xr.Dataset) -> Keys:
    """Number the pairing keys of a Dataset; episodes with the same number are partners."""
    names = ["row_index", *PAIRING_KEY]
    code = pd.DataFrame({name: data[name].values for name in names}).groupby(names).ngroup().to_numpy()
    return Keys(code, np.unique(code, return_index=True)[1])


def align(data: xr.Dataset) -> xr.Dataset:
    """Lay the episodes out by pairing key and condition.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`.

    Returns:
        A Dataset with the dimensions `key` (sorted by row, seed group, episode), `condition` (all of the protocol, and
        the further clones that the Dataset has) and `row`. Along (key, condition): `planned` and `run` (bool), the
        outcomes `success`, `reason`, `steps`, `max_abs_action`, `unsafe_attempts`, `intervention_steps`, `scene_hash`,
        `fingerprint`, `aborts`, and `unsafe`: 1 with an unsafe attempt, 0 without one, -1 where it was not observed.
        Coordinates of `key`: `row_index` and the pairing key.

    Raises:
        InvalidInputError: An episode appears twice.
    """
    labels = data["condition"].values.tolist()
    names = [name for name, condition in CONDITIONS.items() if condition.role != "clone" or name in labels]
    code_of = np.array([names.index(label) for label in labels], dtype=np.int64)
    condition = code_of[data["condition_index"].values]
    key, first = pairing_keys(data)
    twice = pd.Series(key * len(names) + condition).duplicated().to_numpy()
    if twice.any():
        at = int(twice.argmax())
        raise InvalidInputError(
            f"Expected each episode once per condition, but seed group {data['seed_group'].values[at]}, episode "
            f"{data['episode_index'].values[at]} appears twice in {names[condition[at]]!r}; remove one of the two."
        )

    def laid_out(values: Array, fill: int) -> tuple[tuple[str, str], Array]:
        cells = np.full((first.size, len(names)), fill, dtype=values.dtype)
        cells[key, condition] = values
        return ("key", "condition"), cells

    keys = {name: data[name].values[first].astype(np.int64) for name in ("row_index", *PAIRING_KEY)}
    aligned = xr.Dataset(
        {name: laid_out(data[name].values, 0 if name == "aborts" else NOT_RUN) for name in _ALIGNED},
        coords={
            "condition": ("condition", np.asarray(names, dtype=object)),
            **{name: ("key", values) for name, values in keys.items()},
            **{name: data[name] for name in ROW},
        },
    )
    aligned["planned"] = laid_out(np.ones(key.size, dtype=bool), 0)
    aligned["run"] = aligned["success"] != NOT_RUN
    aligned["identified"] = ("key", np.all([keys[name] != NOT_RUN for name in PAIRING_KEY], axis=0))
    attempts = aligned["unsafe_attempts"].values
    # An episode that an unsafe attempt ended is unsafe, whether its attempts were counted or not.
    ended_unsafe = aligned["reason"].values == REASONS.index("unsafe_attempt")
    unsafe = np.where(attempts == NOT_RUN, NOT_RUN, attempts > 0)
    unsafe = np.where(ended_unsafe, 1, np.where(aligned["run"].values, unsafe, NOT_RUN))
    aligned["unsafe"] = (("key", "condition"), unsafe.astype(np.int8))
    return aligned


def paired(aligned: xr.Dataset, pair: Pair) -> BoolArray:
    """Return (key,) where both partners ran, under a recorded key and in scenes that are not known to differ.

    Without initial state or scene seed nothing says that two episodes with the same index are the same episode.
    """
    base, comparison = (aligned["run"].sel(condition=condition).values for condition in pair)
    differ = _known_to_differ(aligned["scene_hash"], pair)
    return np.asarray(base & comparison & aligned["identified"].values & ~differ, dtype=bool)


def pair_integrity(aligned: xr.Dataset) -> xr.Dataset:
    """Count, per row and pair, the pairs that hold and the keys that do not (protocol section 7, check 2).

    A key of either condition is mismatched when one partner did not run, when the key was not recorded in full, or
    when both recorded a scene hash and the hashes differ. Aborted episodes did not run.

    Returns:
        A Dataset along (`row`, `pair`) with the integers `support`, `mismatched_keys`, `unequal_scenes`,
        `unequal_aborts` and `unequal_fingerprints`. The last two stand beside the verdicts and do not gate.
    """
    counts: dict[str, list[IntArray]] = {name: [] for name in _INTEGRITY}
    for pair in PAIRS:
        base, comparison = (aligned.sel(condition=name) for name in pair)
        planned = base["planned"].values | comparison["planned"].values
        holds = paired(aligned, pair)
        for name, mask in {
            "support": holds,
            "mismatched_keys": planned & ~holds,
            "unequal_scenes": _known_to_differ(aligned["scene_hash"], pair),
            "unequal_aborts": planned & (base["aborts"].values != comparison["aborts"].values),
            "unequal_fingerprints": _known_to_differ(aligned["fingerprint"], pair),
        }.items():
            counts[name].append(count_by_row(aligned, mask))
    return table(
        {name: (("row", "pair"), np.stack(counts[name], axis=1), text) for name, text in _INTEGRITY.items()},
        aligned,
        pair=[pair.name for pair in PAIRS],
    )


def identical_replicates(aligned: xr.Dataset) -> xr.Dataset:
    """Find the clones that the records cannot tell from what they re-execute.

    A deterministic policy in a deterministic simulator gives the same episode again, bit for bit: one observation made
    twice, not two that agree. The noise floor is then 0 because nothing was re-drawn, and says nothing about how much
    another start, seed or machine would change.

    A clone is identical when it ran for the same keys as its base and every key has the same success, reason, steps,
    largest action, unsafe attempts and scene hash. Episode records hold no trajectory, so "identical" means that
    nothing recorded differs; one differing episode is enough to count as two executions.

    Args:
        aligned: The table of `roep_gym.evaluate.judging.pairing.align`.

    Returns:
        A Dataset along (`row`, `pair`): `identical` (1, 0, or -1 where the clone did not run), `keys` compared,
        `differing_keys` and `observations`: 0 without a clone's key, 1 for identical replicates, else 2.
    """
    conditions = [CONDITIONS[name] for name in aligned["condition"].values]
    pairs = [Pair(condition.clone_of, condition.name) for condition in conditions if condition.clone_of]
    identical, keys, differing = [], [], []
    for pair in pairs:
        base, clone = (aligned.sel(condition=name) for name in pair)
        either = base["run"].values | clone["run"].values
        both = base["run"].values & clone["run"].values & aligned["identified"].values
        same = both.copy()
        for name in COMPARED:
            same &= _equal(base[name], clone[name])
        compared, differs = count_by_row(aligned, both), count_by_row(aligned, either & ~same)
        identical.append(np.where(compared == 0, -1, differs == 0))
        keys.append(compared)
        differing.append(count_by_row(aligned, both & ~same))
    found, dims = np.stack(identical, axis=1).astype(np.int8), ("row", "pair")
    observations = np.select([found == -1, found == 1], [0, 1], 2)
    return table(
        {
            "identical": (dims, found, "the clone repeats every record; -1 not run"),
            "keys": (dims, np.stack(keys, axis=1), "keys that ran in both"),
            "differing_keys": (
                dims,
                np.stack(differing, axis=1),
                "keys that ran in both with another record",
            ),
            "observations": (dims, observations, "executions that count as observations of their own"),
        },
        aligned,
        pair=[pair.name for pair in pairs],
    )


def _equal(first: xr.DataArray, second: xr.DataArray) -> BoolArray:
    """Return where the values are equal; what neither recorded is equal."""
    a, b = first.values, second.values
    unrecorded = np.isnan(a) & np.isnan(b) if a.dtype.kind == "f" else False
    return np.asarray((a == b) | unrecorded, dtype=bool)


def shield_exists(data: xr.Dataset) -> BoolArray:
    """Return (row,) whether a shield was trained; without one the shielded conditions are unavailable, not missing."""
    return np.asarray(data["shield_status"].values == "trained", dtype=bool)


_INTEGRITY = {
    "support": "pairs of episodes that both ran in the same scene",
    "mismatched_keys": "pairing keys without a valid partner",
    "unequal_scenes": "pairs whose recorded scene hashes differ",
    "unequal_aborts": "pairs with unequal numbers of aborted attempts",
    "unequal_fingerprints": "pairs recorded under different numeric fingerprints",
}


def _known_to_differ(values: xr.DataArray, pair: Pair) -> BoolArray:
    """Return (key,) where both partners recorded a value and the values differ."""
    base, comparison = (values.sel(condition=name).values for name in pair)
    return np.asarray((base != NOT_RUN) & (comparison != NOT_RUN) & (base != comparison), dtype=bool)
