"""Coding of frames on their way to a server, for those that do not take the raw numbers: `encoded_frame`."""

from __future__ import annotations

import io

from PIL import Image

from roep_gym.typing import Array

__all__ = ["encoded_frame"]

_OPTIONS = {"png": {}, "jpeg": {"quality": 95}}
"""JPEG as vla-evaluation-harness writes it."""


def encoded_frame(frame: Array, image_format: str) -> bytes:
    """Return a uint8 frame (H, W, 3) of any size as a file of the format "png", which loses nothing, or "jpeg"."""
    coded = io.BytesIO()
    Image.fromarray(frame).save(coded, image_format.upper(), **_OPTIONS[image_format])
    return coded.getvalue()
