"""The coding of openpi's websocket frames: MessagePack with arrays as maps under byte-string keys.

An array is {b"__ndarray__": true, b"data": bytes in C order, b"dtype": dtype string, b"shape": list}, a NumPy scalar
{b"__npgeneric__": true, b"data": number, b"dtype": dtype string}. The format is that of `msgpack_numpy.py` in openpi's
client package.
"""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np

from roep_gym.error import InvalidInputError

__all__ = ["pack", "unpack"]

_REFUSED_KINDS = frozenset("VOc")


def pack(value: Any) -> bytes:
    """Encode a value of maps, lists, strings, bytes, numbers and arrays.

    Raises:
        InvalidInputError: An array is structured, complex or holds objects, or a value has no coding.
    """
    return bytes(msgpack.packb(value, default=_encode))


def unpack(frame: bytes) -> Any:
    """Decode a frame; arrays come back read-only.

    Raises:
        InvalidInputError: The frame is malformed.
    """
    try:
        return msgpack.unpackb(frame, object_hook=_decode, strict_map_key=False)
    except (ValueError, KeyError, TypeError, msgpack.UnpackException) as error:
        raise InvalidInputError(f"Expected a MessagePack frame of openpi's format, got: {error}.") from error


def _encode(value: Any) -> dict[bytes, Any]:
    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInputError(
            f"Expected a value that openpi's format can hold, got a {type(value).__name__}."
        )
    if value.dtype.kind in _REFUSED_KINDS:
        raise InvalidInputError(f"Expected a real, plain dtype, got {value.dtype}.")
    if isinstance(value, np.generic):
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    return {
        b"__ndarray__": True,
        b"data": value.tobytes(),
        b"dtype": value.dtype.str,
        b"shape": list(value.shape),
    }


def _decode(value: dict[Any, Any]) -> Any:
    if b"__ndarray__" in value:
        return np.ndarray(shape=tuple(value[b"shape"]), dtype=_dtype(value), buffer=value[b"data"])
    if b"__npgeneric__" in value:
        return _dtype(value).type(value[b"data"])
    return value


def _dtype(value: dict[Any, Any]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(value[b"dtype"])
    if dtype.kind in _REFUSED_KINDS:
        raise ValueError(f"an array of dtype {dtype}")
    return dtype
