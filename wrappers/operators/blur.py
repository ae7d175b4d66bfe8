"""Blur of images: `gaussian_blur`, `defocus_blur`, `motion_blur`, `zoom_blur` and `glass_blur`.

Gaussian, motion, zoom and glass blur have the ten strengths of LIBERO-plus (2025), two to a level: level 5 is its
strength 10, level 0.5 its strength 1; its pixels are those of frames of 256 and scale with the shorter side. Defocus
blur has the radii of ImageNet-C (Hendrycks and Dietterich, 2019), for 224 pixels. OpenCV filters each pixel by
itself, so that its number of threads has no part in the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import cv2
import numpy as np

from roep_gym.typing import JSON, Array, FloatArray
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level, sixteen_bits

__all__ = ["DefocusBlur", "GaussianBlur", "GlassBlur", "MotionBlur", "ZoomBlur"]

_BORDER = cv2.BORDER_REFLECT_101
_ZOOMS = 12
_DIRECT = 130
"""Entries of a kernel from which on OpenCV filters in the frequency domain."""


def _scale(shape: Shape, pixels: int) -> float:
    return min(shape[:2]) / pixels


class GaussianBlur(ImageOperator):
    """A Gaussian blur. `sigma`: 2, 4, 6, 8, 10 pixels of 256."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the width."""
        return {"sigma": 2 * level * _scale(shape, 256)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Blur the image."""
        sigma = done["sigma"]
        side = 2 * math.ceil(3 * sigma) + 1
        blurred = cv2.GaussianBlur(clean.astype(np.float32), (side, side), sigma, borderType=_BORDER)
        return np.rint(blurred)


class DefocusBlur(ImageOperator):
    """The mean over a disc. `radius`: 3, 4, 6, 8, 10 pixels of 224, its edge being smooth."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the radius."""
        return {"radius": at_level((3, 4, 6, 8, 10), level) * _scale(shape, 224)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Blur the image."""
        radius = done["radius"]
        reach = math.ceil(radius)
        axis = np.arange(-reach, reach + 1, dtype=np.float64)
        disc = np.clip(radius + 0.5 - np.hypot(axis[:, None], axis), 0, 1)
        return _filtered(clean, disc, reach, reach)


class MotionBlur(ImageOperator):
    """A one-sided Gaussian along a line at an angle of up to 45 degrees, a new one at each step.

    `sigma`: 3, 5, 8, 12, 20 and `length`: 16, 24, 36, 50, 70 pixels of 256 (LIBERO-plus's radius is half the length),
    cut at three sigma. `angle` in degrees.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the line."""
        scale = _scale(shape, 256)
        return {
            "sigma": at_level((2, 3, 4, 5, 6, 8, 10, 12, 15, 20), level) * scale,
            "length": 2 * at_level((5, 8, 10, 12, 15, 18, 20, 25, 30, 35), level) * scale,
            "angle": float(key.generator().uniform(-45, 45)),
        }

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Blur the image."""
        sigma, angle = done["sigma"], math.radians(done["angle"])
        places = np.arange(math.ceil(min(done["length"], 3 * sigma)) + 1)
        weights = np.exp(-(places**2) / (2 * sigma**2))
        columns, rows = places * math.cos(angle), places * math.sin(angle)
        top, bottom = math.floor(rows.min()), math.ceil(rows.max())
        kernel = np.zeros((bottom - top + 2, math.ceil(columns.max()) + 2))
        for down in (0, 1):  # each place is shared by the four pixels around it
            for right in (0, 1):
                row, column = np.floor(rows).astype(int), np.floor(columns).astype(int)
                share = np.abs(1 - down - (rows - row)) * np.abs(1 - right - (columns - column))
                np.add.at(kernel, (row - top + down, column + right), weights * share)
        return _filtered(clean, kernel, -top, 0)


class ZoomBlur(ImageOperator):
    """The mean of the image and of zooms into its centre up to `zoom`: 1.16, 1.26, 1.36, 1.46, 1.56.

    There are twelve zooms at every level, equally spaced; LIBERO-plus takes 6 to 46.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the largest zoom."""
        return {"zoom": 1 + at_level([0.06 + 0.05 * k for k in range(1, 11)], level)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Blur the image."""
        rows, columns = clean.shape[:2]
        total = clean.astype(np.float32)
        for zoom in np.linspace(1, done["zoom"], _ZOOMS + 1)[1:]:
            height, width = math.ceil(rows / zoom), math.ceil(columns / zoom)
            top, left = (rows - height) // 2, (columns - width) // 2
            crop = clean[top : top + height, left : left + width]
            total += cv2.resize(crop, (columns, rows), interpolation=cv2.INTER_LINEAR).reshape(clean.shape)
        total /= _ZOOMS + 1
        return np.rint(total, out=total)


class GlassBlur(ImageOperator):
    """Each pixel is taken from a random place nearby, between two Gaussian blurs.

    `sigma`: 0.7, 1, 1.3, 1.8, 2.5, `shift`: 1, 2, 3, 4, 5, at least 1, pixels of 256, and `passes`: 3, 2, 2, 2, 1, as
    the even strengths of LIBERO-plus. Pixels are displaced independently, over the whole image, where LIBERO-plus
    swaps neighbours one after the other in a part of fixed size.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the parameters."""
        scale = _scale(shape, 256)
        sigmas = (0.5, 0.7, 0.9, 1.0, 1.1, 1.3, 1.5, 1.8, 2.2, 2.5)
        shift = at_level((1, 1, 2, 2, 3, 3, 4, 4, 5, 5), level, identity=1)
        passes = at_level((3, 3, 3, 2, 2, 2, 2, 2, 1, 1), level, identity=3)
        return {
            "sigma": at_level(sigmas, level) * scale,
            "shift": max(1, round(shift * scale)),
            "passes": round(passes),
        }

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Blur the image."""
        sigma, shift, generator = done["sigma"], done["shift"], key.generator()
        rows, columns, channels = clean.shape
        source = np.arange(rows * columns)
        for _ in range(done["passes"]):
            moved = sixteen_bits(generator, (2, rows, columns)) % (2 * shift + 1)
            row = np.clip(np.arange(-shift, rows - shift)[:, None] + moved[0], 0, rows - 1)
            column = np.clip(np.arange(-shift, columns - shift) + moved[1], 0, columns - 1)
            source = source.take(row * columns + column)
        pixels = cv2.GaussianBlur(clean, (0, 0), sigma).reshape(rows * columns, channels)
        moved_pixels = pixels.take(source, axis=0).reshape(clean.shape)
        return np.asarray(cv2.GaussianBlur(moved_pixels, (0, 0), sigma))


def _filtered(clean: Array, kernel: FloatArray, row: int, column: int) -> Array:
    """Return an image filtered by a kernel, of sum 1 after scaling, whose origin is at a row and column of it.

    OpenCV filters kernels of 130 entries and more in the frequency domain, ten times as slowly as a few smaller ones.
    """
    rows, columns = clean.shape[:2]
    below, right = kernel.shape[0] - 1 - row, kernel.shape[1] - 1 - column
    padded = cv2.copyMakeBorder(clean.astype(np.float32), row, below, column, right, _BORDER)
    kernel = (kernel / kernel.sum()).astype(np.float32)
    total = np.zeros(clean.shape, dtype=np.float32)
    first = 0
    while first < len(kernel):
        last = first + 1
        while last < len(kernel) and _Band.around(kernel, first, last + 1).entries < _DIRECT:
            last += 1
        band = _Band.around(kernel, first, last)
        seen = padded[first : last - 1 + rows, band.left : band.right - 1 + columns]
        part = kernel[first:last, band.left : band.right]
        summed = cv2.filter2D(seen, -1, part, anchor=(0, 0), borderType=_BORDER)
        total += summed[:rows, :columns].reshape(total.shape)
        first = last
    return np.rint(total, out=total)


class _Band(NamedTuple):
    """Rows of a kernel, between the columns that are not zero in them."""

    rows: int
    left: int
    right: int

    @property
    def entries(self) -> int:
        """Number of the entries, zeros among them included."""
        return self.rows * (self.right - self.left)

    @classmethod
    def around(cls, kernel: FloatArray, first: int, last: int) -> _Band:
        """Return the band of the rows from `first` to before `last`."""
        filled = np.flatnonzero(kernel[first:last].any(axis=0))
        left, right = (int(filled[0]), int(filled[-1]) + 1) if filled.size else (0, 1)
        return cls(last - first, left, right)
