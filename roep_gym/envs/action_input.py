"""`read_action`: what both environments require of an action before anything moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from roep_gym.error import PolicyOutputError
from roep_gym.typing import FloatArray

__all__ = ["read_action"]


def read_action(action: Any, size: int) -> FloatArray:
    """Return an action as float64 (size,).

    Raises:
        PolicyOutputError: It is not numeric, has another shape, or is not finite.
    """
    try:
        values = np.asarray(action, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise PolicyOutputError(
            f"Expected {size} finite action entries, got what is no array of numbers: {error}."
        ) from error
    if values.shape != (size,):
        raise PolicyOutputError(f"Expected {size} finite action entries, got the shape {values.shape}.")
    if not np.isfinite(values).all():
        count = np.count_nonzero(~np.isfinite(values))
        raise PolicyOutputError(
            f"Expected {size} finite action entries, got {count} non-finite entries in "
            f"{np.array2string(values, precision=3)}."
        )
    return values
