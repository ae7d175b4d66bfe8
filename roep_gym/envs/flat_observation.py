"""`FlatObservation`: any observation of Boxes, Discretes and nested Dicts as one flat mapping of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from roep_gym.error import InvalidInputError
from roep_gym.typing import Array

__all__ = ["WHOLE", "FlatObservation"]

WHOLE = "observation"
"""Name of the only entry of an observation that is no mapping."""

_COUNTED = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class FlatObservation:
    """The entries of an observation by their names, keys of nested mappings joined by dots.

    A Discrete or MultiDiscrete becomes a one-hot vector, as `gymnasium.wrappers.FlattenObservation` makes it.

    Args:
        space: The environment's observation space.
        env_id: The environment, for messages.

    Attributes:
        boxes: Space of each entry.

    Raises:
        InvalidInputError: An entry is of another kind, such as a Tuple or Text, or two entries have one name.
    """

    def __init__(self, space: spaces.Space[Any], env_id: str) -> None:
        self._leaves: dict[str, tuple[tuple[Any, ...], spaces.Space[Any]]] = {}
        self.boxes: dict[str, spaces.Box] = {}
        for path, leaf in _walk(space, ()):
            name = ".".join(map(str, path)) or WHOLE
            if not isinstance(leaf, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
                raise InvalidInputError(
                    f"Expected observations of Box, Discrete and Dict spaces from {env_id}, got {name!r} of "
                    f"{type(leaf).__name__}; wrap the environment so that it is one of these."
                )
            if name in self._leaves:
                raise InvalidInputError(
                    f"Expected names without dots in the observation of {env_id}, got two entries {name!r}; "
                    "rename one of them in a wrapper."
                )
            self._leaves[name] = path, leaf
            flat = leaf if isinstance(leaf, spaces.Box) else spaces.flatten_space(leaf)
            assert isinstance(flat, spaces.Box)
            self.boxes[name] = flat

    def __call__(self, observation: Any) -> dict[str, Array]:
        """Return the entries of an observation, as arrays of their own."""
        entries: dict[str, Array] = {}
        for name, (path, leaf) in self._leaves.items():
            part = observation
            for key in path:
                part = part[key]
            value = spaces.flatten(leaf, part) if isinstance(leaf, _COUNTED) else part
            entries[name] = np.array(value, dtype=self.boxes[name].dtype)
        return entries


def _walk(
    space: spaces.Space[Any], path: tuple[Any, ...]
) -> Iterator[tuple[tuple[Any, ...], spaces.Space[Any]]]:
    if isinstance(space, spaces.Dict):
        for key, part in space.spaces.items():
            yield from _walk(part, (*path, key))
    else:
        yield path, space
