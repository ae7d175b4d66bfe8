"""One digest for arrays: `arrays_digest`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from roep_gym.typing import Array

__all__ = ["arrays_digest"]


def arrays_digest(arrays: Mapping[str, Array], text: str = "") -> str:
    """Return the digest of arrays, with names, types and shapes in any order, and of a text: 32 hexadecimal digits."""
    state = hashlib.blake2b(text.encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return state.hexdigest()
