"""What the tables of judging share.

`table` builds one, `row_groups` groups rows by their names, `count_by_row` and `planned_in` count and choose episodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.typing import Array, BoolArray, IntArray

__all__ = ["ROW", "Columns", "count_by_row", "planned_in", "row_groups", "table"]

ROW: tuple[str, ...] = ("model", "suite", "task")
"""The coordinates that name a row."""

Columns = Mapping[str, tuple[str | Sequence[Hashable], Any, str]]
"""The dimensions, values and long name of each variable."""


def table(columns: Columns, rows: xr.Dataset | None = None, **labels: Any) -> xr.Dataset:
    """Return a Dataset of variables that are text or have no unit.

    Args:
        columns: The variables.
        rows: A Dataset from which the names along `row` are taken, where there are any.
        **labels: The labels along further dimensions.
    """
    variables: dict[str, Any] = {}
    for name, (dims, given, text) in columns.items():
        values, attributes = _stored(given), {"long_name": text}
        if values.dtype != object:
            attributes["units"] = "1"
        variables[name] = (dims, values, attributes)
    coordinates: dict[str, Any] = {name: (name, _stored(values)) for name, values in labels.items()}
    if rows is not None:
        coordinates |= {name: rows[name] for name in ROW}
    return xr.Dataset(variables, coordinates)


def _stored(values: Any) -> Array:
    """Return values as an array, text as objects."""
    array = np.asarray(values)
    return array.astype(object) if array.dtype.kind == "U" else array


def row_groups(rows: xr.Dataset, by: Sequence[str]) -> tuple[dict[str, tuple[str, Array]], IntArray]:
    """Return the names along `group` of the rows that agree in some of their names, and (row,) the group of each."""
    names = pd.DataFrame({name: rows[name].values for name in by})
    code = names.groupby(list(by), sort=False).ngroup().to_numpy()
    first = names.drop_duplicates()
    return {name: ("group", first[name].to_numpy(object)) for name in by}, code


def count_by_row(data: xr.Dataset, mask: BoolArray) -> IntArray:
    """Return (row,) how many episodes or keys of a Dataset, whichever its `row_index` is of, `mask` holds."""
    return np.bincount(data["row_index"].values[mask], minlength=data.sizes["row"])


def planned_in(data: xr.Dataset, *conditions: str) -> BoolArray:
    """Return (episode,) which episodes are planned in one of these conditions."""
    chosen = np.isin(data["condition"].values, conditions)
    return np.asarray(chosen[data["condition_index"].values], dtype=bool)
