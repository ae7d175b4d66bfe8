"""What the risk model sees: named entries of the low-dimensional observation, then the proposed action.

`field_indices` finds the entries by name, `feature_names` names the columns, `assemble` builds the vectors in
the same way for training, calibration and runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.typing import Array, IntArray

__all__ = ["assemble", "feature_names", "field_indices"]


def field_indices(wanted: Sequence[str], available: Sequence[str]) -> IntArray:
    """Return the position of each wanted field among the available ones."""
    position = {name: i for i, name in enumerate(available)}
    if len(position) != len(available):
        raise InvalidInputError(f"Expected distinct observation field names, got {list(available)}.")
    check_names("observation field", wanted, available)
    return np.array([position[name] for name in wanted], dtype=np.intp)


def feature_names(fields: Sequence[str], action_size: int) -> tuple[str, ...]:
    """Return the names of the feature columns: the fields, then `action_0`, `action_1` and so on."""
    return (*fields, *(f"action_{i}" for i in range(action_size)))


def assemble(low: Array, action: Array) -> NDArray[np.float32]:
    """Return [o_low; a_t] (Eq. 11) of shapes (..., fields) and (..., action size) as float32, which records store."""
    # A finite float64 beyond float32 becomes infinite here, its risk NaN, and the shield intervenes.
    with np.errstate(over="ignore"):
        return np.concatenate([low, action], axis=-1, dtype=np.float32, casting="unsafe")
