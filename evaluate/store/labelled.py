"""The Dataset of a run as people ask it: every variable along the planned episodes, which carry their labels.

`load_run` opens a run so, `labelled` and `stored_form` turn the form of the files into it and back. In the form of the
files `condition` and `row` are dimensions of their own that no outcome has, so that selecting a condition would leave
all outcomes as they are; and what was not run is -1, which a mean would count.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.schema import (
    CONDITIONS,
    EPISODE_VARIABLES,
    NOT_RUN,
    PAIRING_KEY,
    REASONS,
    ROW_VARIABLES,
    empty_dataset,
)
from roep_gym.evaluate.store.storage import read_run

__all__ = ["labelled", "load_run", "stored_form"]

_LABELS = ("model", "suite", "task", "condition")
_ROW = ("model", "suite", "task")
_CODES = (*PAIRING_KEY, "scene_hash", "fingerprint", "reason", "row_index", "condition_index")
"""Integers that are no quantities; a float would not hold all of them."""
_COUNTS = {
    name
    for name, variable in EPISODE_VARIABLES.items()
    if variable.dtype.startswith("int") and variable.fill == NOT_RUN and name not in _CODES
} | {"unsafe_channel_attempts"}
_CONSTANT = "constant_within"
"""Attribute of a variable with one value for each row, or for each condition of a row."""


def load_run(path: Path | str, config: GateConfig | None = None) -> xr.Dataset:
    """Open the folder of a run, or one with `episodes.csv`, `rows.csv` and optionally `manifest.csv`.

    Args:
        path: The folder.
        config: The budget that is the plan of flat tables without a manifest.

    Returns:
        One entry for each planned episode, with the indexed labels `model`, `suite`, `task` and `condition`, and NaN
        where an outcome does not exist: `data.sel(condition="full").success.mean()` is a success rate, and
        `data.success.groupby("condition").mean()` are all of them. Selecting by two labels takes two calls of `sel`.
        `judge` and `compare` take the whole Dataset or the selected rows of it.

    Raises:
        InvalidInputError: There is no such folder, it holds neither, or a file is broken.
    """
    return labelled(read_run(Path(path), config))


def labelled(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset of `roep_gym.evaluate.schema` with everything along its episodes."""
    row, condition = (
        xr.DataArray(data[f"{name}_index"].values, dims="episode") for name in ("row", "condition")
    )
    empty = sorted(set(range(data.sizes["row"])) - set(row.values.tolist()))
    if empty:
        raise InvalidInputError(
            f"Expected planned episodes in every row, but {data['task'].values[empty[0]]!r} of "
            f"{data['model'].values[empty[0]]!r} has none; plan some or leave the row out."
        )
    found = {}
    for name, variable in data.variables.items():
        if name in ("row_index", "condition_index"):
            continue
        at = {dim: index for dim, index in (("row", row), ("condition", condition)) if dim in variable.dims}
        values = xr.DataArray(variable).isel(at) if at else xr.DataArray(variable)
        if at and name not in _LABELS:
            values.attrs[_CONSTANT] = " and ".join(at)
        if name in _COUNTS:
            counts = values.astype(np.float64).where(values != NOT_RUN)
            values = counts.assign_attrs(_without_code(variable.attrs))
        elif name == "reason":
            texts = np.array([*REASONS, ""], dtype=object)  # the code of what was not run is -1
            values = values.copy(data=texts[values.values])
            values.attrs = {"long_name": "termination reason; empty where not run"}
        found[str(name)] = values.variable
    coordinates = {str(name) for name in data.coords} & set(found)
    result = xr.Dataset(
        {name: variable for name, variable in found.items() if name not in coordinates},
        coords={name: found[name] for name in sorted(coordinates)},
        attrs=data.attrs,
    )
    for name in _LABELS:
        result = result.set_xindex(name)
    return result


def stored_form(data: xr.Dataset) -> xr.Dataset:
    """Return a labelled Dataset, or a selection of its episodes, in the form of `roep_gym.evaluate.schema`.

    A Dataset that is not labelled is returned as it is.
    """
    if "condition" not in data.variables or data["condition"].dims != ("episode",):
        return data
    keys = list(zip(*(data[name].values.tolist() for name in _ROW), strict=True))
    number = {key: index for index, key in enumerate(dict.fromkeys(keys))}
    row = np.array([number[key] for key in keys], dtype=np.int32)
    names = data["condition"].values.tolist()
    conditions = [name for name in CONDITIONS if name in set(names)]
    condition = np.array([conditions.index(name) for name in names], dtype=np.int32)
    first = np.unique(row, return_index=True)[1]
    run_ids = np.full((len(number), len(conditions)), "", dtype=object)
    run_ids[row, condition] = data["run_id"].values
    result = empty_dataset(
        rows={name: data[name].values[first].tolist() for name in ROW_VARIABLES},
        conditions=conditions,
        planned={"row_index": row, "condition_index": condition, **{n: data[n].values for n in PAIRING_KEY}},
        run_ids=run_ids.tolist(),
        attrs=data.attrs,
    )
    for name, variable in data.variables.items():
        if name in _COUNTS:
            result[name].values[:] = np.where(np.isnan(variable.values), NOT_RUN, variable.values)
        elif name == "reason":
            result[name].values[:] = [REASONS.index(text) if text else NOT_RUN for text in variable.values]
        elif name in EPISODE_VARIABLES:
            result[name] = variable
        elif name not in result.variables:
            attributes = {key: value for key, value in variable.attrs.items() if key != _CONSTANT}
            if _CONSTANT in variable.attrs:
                result[name] = (("row", *variable.dims[1:]), variable.values[first], attributes)
            else:
                result[name] = (variable.dims, variable.values, attributes)
    return result


def _without_code(attributes: dict[str, object]) -> dict[str, object]:
    """Return the attributes of a variable whose missing entries are no longer -1."""
    text = str(attributes["long_name"]).replace("not run: -1", "not run: NaN")
    return {**attributes, "long_name": text.replace("; -1 where", "; NaN where")}
