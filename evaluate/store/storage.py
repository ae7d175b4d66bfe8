"""The Datasets of a run as files.

`read_run` opens a run directory or a folder of flat tables, `write_records` writes what it opens; `save_dataset` and
`load_dataset` write and read one file.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from roep_gym.array_digest import arrays_digest
from roep_gym.atomic_file import replacing
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.schema import check_dataset
from roep_gym.evaluate.store.flat_tables import EPISODES, MANIFEST, ROWS, read_tables, write_tables
from roep_gym.typing import JSON

__all__ = ["DATASET", "load_dataset", "normalise_strings", "read_run", "save_dataset", "write_records"]

DATASET = "episodes.nc"
_DIGEST = "dataset_digest"


def read_run(path: Path, config: GateConfig | None = None) -> xr.Dataset:
    """Open a run directory or a folder of flat tables in the form of the files; see `load_run`."""
    if not path.is_dir():
        raise InvalidInputError(f"Expected the folder of a run at {path}, but there is none; check the path.")
    if (path / DATASET).exists():
        data = load_dataset(path / DATASET)
        check_dataset(data)
        return data
    if (path / "plan.json").exists():
        # Its flat tables are no substitute: they lack what the records hold.
        raise InvalidInputError(
            f"Expected {DATASET} in the run folder {path}, but it is missing; start the run's command again, which "
            "writes it from the journal."
        )
    if (path / EPISODES).exists() and (path / ROWS).exists():
        manifest = path / MANIFEST
        return read_tables(
            path / EPISODES, path / ROWS, manifest if manifest.exists() else None, config=config
        )
    raise InvalidInputError(f"Expected {DATASET}, or {EPISODES} and {ROWS}, in {path}, but found neither.")


def write_records(data: xr.Dataset, folder: Path) -> None:
    """Write the episode Dataset of a run and its flat tables into a folder."""
    save_dataset(data, folder / DATASET)
    write_tables(data, folder)


def save_dataset(data: xr.Dataset, path: Path, *, compress: bool = False) -> None:
    """Write a Dataset as netCDF, atomically; compressing numbers takes time and changes no value."""
    numbers = [name for name, variable in data.variables.items() if variable.dtype.kind in "biuf"]
    encoding = {name: {"zlib": True} for name in numbers} if compress else {}
    with replacing(path) as temporary:
        data.assign_attrs({_DIGEST: dataset_digest(data)}).to_netcdf(
            temporary, engine="h5netcdf", encoding=encoding
        )


def load_dataset(path: Path) -> xr.Dataset:
    """Read a netCDF file into memory; its text comes back as Python strings, and changed content is refused."""
    try:
        with xr.open_dataset(path, engine="h5netcdf") as stored:
            data = normalise_strings(stored.load())
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InvalidInputError(
            f"Expected a netCDF file at {path}, but reading it failed: {error}; restore the file."
        ) from error
    expected = data.attrs.pop(_DIGEST, None)
    if expected is not None and expected != dataset_digest(data):
        raise InvalidInputError(
            f"Expected {path} as it was written, but its content was changed or damaged since; restore the file, or "
            "start the run's command again, which writes it anew."
        )
    return data


def dataset_digest(data: xr.Dataset) -> str:
    """Return a digest of a Dataset: all values with their names, types, dimensions and shapes, and all attributes."""
    arrays = {}
    for name, variable in data.variables.items():
        values = variable.values
        # xarray reads text without an entry, such as the depth keys of a run without depth, as float64.
        if values.dtype.kind in "OSUT" or (values.size == 0 and values.dtype == np.float64):
            text = json.dumps([values.shape, [_text(value) for value in values.ravel()]])
            values = np.frombuffer(text.encode(), np.uint8)
        arrays[str(name)] = values
    described = {
        str(name): [variable.dims, _plain(variable.attrs)] for name, variable in data.variables.items()
    }
    return arrays_digest(arrays, json.dumps([described, _plain(data.attrs)], sort_keys=True))


def _plain(attributes: Mapping[Hashable, Any]) -> dict[str, JSON]:
    """Return attributes as JSON, equal before and after a file, which gives arrays for lists."""
    plain = {}
    for name, value in attributes.items():
        values = np.asarray(value).ravel().tolist()
        plain[str(name)] = [entry.decode() if isinstance(entry, bytes) else entry for entry in values]
    return plain


def normalise_strings(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose text variables hold Python strings; xarray changes their type on reading."""
    texts = {name: variable for name, variable in data.variables.items() if variable.dtype.kind in "OSUT"}
    changed = {}
    for name, variable in texts.items():
        values = np.array([_text(value) for value in variable.values.ravel()], dtype=object)
        changed[name] = (variable.dims, values.reshape(variable.shape), variable.attrs)
    coordinates = {name: value for name, value in changed.items() if name in data.coords}
    return data.assign({k: v for k, v in changed.items() if k not in coordinates}).assign_coords(coordinates)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
