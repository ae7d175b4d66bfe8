"""`GlobalStreams`: the global random streams of Python and NumPy, as an environment of one's own has them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

__all__ = ["GlobalStreams"]


class GlobalStreams:
    """Gives an environment global streams that nobody else draws from, and gives the others theirs back.

    Inside of `with streams:` the streams are where the environment left them, after it where they were before. So an
    environment that draws from them is seeded with its episode, and no policy in the same process notices.
    """

    def __init__(self) -> None:
        self._own: tuple[Any, Any] | None = None
        self._others: tuple[Any, Any] | None = None

    def seed(self, seed: int) -> None:
        """Begin the streams anew; `seed` has at most 32 bits."""
        numpy_stream = np.random.RandomState(seed).get_state(legacy=False)
        self._own = random.Random(seed).getstate(), numpy_stream

    def __enter__(self) -> None:
        """Put the environment's streams in the place of the others."""
        self._others = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
        if self._own is not None:
            _set(self._own)

    def __exit__(self, *_: object) -> None:
        """Keep the environment's streams and put the others back."""
        self._own = random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
        assert self._others is not None
        _set(self._others)


def _set(streams: tuple[Any, Any]) -> None:
    random.setstate(streams[0])
    np.random.set_state(streams[1])  # noqa: NPY002
