"""Light and colour of images: `brightness`, `contrast`, `gamma`, `colour_temperature` and `saturation`.

Brightness and contrast have the strengths of ImageNet-C (Hendrycks and Dietterich, 2019), saturation the desaturating
ones of its extra corruptions; those of gamma and colour temperature are ours. A fourth channel is treated as the
others by brightness, contrast and gamma, and left alone by the two on colours, which need RGB.
"""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np

from roep_gym.typing import JSON, Array, FloatArray
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level

__all__ = ["Brightness", "ColourTemperature", "Contrast", "Gamma", "Saturation"]

_BYTES = np.arange(256, dtype=np.float64)
_LUMA = np.array([0.299, 0.587, 0.114])


class Brightness(ImageOperator):
    """Adds to the value (of HSV) of every pixel, hue and saturation kept. `added`: 0.1, 0.2, 0.3, 0.4, 0.5."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return what is added."""
        return {"added": at_level((0.1, 0.2, 0.3, 0.4, 0.5), level)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Brighten the image."""
        value = clean[..., 0]
        for channel in range(1, clean.shape[-1]):
            value = np.maximum(value, clean[..., channel])
        brighter = np.minimum(_BYTES + 255 * done["added"], 255)
        gain = (brighter / np.maximum(_BYTES, 1)).astype(np.float32)
        lifted = clean * gain.take(value)[..., None]
        lifted[value == 0] = brighter[0]  # black becomes grey
        return np.asarray(np.rint(lifted, out=lifted))


class Contrast(ImageOperator):
    """Draws every channel towards its mean. `contrast` that is left: 0.4, 0.3, 0.2, 0.1, 0.05."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return what is left."""
        return {"contrast": at_level((0.4, 0.3, 0.2, 0.1, 0.05), level, identity=1)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Lower the contrast."""
        mean = clean.reshape(-1, clean.shape[-1]).mean(axis=0)
        return _looked_up(clean, (_BYTES[:, None] - mean) * done["contrast"] + mean)


class Gamma(ImageOperator):
    """Darkens the middle tones. `exponent`: 1.2, 1.5, 2, 2.5, 3 of the value from 0 to 1; black and white stay."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the exponent."""
        return {"exponent": at_level((1.2, 1.5, 2, 2.5, 3), level, identity=1)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Darken the image."""
        curve = 255 * (_BYTES / 255) ** done["exponent"]
        return _looked_up(clean, np.repeat(curve[:, None], clean.shape[-1], axis=1))


class ColourTemperature(ImageOperator):
    """Light that is warmer or colder for a whole episode, for all cameras alike.

    `gains` of red, green and blue; at levels 1 to 5 the channel that loses keeps 0.88, 0.76, 0.64, 0.52, 0.4 of its
    value, green half as much of the loss; the third keeps its own.
    """

    channels = (3, 4)

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw whether the light is warmer or colder."""
        loss = at_level((0.12, 0.24, 0.36, 0.48, 0.6), level)
        gains = [1.0, 1 - loss / 2, 1 - loss]
        warm = bool(key._replace(channel="").lasting().random() < 0.5)
        return {"gains": gains if warm else gains[::-1]}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Colour the image."""
        gains = np.array([*done["gains"], 1.0][: clean.shape[-1]])
        return _looked_up(clean, _BYTES[:, None] * gains)


class Saturation(ImageOperator):
    """Draws colours towards grey of the same luma. `saturation` that is left: 0.7, 0.5, 0.3, 0.1, 0."""

    channels = (3, 4)

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return what is left."""
        return {"saturation": at_level((0.7, 0.5, 0.3, 0.1, 0.0), level, identity=1)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Take colour away."""
        kept, channels = done["saturation"], clean.shape[-1]
        matrix = np.eye(channels)
        matrix[:3, :3] = kept * np.eye(3) + (1 - kept) * _LUMA
        return np.asarray(cv2.transform(clean, matrix))


def _looked_up(clean: Array, table: FloatArray) -> Array:
    """Return an image whose bytes are replaced by the rows of a table (256, channel)."""
    table = np.ascontiguousarray(np.clip(np.rint(table), 0, 255), dtype=np.uint8)
    return np.asarray(cv2.LUT(clean, table.reshape(1, 256, -1)))
