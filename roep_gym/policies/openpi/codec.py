"""The coding of websocket frames: MessagePack with arrays as maps.

An array is {b"__ndarray__": true, b"data": bytes in C order, b"dtype": dtype string, b"shape": list}, a NumPy scalar
{b"__npgeneric__": true, b"data": number, b"dtype": dtype string}. The format is that of `msgpack_numpy.py` in openpi's
client package; with `text_keys` it is that of `numpy_codec.py` in vla-evaluation-harness, whose keys are text and whose
scalars are plain numbers. A frame comes from another machine: `unpack` validates everything in it before NumPy is
called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import msgpack
import numpy as np

from roep_gym.error import InvalidInputError, bounded, shown
from roep_gym.typing import Array

__all__ = ["MAX_DIMENSIONS", "MAX_ENTRIES", "MAX_FRAME_BYTES", "pack", "read_array", "unpack"]

MAX_FRAME_BYTES = 64 * 2**20
"""Bytes of one frame; 64 MiB hold three cameras with depth at 1024 x 1024 pixels three times over."""

MAX_ENTRIES = 4096
"""Entries of one list or map of a frame; all of them together have at most 16 times as many."""

MAX_DIMENSIONS = 8
"""Dimensions of an array."""

_PLAIN_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")
"""Booleans, integers and floats of a size that every machine has."""

_NUMBERS = {"b": bool, "i": int, "u": int, "f": int | float}


def pack(value: Any, *, text_keys: bool = False) -> bytes:
    """Encode a value of maps, lists, strings, bytes, numbers and arrays.

    Raises:
        InvalidInputError: An array holds something else than real numbers, a value has no coding, or the frame has
            more than `MAX_FRAME_BYTES`.
    """
    try:
        frame = bytes(msgpack.packb(value, default=_encode_with_text_keys if text_keys else _encode))
    except InvalidInputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInputError(
            f"Expected a value that the format can hold, got: {bounded(str(error))}."
        ) from error
    return _checked_size(frame)


def unpack(frame: bytes, *, text_keys: bool = False) -> Any:
    """Decode a frame; arrays come back read-only.

    Raises:
        InvalidInputError: The frame is malformed, or above one of the limits of this module.
    """
    reader = _Reader(text_keys)
    try:
        return msgpack.unpackb(
            _checked_size(frame),
            object_hook=reader.read_map,
            list_hook=reader.read_list,
            max_array_len=MAX_ENTRIES,
            max_map_len=MAX_ENTRIES,
            max_ext_len=0,
        )
    except InvalidInputError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise InvalidInputError(f"Expected a MessagePack frame, got: {bounded(str(error), 500)}.") from error


def _checked_size(frame: bytes) -> bytes:
    if len(frame) > MAX_FRAME_BYTES:
        raise InvalidInputError(
            f"Expected a frame of at most {MAX_FRAME_BYTES} bytes, got {len(frame)}; send smaller images or fewer."
        )
    return frame


def _encode(value: Any) -> dict[bytes, Any]:
    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInputError(f"Expected a value that the format can hold, got a {type(value).__name__}.")
    if not _PLAIN_DTYPE.fullmatch(value.dtype.str):
        raise InvalidInputError(f"Expected a real, plain dtype, got {shown(value.dtype)}.")
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    return {
        b"__ndarray__": True,
        b"data": value.tobytes(),
        b"dtype": value.dtype.str,
        b"shape": list(value.shape),
    }


def _encode_with_text_keys(value: Any) -> Any:
    coded = _encode(value)
    return coded[b"data"] if b"__npgeneric__" in coded else {key.decode(): v for key, v in coded.items()}


class _Reader:
    """Turns the maps and lists of one frame into values, and counts their entries."""

    def __init__(self, text_keys: bool) -> None:
        self._text_keys = text_keys
        self._left = 16 * MAX_ENTRIES

    def read_list(self, value: list[Any]) -> list[Any]:
        self._count(value)
        return value

    def read_map(self, value: dict[Any, Any]) -> Any:
        self._count(value)
        if self._text_keys and "__ndarray__" in value:
            return read_array({key.encode(): entry for key, entry in value.items() if isinstance(key, str)})
        if b"__ndarray__" in value:
            return read_array(value)
        if b"__npgeneric__" in value:
            return _scalar(value)
        for key in value:
            if not isinstance(key, str):
                raise InvalidInputError(f"Expected the keys of a map to be text, got {shown(key)}.")
        return value

    def _count(self, value: list[Any] | dict[Any, Any]) -> None:
        self._left -= 1 + len(value)  # an empty one takes memory, too
        if self._left < 0:
            raise InvalidInputError(
                f"Expected at most {16 * MAX_ENTRIES} entries in a frame, got more; send numbers as arrays."
            )


def read_array(value: Mapping[Any, Any]) -> Array:
    """Return the array of the map of an array, once everything in the map is found to be right.

    Raises:
        InvalidInputError: Dtype, shape or data are wrong, or do not fit each other.
    """
    dtype, shape, data = _dtype(value), value.get(b"shape"), value.get(b"data")
    if not (
        isinstance(shape, list)
        and len(shape) <= MAX_DIMENSIONS
        and all(type(size) is int and 0 <= size <= MAX_FRAME_BYTES for size in shape)
    ):
        raise InvalidInputError(
            f"Expected the shape of an array to be a list of at most {MAX_DIMENSIONS} sizes, got {shown(shape)}."
        )
    if not isinstance(data, bytes):
        raise InvalidInputError(f"Expected the data of an array as bytes, got a {type(data).__name__}.")
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise InvalidInputError(
            f"Expected {math.prod(shape) * dtype.itemsize} bytes for an array of {dtype} and shape {shape}, got "
            f"{len(data)}."
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _scalar(value: dict[Any, Any]) -> np.generic:
    dtype, data = _dtype(value), value.get(b"data")
    if not isinstance(data, _NUMBERS[dtype.kind]) or (isinstance(data, bool) and dtype.kind != "b"):
        raise InvalidInputError(f"Expected a number of {dtype}, got {shown(data)}.")
    try:
        with np.errstate(over="raise"):
            scalar: np.generic = dtype.type(data)
    except ArithmeticError as error:
        raise InvalidInputError(f"Expected a number that {dtype} can hold, got {shown(data)}.") from error
    return scalar


def _dtype(value: Mapping[Any, Any]) -> np.dtype[Any]:
    given = value.get(b"dtype")
    if not isinstance(given, str) or not _PLAIN_DTYPE.fullmatch(given):
        raise InvalidInputError(
            f"Expected the dtype of an array or number to be that of booleans, integers or floats, got {shown(given)}."
        )
    return np.dtype(given)
