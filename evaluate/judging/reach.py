"""What the records say of two premises that the conditions rest on.

`unreached` finds the conditions whose perturbation changed no frame that the policy was given, `trained_on_test_scenes`
counts the bootstrap episodes in scenes that are also evaluated. Both read episode records alone.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.judging.tables import count_by_row, planned_in
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN
from roep_gym.typing import BoolArray, IntArray

__all__ = ["trained_on_test_scenes", "unreached"]


def unreached(data: xr.Dataset) -> xr.DataArray:
    """Find the conditions whose perturbation never reached the policy.

    A condition is unreached when it has a perturbation, when every episode that ran has its number of perturbed frames
    recorded, and when all of these are 0. Where the number was not recorded, nothing is known.

    Returns:
        Along (`row`, `condition`) for the conditions that the Dataset has: bool.
    """
    labels = data["condition"].values.tolist()
    perturbed, ran = data["frames_perturbed"].values, data["success"].values != NOT_RUN
    cell = data["row_index"].values.astype(np.int64) * len(labels) + data["condition_index"].values
    size = data.sizes["row"] * len(labels)

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(cell[mask], minlength=size).reshape(-1, len(labels))

    acts = np.array([CONDITIONS[name].profile != "clean" for name in labels], dtype=bool)
    found = acts & (count(ran) > 0) & (count(ran & (perturbed != 0)) == 0)
    return xr.DataArray(found, dims=("row", "condition"), coords={"condition": data["condition"].values})


def trained_on_test_scenes(data: xr.Dataset) -> IntArray:
    """Count, per row, the recorded bootstrap episodes whose scene is that of an evaluated episode.

    Scenes are equal when scene seed and initial state are, or when their hashes are; what was not recorded is not
    compared.
    """
    columns = ("row_index", "env_seed", "init_state", "scene_hash")
    frame = pd.DataFrame({name: data[name].values for name in columns})
    bootstrap = planned_in(data, *(c.name for c in CONDITIONS.values() if c.role == "bootstrap"))
    recorded = data["success"].values != NOT_RUN
    same = np.zeros(len(frame), dtype=bool)
    for names in (["env_seed", "init_state"], ["scene_hash"]):
        known = (frame[names] != NOT_RUN).all(axis=1).to_numpy()
        scene = pd.MultiIndex.from_frame(frame[["row_index", *names]])
        same |= known & np.asarray(scene.isin(scene[known & ~bootstrap]))
    return count_by_row(data, same & bootstrap & recorded)
