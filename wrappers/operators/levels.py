"""Operators whose severities are the levels 1 to 5, with what they share.

`ImageOperator`, `DepthOperator` and `VectorOperator` draw in `draw` and change a clean array in `change`, which sees
one layout alone; severity 0 never reaches them. `at_level` interpolates a published table between its levels,
`sixteen_bits` draws many small integers quickly, `signs` draws signs, `is_lost` and `last_delivered` decide what a
channel loses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from roep_gym.error import InvalidInputError
from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array, FloatArray
from roep_gym.wrappers.operators.base import (
    MAX_LEVEL,
    Metadata,
    ObservationOperator,
    PerturbationKey,
    Shape,
    frame_layout,
)

__all__ = [
    "KEYFRAME",
    "DepthOperator",
    "ImageOperator",
    "LevelOperator",
    "VectorOperator",
    "at_level",
    "is_lost",
    "last_delivered",
    "signs",
    "sixteen_bits",
]

KEYFRAME = 20
"""Of this many steps in a row the first is never lost, so that nothing older than this is ever given."""


def at_level(table: Sequence[float], level: float, identity: float = 0.0) -> float:
    """Return a parameter at a level from its values at equally spaced levels up to 5, with the identity's at 0."""
    return float(np.interp(level, np.linspace(0, MAX_LEVEL, len(table) + 1), (identity, *table)))


def sixteen_bits(generator: np.random.Generator, shape: Shape) -> Array:
    """Return independent integers of 16 random bits; the same ones on every machine, whatever its byte order."""
    count = int(np.prod(shape))
    words = generator.bit_generator.random_raw((count + 3) // 4)
    values: Array = words.astype("<u8", copy=False).view("<u2")[:count].reshape(shape)
    return values


def is_lost(probability: float, key: PerturbationKey) -> bool:
    """Tell whether what belongs to the key's step is lost; never that of the first step of twenty."""
    return key.step % KEYFRAME > 0 and float(key.generator().random()) < probability


def last_delivered(probability: float, key: PerturbationKey) -> int:
    """Return the last step up to the key's that is not lost."""
    step = key.step
    while is_lost(probability, key._replace(step=step)):
        step -= 1
    return step


class LevelOperator(ObservationOperator):
    """An operator on one array whose severities are the levels 1 to 5.

    Metadata: `severity`, and what `draw` says.
    """

    severity = "severity"
    max_severity = MAX_LEVEL

    @abstractmethod
    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return what is done to an array of a shape as `change` sees it, JSON-native, for a level above zero."""

    @abstractmethod
    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return a new array of the shape, and of the dtype or one that is cast to it; `done` are the metadata."""

    @abstractmethod
    def arrange(self, clean: Array) -> Array:
        """Return an array in the layout that `change` sees; it is never written."""

    @abstractmethod
    def shape_seen(self, shape: Shape) -> Shape:
        """Return the shape that `arrange` gives for one."""

    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata for an array of a shape."""
        level, named = self.check(severity), PerturbationKey.of(key)
        seen = self.shape_seen(shape)
        return {"operator": self.name, "severity": level, **(self.draw(seen, level, named) if level else {})}

    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
        """Return the perturbed array."""
        if not metadata["severity"]:
            return clean.copy()
        changed = self.change(self.arrange(clean), metadata, PerturbationKey.of(key))
        return self.restore(changed, clean)

    def restore(self, changed: Array, clean: Array) -> Array:
        """Return what `change` gave in the layout and the dtype of the clean array."""
        return np.ascontiguousarray(changed, dtype=clean.dtype).reshape(clean.shape)


class ImageOperator(LevelOperator):
    """An operator on images; `change` sees (H, W, C), contiguous."""

    modality = "image"

    def shape_seen(self, shape: Shape) -> Shape:
        """Return (H, W, C).

        Raises:
            InvalidInputError: It is no image, or has a number of channels that the operator does not act on.
        """
        layout = frame_layout(shape)
        channels = int(np.prod(shape)) // (layout.rows * layout.columns)
        if channels not in self.channels:
            raise InvalidInputError(
                f"Expected an image of {' or '.join(map(str, self.channels))} channels for {self.name!r}, got {shape}."
            )
        return (layout.rows, layout.columns, channels)

    def arrange(self, clean: Array) -> Array:
        """Return the image as (H, W, C)."""
        shape = self.shape_seen(clean.shape)
        if frame_layout(clean.shape).row_axis:
            clean = np.moveaxis(clean, 0, -1)
        return np.ascontiguousarray(clean).reshape(shape)

    def restore(self, changed: Array, clean: Array) -> Array:
        """Return the image in its own layout."""
        changed = changed.reshape(self.shape_seen(clean.shape))
        if frame_layout(clean.shape).row_axis:
            changed = np.moveaxis(changed, -1, 0)
        return super().restore(changed, clean)


class DepthOperator(LevelOperator):
    """An operator on depth; `change` sees (H, W). A pixel that is 0 or not finite has no measurement and stays."""

    modality = "depth"

    def shape_seen(self, shape: Shape) -> Shape:
        """Return (H, W).

        Raises:
            InvalidInputError: It has several channels.
        """
        layout = frame_layout(shape)
        if layout.rows * layout.columns != int(np.prod(shape)):
            raise InvalidInputError(f"Expected depth of shape (H, W), (H, W, 1) or (1, H, W), got {shape}.")
        return (layout.rows, layout.columns)

    def arrange(self, clean: Array) -> Array:
        """Return the depth as (H, W)."""
        return clean.reshape(self.shape_seen(clean.shape))

    @abstractmethod
    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the depth that is measured where there is a measurement, in metres."""

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Change what is measured."""
        measured = np.isfinite(clean) & (clean > 0)
        finite = np.where(measured, clean, clean.dtype.type(0))
        return np.where(measured, np.maximum(self.measure(finite, done, key), 0), clean)


class VectorOperator(LevelOperator):
    """An operator on a vector of numbers, (N,), such as `proprio`, in the units of its entries."""

    modality = "vector"
    keeps_range = False

    def shape_seen(self, shape: Shape) -> Shape:
        """Return (N,).

        Raises:
            InvalidInputError: It is no vector.
        """
        if len(shape) != 1:
            raise InvalidInputError(f"Expected a vector of shape (N,) for {self.name!r}, got {shape}.")
        return shape

    def arrange(self, clean: Array) -> Array:
        """Return the vector as it is."""
        self.shape_seen(clean.shape)
        return clean


def signs(generator: np.random.Generator, size: int) -> FloatArray:
    """Return independent signs, +1 or -1."""
    drawn: FloatArray = np.where(generator.random(size) < 0.5, -1.0, 1.0)
    return drawn
