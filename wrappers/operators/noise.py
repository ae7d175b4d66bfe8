"""Noise on images: `gaussian_noise`, `shot_noise`, `impulse_noise` and `speckle_noise`.

Names and strengths are those of ImageNet-C (Hendrycks and Dietterich, 2019; speckle is among its extra corruptions).
Every channel of every pixel has its own draw, a new one at each step and for each camera.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import ClassVar

import numpy as np

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level, sixteen_bits

__all__ = ["GaussianNoise", "ImpulseNoise", "ShotNoise", "SpeckleNoise"]

_QUANTILE_BITS = 12


class _Noise(ImageOperator):
    """Noise of one parameter.

    Attributes:
        parameter: Its name in the metadata.
        table: Its values at the levels 1 to 5; 0 at level 0.
    """

    parameter: ClassVar[str]
    table: ClassVar[Sequence[float]]

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the parameter; the noise itself follows from the key."""
        return {self.parameter: at_level(self.table, level)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Add the noise."""
        return self.noisy(clean, done[self.parameter], key.generator())

    @abstractmethod
    def noisy(self, clean: Array, strength: float, generator: np.random.Generator) -> Array:
        """Return the noisy image."""


class GaussianNoise(_Noise):
    """Adds normal noise. `deviation`: 0.08, 0.12, 0.18, 0.26, 0.38 of the full range."""

    parameter, table = "deviation", (0.08, 0.12, 0.18, 0.26, 0.38)

    def noisy(self, clean: Array, strength: float, generator: np.random.Generator) -> Array:
        """Return the noisy image."""
        noise = _normal(generator, clean.shape)
        noise *= np.float32(strength * 255)
        noise += clean
        return _as_bytes(noise)


class SpeckleNoise(_Noise):
    """Adds normal noise in proportion to the value. `deviation`: 0.15, 0.2, 0.35, 0.45, 0.6 of it."""

    parameter, table = "deviation", (0.15, 0.2, 0.35, 0.45, 0.6)

    def noisy(self, clean: Array, strength: float, generator: np.random.Generator) -> Array:
        """Return the noisy image."""
        noise = _normal(generator, clean.shape)
        noise *= np.float32(strength)
        noise += 1
        noise *= clean
        return _as_bytes(noise)


class ShotNoise(_Noise):
    """Counts photons: a Poisson draw of each value. `photons` at full range: 60, 25, 12, 5, 3.

    Between the identity and level 1 the number falls as 60 / level. The draws are taken from a table of 4096 equally
    likely quantiles of each distribution, ten times as fast as exact ones.
    """

    parameter, table = "photons", (60.0, 25.0, 12.0, 5.0, 3.0)

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the number of photons."""
        photons = self.table[0] / level if level < 1 else at_level(self.table, level)
        return {self.parameter: max(1.0, min(photons, 4096.0))}

    def noisy(self, clean: Array, strength: float, generator: np.random.Generator) -> Array:
        """Return the noisy image."""
        index = sixteen_bits(generator, clean.shape) >> (16 - _QUANTILE_BITS)
        place = clean.astype(np.intp)
        place <<= _QUANTILE_BITS
        place += index
        noisy: Array = _poisson_quantiles(strength).take(place)
        return noisy


class ImpulseNoise(_Noise):
    """Sets values to 0 or to 255, each as likely. `amount` of the values: 0.03, 0.06, 0.09, 0.17, 0.27."""

    parameter, table = "amount", (0.03, 0.06, 0.09, 0.17, 0.27)

    def noisy(self, clean: Array, strength: float, generator: np.random.Generator) -> Array:
        """Return the noisy image."""
        drawn = sixteen_bits(generator, clean.shape)
        threshold = round(strength * 32768)
        noisy = clean.copy()
        noisy[drawn < threshold] = 0
        noisy[drawn >= 65536 - threshold] = 255
        return noisy


@lru_cache(maxsize=8)
def _poisson_quantiles(photons: float) -> Array:
    """Return, for each value of a byte, equally likely values of the noisy byte, one after the other."""
    from scipy.special import pdtr

    counts = np.arange(int(photons + 10 * np.sqrt(photons) + 20))
    levels = (np.arange(1 << _QUANTILE_BITS) + 0.5) / (1 << _QUANTILE_BITS)
    table = np.empty((256, levels.size), dtype=np.uint8)
    for value in range(256):
        drawn = np.searchsorted(pdtr(counts, value / 255 * photons), levels)
        table[value] = np.minimum(np.rint(drawn * (255 / photons)), 255)
    table.flags.writeable = False
    return table.reshape(-1)


@cache
def _normal_quantiles() -> Array:
    """Return 65536 equally likely values of a standard normal distribution."""
    from scipy.special import ndtri

    return np.asarray(ndtri((np.arange(65536) + 0.5) / 65536), dtype=np.float32)


def _normal(generator: np.random.Generator, shape: Shape) -> Array:
    """Return standard normal numbers, up to 4.2; three times as fast as exact ones."""
    return _normal_quantiles().take(sixteen_bits(generator, shape))


def _as_bytes(values: Array) -> Array:
    np.rint(values, out=values)
    np.clip(values, 0, 255, out=values)
    return values.astype(np.uint8)
