"""What published clients do to a frame before a network sees it.

Our frames are upright; LIBERO's own rows run from the bottom up. `rotated_180`, `raw_rows` and `upside_down` are the
three other orientations, each its own inverse; `ORIENTATIONS` names all four. `resize_with_pad`, `jpeg_round_trip`,
`resize_lanczos3` and `center_crop` are the scaling of openpi and of OpenVLA, `channels_first` and `bgr` other layouts.
`prepare_frame` does the steps that `FRAME_STEPS` names, one after another.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from PIL import Image

from roep_gym.arguments import check_names, read_integer, read_number
from roep_gym.error import InvalidInputError
from roep_gym.typing import Array, FloatArray

__all__ = [
    "FRAME_STEPS",
    "ORIENTATIONS",
    "bgr",
    "center_crop",
    "channels_first",
    "jpeg_round_trip",
    "prepare_frame",
    "raw_rows",
    "resize_lanczos3",
    "resize_with_pad",
    "rotated_180",
    "upside_down",
]

NETWORK_SIZE = 224
"""Height and width that the published checkpoints take, in pixels."""


def rotated_180(frame: Array) -> Array:
    """Turn an upright frame (H, W, ...) into LIBERO's raw frame turned by 180 degrees.

    Most checkpoints were trained on such frames. The raw frame has the rows of the upright one in reverse order. Turned
    by 180 degrees, the rows are upright again and the columns are mirrored.
    """
    return np.ascontiguousarray(frame[:, ::-1])


def raw_rows(frame: Array) -> Array:
    """Turn an upright frame (H, W, ...) into LIBERO's raw one, whose rows run from the bottom up."""
    return np.ascontiguousarray(frame[::-1])


def upside_down(frame: Array) -> Array:
    """Turn an upright frame (H, W, ...) by 180 degrees; no published checkpoint takes the result.

    It is what comes out where a client's `[::-1, ::-1]`, written for LIBERO's raw frames, meets an upright one.
    """
    return np.ascontiguousarray(frame[::-1, ::-1])


def channels_first(frame: Array) -> Array:
    """Turn a frame (H, W, C) into (C, H, W)."""
    return np.ascontiguousarray(np.moveaxis(frame, -1, 0))


def bgr(frame: Array) -> Array:
    """Reverse the channels of a frame (H, W, C), from red, green, blue to blue, green, red or back."""
    return np.ascontiguousarray(frame[..., ::-1])


def resize_with_pad(frame: Array, size: int = NETWORK_SIZE) -> Array:
    """Scale a uint8 frame (H, W, 3) to fit into (size, size, 3), bilinear, and pad it evenly with black.

    Source: `resize_with_pad` of `image_tools.py` in openpi's client package.
    """
    height, width = _checked(frame).shape[:2]
    if (height, width) == (size, size):
        return frame
    ratio = max(height, width) / size
    inner_height, inner_width = int(height / ratio), int(width / ratio)
    scaled = Image.fromarray(frame).resize((inner_width, inner_height), resample=Image.Resampling.BILINEAR)
    padded = np.zeros((size, size, frame.shape[2]), dtype=np.uint8)
    top, left = (size - inner_height) // 2, (size - inner_width) // 2
    padded[top : top + inner_height, left : left + inner_width] = np.asarray(scaled)
    return padded


def jpeg_round_trip(frame: Array, quality: int = 95) -> Array:
    """Encode a uint8 frame (H, W, 3) as JPEG and decode it, as the training data of OpenVLA was stored.

    Chroma is sampled 4:2:0 and the quality is 95, the defaults of `tf.image.encode_jpeg`; libjpeg's accurate integer
    transform decodes. Source: `resize_image` of `libero_utils.py` (OpenVLA), `resize_image_for_policy` of
    `openvla_utils.py` (OpenVLA-OFT, VLA-Adapter). Another build of libjpeg may differ by a grey level.
    """
    read_integer("quality", quality, 1, 100)
    coded = io.BytesIO()
    Image.fromarray(_checked(frame)).save(coded, "JPEG", quality=quality, subsampling="4:2:0")
    return np.array(Image.open(coded))


def resize_lanczos3(frame: Array, height: int = NETWORK_SIZE, width: int = NETWORK_SIZE) -> Array:
    """Scale a uint8 frame (H, W, 3) to (height, width, 3) with the antialiasing Lanczos filter of radius 3.

    Computed in floating point, rounded to even and clipped, as `tf.image.resize(method="lanczos3", antialias=True)`
    followed by `tf.round` and `tf.clip_by_value`. Source: as for `jpeg_round_trip`.
    """
    _checked(frame)
    scaled = [  # Pillow rounds nothing where the image is of floats
        Image.fromarray(channel.astype(np.float32)).resize((width, height), resample=Image.Resampling.LANCZOS)
        for channel in np.moveaxis(frame, -1, 0)
    ]
    values = np.stack([np.asarray(channel) for channel in scaled], axis=-1)
    return np.clip(np.round(values), 0, 255).astype(np.uint8)


def center_crop(frame: Array, area: float = 0.9, size: int | None = None) -> Array:
    """Cut the centred part with a share of the area of a uint8 frame (H, W, 3), and scale it back up.

    Bilinear between the corners of the part, in [0, 1], and cut down to a grey level after a multiplication by 255.5,
    as `tf.image.crop_and_resize` and `tf.image.convert_image_dtype` do. Source: `crop_and_resize` of
    `openvla_utils.py` (OpenVLA, OpenVLA-OFT, VLA-Adapter), which take 0.9.

    Args:
        frame: The frame.
        area: Share of the area, in (0, 1].
        size: Height and width of the result, in pixels; None: those of the frame.

    Raises:
        InvalidInputError: The frame is no uint8 (H, W, 3), or the share is out of its range.
    """
    if read_number("area", area, 0.0, 1.0) == 0.0:
        raise InvalidInputError("Expected area to be positive, got 0.")
    height, width = _checked(frame).shape[:2]
    values = frame.astype(np.float32) / np.float32(255)
    for axis, (length, wanted) in enumerate(((height, size or height), (width, size or width))):
        values = _between_corners(values, axis, length, wanted, math.sqrt(area))
    grey_levels: Array = np.floor(np.clip(values, 0, 1) * np.float32(255.5)).astype(np.uint8)
    return grey_levels


def _upright(frame: Array) -> Array:
    """Leave the frame (H, W, ...) as it is."""
    return frame


ORIENTATIONS: Mapping[str, Callable[[Array], Array]] = {
    "upright": _upright,
    "rotated_180": rotated_180,
    "raw": raw_rows,
    "upside_down": upside_down,
}
"""The four orientations of a frame as functions of the upright one, in the words of the runtime contract."""

FRAME_STEPS: Mapping[str, Callable[[Array], Array]] = {
    **ORIENTATIONS,
    "jpeg": jpeg_round_trip,
    "pad_bilinear_224": resize_with_pad,
    "lanczos3_224": resize_lanczos3,
    "center_0.9": partial(center_crop, area=0.9),
    "channels_first": channels_first,
    "bgr": bgr,
}
"""What can be done to a frame, by the words of the runtime contract."""


def prepare_frame(frame: Array, steps: Sequence[str]) -> Array:
    """Return an upright uint8 frame (H, W, 3) after the named steps, in their order.

    Raises:
        UnknownNameError: A step is none of `FRAME_STEPS`.
        InvalidInputError: A step does not take what the one before it gives.

    Example:
        >>> import numpy as np
        >>> from roep_gym.policies.conversions import prepare_frame
        >>> frame = np.zeros((256, 256, 3), dtype=np.uint8)
        >>> prepare_frame(frame, ["rotated_180", "jpeg", "lanczos3_224", "center_0.9"]).shape
        (224, 224, 3)
    """
    check_names("step of a frame", steps, FRAME_STEPS)
    for step in steps:
        frame = FRAME_STEPS[step](frame)
    return frame


def _checked(frame: Any) -> Array:
    shape, dtype = np.shape(frame), getattr(frame, "dtype", None)
    if dtype != np.uint8 or len(shape) != 3 or shape[2] != 3 or 0 in shape:
        raise InvalidInputError(f"Expected a frame uint8 (height, width, 3), got {dtype} {shape}.")
    return np.asarray(frame)


def _between_corners(values: FloatArray, axis: int, length: int, wanted: int, side: float) -> FloatArray:
    """Return values at evenly spaced places along an axis, from corner to corner of the centred part."""
    offset = (1 - side) / 2
    places = np.linspace(offset, 1 - offset, wanted) if wanted > 1 else np.array([0.5])
    places = (places * (length - 1)).astype(np.float32)
    below = np.floor(places).astype(int)
    shape = [-1 if i == axis else 1 for i in range(values.ndim)]
    share = (places - below.astype(np.float32)).reshape(shape)
    above = np.minimum(below + 1, length - 1)
    low = values.take(below, axis=axis)
    between: FloatArray = low + (values.take(above, axis=axis) - low) * share
    return between
