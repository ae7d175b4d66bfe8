"""Which arrays of an observation are images and which are depth.

`FrameKeys` holds their keys, `find_frame_keys` works them out from an observation space, `find_vector_keys` those of
vectors, and `split_observation` gives
any observation the form of a mapping; the array of a Box observation has the key `BOX_KEY`. `check_nothing_left`
refuses frames that a perturbation would miss or mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.wrappers.operators.base import Modality, frame_layout
from roep_gym.wrappers.stack_order import find_wrapper

__all__ = [
    "BOX_KEY",
    "FrameKeys",
    "boxes_of",
    "check_nothing_left",
    "find_frame_keys",
    "find_vector_keys",
    "split_observation",
]

BOX_KEY = "observation"
"""Key of the only array of an environment whose observation is no mapping."""


class FrameKeys(NamedTuple):
    """Keys of the images and of the depth arrays of an observation."""

    images: tuple[str, ...]
    depths: tuple[str, ...]


def boxes_of(space: spaces.Space[Any]) -> dict[str, spaces.Space[Any]]:
    """Return the spaces of a Dict or Box observation by key."""
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
    whose key ends in `_depth`. Keys that are given are taken instead of these.

    Raises:
        UnknownNameError: A given key is not in the space.
        InvalidInputError: A given key is no image, or no depth array.
    """
    boxes = boxes_of(space)
    check_names("observation key", (*(image_keys or ()), *(depth_keys or ())), boxes)
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


def find_vector_keys(space: spaces.Space[Any]) -> tuple[str, ...]:
    """Return the keys of the vectors of floating-point numbers."""
    return tuple(
        key
        for key, box in boxes_of(space).items()
        if isinstance(box, spaces.Box) and len(box.shape) == 1 and np.issubdtype(box.dtype, np.floating)
    )


def check_nothing_left(env: gym.Env[Any, Any], keys: FrameKeys, kinds: Set[Modality]) -> None:
    """Refuse arrays of these kinds that may be frames but are not among the keys, and images that may be stacked.

    Left out may be float or grey images, stacks of images, and whatever is nested. An image may be a stack where it has
    four channels, or comes from a frame stack of images without channels.
    """
    stacked = find_wrapper(env, gym.wrappers.FrameStackObservation) is not None
    boxes = boxes_of(env.observation_space)
    doubtful = [
        f"{key!r} (stacked frames or channels) {boxes[key].shape}"
        for key in keys.images
        if "image" in kinds and (stacked or 4 in (boxes[key].shape or ())[::2])
    ]
    for path, box in _leaves(boxes):
        if path[0] not in (*keys.images, *keys.depths) and _frame_kinds(box) & kinds:
            doubtful.append(f"{'.'.join(path)!r} ({box.dtype} {box.shape})")
    if doubtful:
        raise InvalidInputError(
            "Expected to know every image and depth array of the observation before a part of them is perturbed, got "
            f"{', '.join(doubtful)}; name what is to be perturbed with image_keys and depth_keys."
        )


def _leaves(boxes: Mapping[str, spaces.Space[Any]]) -> Iterator[tuple[tuple[str, ...], spaces.Box]]:
    for name, space in boxes.items():
        if isinstance(space, spaces.Box):
            yield (name,), space
        elif isinstance(space, spaces.Dict | spaces.Tuple):
            parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
            for path, box in _leaves({str(key): part for key, part in parts}):
                yield (name, *path), box


def _frame_kinds(box: spaces.Box) -> Set[Modality]:
    """Return what an array may be: of bytes with two axes or more an image, of others with three or more also depth."""
    if box.dtype == np.uint8:
        return {"image"} if len(box.shape) >= 2 else set()
    if len(box.shape) < 3:
        return set()
    return {"image", "depth"} if _is_depth(box) else {"image"}


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
