"""Loss by storing and sending images: `jpeg_compression` and `pixelate`.

Names and strengths are those of ImageNet-C (Hendrycks and Dietterich, 2019).
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import cv2
import numpy as np
from PIL import Image

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level

__all__ = ["JpegCompression", "Pixelate"]


class JpegCompression(ImageOperator):
    """JPEG of a `quality`: 25, 18, 15, 10, 7. A fourth channel is compressed by itself."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the quality."""
        return {"quality": round(at_level((25, 18, 15, 10, 7), level, identity=95))}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Compress the image."""
        parts = (clean[..., :3], clean[..., 3:]) if clean.shape[-1] == 4 else (clean,)
        return np.concatenate([_compressed(part, done["quality"]) for part in parts], axis=-1)


class Pixelate(ImageOperator):
    """Fewer, larger pixels. `size`: 0.6, 0.5, 0.4, 0.3, 0.25 of the rows and columns."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the size."""
        return {"size": at_level((0.6, 0.5, 0.4, 0.3, 0.25), level, identity=1)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Make the image coarse."""
        rows, columns = clean.shape[:2]
        size = (max(1, int(columns * done["size"])), max(1, int(rows * done["size"])))
        coarse = cv2.resize(clean, size, interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(coarse, (columns, rows), interpolation=cv2.INTER_NEAREST))


def _compressed(pixels: Array, quality: int) -> Array:
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels.squeeze(-1) if pixels.shape[-1] == 1 else pixels)).save(
        buffer, "JPEG", quality=quality
    )
    return np.asarray(Image.open(buffer)).reshape(pixels.shape)
