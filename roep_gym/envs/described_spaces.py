"""What a described environment takes and gives: its actions, and which entries are frames and which make up `proprio`.

`checked_actions` and `read_command` are about actions, `frame_entries` and `with_channel` about frames, and
`vector_entries` and `vector_names` about the vector `PROPRIO`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from roep_gym.envs.env_description import EnvDescription
from roep_gym.error import InvalidInputError, PolicyOutputError, unknown_name

__all__ = [
    "PROPRIO",
    "checked_actions",
    "frame_entries",
    "read_command",
    "vector_entries",
    "vector_names",
    "with_channel",
]

PROPRIO = "proprio"
"""Key of the vector that is recorded, and that a shield reads."""


def checked_actions(space: spaces.Space[Any], env_id: str) -> spaces.Box | spaces.Discrete:
    """Return an action space of a kind that policies can act in.

    Raises:
        InvalidInputError: It is another kind.
    """
    if isinstance(space, spaces.Discrete) or (isinstance(space, spaces.Box) and len(space.shape) == 1):
        return space
    raise InvalidInputError(
        f"Expected a Discrete action space of {env_id}, or a Box of one axis, got {space}; "
        "wrap the environment so that it has one."
    )


def read_command(action: Any, space: spaces.Box | spaces.Discrete) -> Any:
    """Return an action as the environment takes it.

    Raises:
        PolicyOutputError: It is not finite, has another shape, or is none of the numbered actions.
    """
    if isinstance(space, spaces.Box):
        try:
            values = np.array(action, dtype=space.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise PolicyOutputError(f"Expected an action of numbers, got: {error}.") from error
        if values.shape != space.shape or not np.isfinite(values).all():
            raise PolicyOutputError(
                f"Expected an action of shape {space.shape} with finite entries, got {values.tolist()}."
            )
        return values
    number = np.asarray(action)
    whole = number.shape == () and number.dtype.kind in "iuf" and float(number).is_integer()
    if not whole or not space.contains(np.int64(number)):
        raise PolicyOutputError(
            f"Expected one of the actions {space.start} to {space.start + space.n - 1}, got {number.tolist()}."
        )
    return np.int64(number)


def frame_entries(
    described: EnvDescription, boxes: Mapping[str, spaces.Box], cameras: Sequence[str], depth: bool
) -> dict[str, str]:
    """Return the entry of each frame of these cameras, by the key that it has in observations.

    Raises:
        UnknownNameError: The description names an entry that the observation does not have.
        InvalidInputError: An entry is no frame.
    """
    named = [(f"{camera}_image", camera, entry) for camera, entry in described.images.items()]
    named += [(f"{camera}_depth", camera, entry) for camera, entry in described.depths.items()]
    entries: dict[str, str] = {}
    for key, camera, entry in named:
        if entry not in boxes:
            raise unknown_name(f"entry of the observation for {key}", entry, boxes)
        box, image = boxes[entry], key.endswith("_image")
        shape = box.shape if image else with_channel(box).shape
        kind_fits = box.dtype == np.uint8 if image else np.issubdtype(box.dtype, np.floating)
        if not kind_fits or len(shape) != 3:
            wanted = "uint8 with three axes" if image else "floats with two axes, or three of one channel"
            raise InvalidInputError(
                f"Expected {entry!r} to be {wanted}, since it is described as {key}, got {box.dtype} {box.shape}; "
                "convert it in a wrapper."
            )
        if camera in cameras and (image or depth):
            entries[key] = entry
    return entries


def with_channel(box: spaces.Box) -> spaces.Box:
    """Return the space of a frame, with an axis for its one channel where it has none."""
    if len(box.shape) != 2:
        return box
    return spaces.Box(box.low[..., None], box.high[..., None], dtype=box.dtype.type)


def vector_entries(
    described: EnvDescription, boxes: Mapping[str, spaces.Box], frames: set[str], env_id: str
) -> tuple[str, ...]:
    """Return the entries that `proprio` is made of: those of the description, else all vectors that are no frames.

    Raises:
        UnknownNameError: The description names what is no vector of the observation.
        InvalidInputError: The observation has an entry `proprio` that is not meant.
    """
    found = tuple(name for name, box in boxes.items() if len(box.shape) == 1 and name not in frames)
    chosen = described.shield_inputs
    if chosen is None:
        chosen = (PROPRIO,) if PROPRIO in found else found
    for kind, names in (("shield input", chosen), ("entry with field names", tuple(described.field_names))):
        for name in names:
            if name not in found:
                raise unknown_name(f"{kind} of {env_id}, which must be a vector,", name, found)
    if PROPRIO in boxes and chosen != (PROPRIO,):
        raise InvalidInputError(
            f"Expected shield_inputs of {env_id} to be ['proprio'], an entry that its observation has, got "
            f"{list(chosen)}; rename the entry in a wrapper."
        )
    return chosen


def vector_names(
    described: EnvDescription, boxes: Mapping[str, spaces.Box], vectors: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of the numbers in `proprio`.

    Raises:
        InvalidInputError: An entry has another number of names, or a name appears twice.
    """
    names: list[str] = []
    for entry in vectors:
        size = boxes[entry].shape[0]
        given = described.field_names.get(entry, tuple(f"{entry}_{i}" for i in range(size)))
        if len(given) != size:
            raise InvalidInputError(f"Expected {size} field_names for {entry!r}, got {len(given)}.")
        names.extend(given)
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InvalidInputError(
            f"Expected field_names that appear once, got {', '.join(doubled)} more than once."
        )
    return tuple(names)
