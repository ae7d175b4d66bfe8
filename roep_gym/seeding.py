"""Randomness as a pure function of named keys.

`digest`, `seed` and `generator` turn a tuple of strings and integers into bits through BLAKE2b and the
counter-based Philox generator, so that any draw can be made again alone, in any order, in any process.
`preserved_numpy_state` guards NumPy's global stream around code (LIBERO) that uses it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

__all__ = ["Key", "digest", "generator", "preserved_numpy_state", "seed"]

Key = str | int


def digest(*key: Key) -> bytes:
    """Return the 16-byte BLAKE2b digest of a key; fields are typed and length-prefixed, so none can run together."""
    state = hashlib.blake2b(digest_size=16)
    for part in key:
        if isinstance(part, bool) or not isinstance(part, str | int):
            raise TypeError(
                f"Expected key parts of type str or int, got {part!r} of type {type(part).__name__}."
            )
        body = str(part).encode()
        state.update((b"s" if isinstance(part, str) else b"i") + len(body).to_bytes(8, "big") + body)
    return state.digest()


def seed(*key: Key, bits: int = 31) -> int:
    """Return a non-negative integer seed of `bits` bits (1 to 64) for a key."""
    if not 1 <= bits <= 64:
        raise ValueError(f"Expected bits in 1..64, got {bits}.")
    return int.from_bytes(digest(*key)[:8], "big") >> (64 - bits)


def generator(*key: Key) -> np.random.Generator:
    """Return a NumPy generator (Philox, 128-bit key) that depends on the key alone."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest(*key), "big")))


@contextmanager
def preserved_numpy_state() -> Iterator[None]:
    """Restore NumPy's global random state on exit, whatever the body drew or seeded."""
    state = np.random.get_state(legacy=False)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
