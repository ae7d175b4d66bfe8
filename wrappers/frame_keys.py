"""Which arrays of an observation are images and which are depth.

`FrameKeys` holds their keys, `find_frame_keys` works them out from an observation space, and `split_observation` gives
any observation the form of a mapping; the array of a Box observation has the key `BOX_KEY`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.wrappers.operators.base import frame_layout

__all__ = ["BOX_KEY", "FrameKeys", "boxes_of", "find_frame_keys", "split_observation"]

BOX_KEY = "observation"
"""Key of the only array of an environment whose observation is no mapping."""


class FrameKeys(NamedTuple):
    """Keys of the images and of the depth arrays of an observation."""

    images: tuple[str, ...]
    depths: tuple[str, ...]


def boxes_of(space: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
    """Return the spaces of an observation by key.

    Raises:
        InvalidInputError: The space is neither a Dict nor a Box.
    """
    if isinstance(space, spaces.Dict):
        return dict(space.spaces)
    if isinstance(space, spaces.Box):
        return {BOX_KEY: space}
    raise InvalidInputError(f"Expected a Dict or Box observation space, got {space}.")


def split_observation(observation: Any) -> Mapping[str, Any]:
    """Return an observation as a mapping from key to array."""
    return observation if isinstance(observation, Mapping) else {BOX_KEY: observation}


def find_frame_keys(
    space: spaces.Space[Any], image_keys: Sequence[str] | None = None, depth_keys: Sequence[str] | None = None
) -> FrameKeys:
    """Return the keys of images and depth arrays of an observation space.

    An image is a uint8 Box of three axes with 1, 3 or 4 channels, last or first. Depth is a float Box of one channel
    whose key ends in `_depth`, or any that `depth_keys` names.

    Args:
        space: A Dict or Box.
        image_keys: Images to take instead of all.
        depth_keys: Depth arrays to take instead of all.

    Raises:
        UnknownNameError: A given key is not in the space.
        InvalidInputError: A given key is no image, or no depth array.
    """
    boxes = boxes_of(space)
    for key in (*(image_keys or ()), *(depth_keys or ())):
        if key not in boxes:
            raise unknown_name("observation key", key, boxes)
    for key in image_keys or ():
        if not _is_image(boxes[key]):
            raise InvalidInputError(
                f"Expected {key!r} to be a uint8 image of 1, 3 or 4 channels, got {boxes[key]}."
            )
    for key in depth_keys or ():
        if not _is_depth(boxes[key]):
            raise InvalidInputError(f"Expected {key!r} to be a float array of one channel, got {boxes[key]}.")
    if image_keys is None:
        image_keys = [key for key, box in boxes.items() if _is_image(box)]
    if depth_keys is None:
        depth_keys = [key for key, box in boxes.items() if key.endswith("_depth") and _is_depth(box)]
    return FrameKeys(tuple(image_keys), tuple(depth_keys))


def _is_image(space: spaces.Space[Any]) -> bool:
    return (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and _is_frame(space.shape)
    )


def _is_depth(space: spaces.Space[Any]) -> bool:
    if (
        not isinstance(space, spaces.Box)
        or not np.issubdtype(space.dtype, np.floating)
        or not _is_frame(space.shape)
    ):
        return False
    layout = frame_layout(space.shape)
    return layout.rows * layout.columns == int(np.prod(space.shape))


def _is_frame(shape: tuple[int, ...]) -> bool:
    try:
        frame_layout(shape)
    except InvalidInputError:
        return False
    return True
