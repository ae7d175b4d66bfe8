"""Clones that repeat every outcome: one observation made twice, not two that agree.

A deterministic policy in a deterministic simulator gives the same episode again, bit for bit. The noise floor is then 0
because nothing was re-drawn, and says nothing about how much another start, seed or machine would change.
`identical_replicates` finds such clones from episode records alone.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.pairing import Pair
from roep_gym.evaluate.judging.tables import count_by_row, table
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.typing import BoolArray

__all__ = ["COMPARED", "identical_replicates"]

COMPARED: tuple[str, ...] = ("success", "reason", "steps", "max_abs_action", "unsafe_attempts", "scene_hash")
"""What must be equal in every key of a pair of identical replicates."""


def identical_replicates(aligned: xr.Dataset) -> xr.Dataset:
    """Find the clones that the records cannot tell from what they re-execute.

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
