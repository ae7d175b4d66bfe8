"""Faults of measured numbers: `vector_noise`, `vector_bias`, `vector_drift` and `vector_dropout`.

They act on `proprio`, or on the entries that a profile's `targets` name, in the units of the entries (metres,
radians, parts of a quaternion). Strengths are ours.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import VectorOperator, at_level, signs

__all__ = ["VectorBias", "VectorDrift", "VectorDropout", "VectorNoise"]

_ERRORS = (0.002, 0.005, 0.01, 0.02, 0.05)
_DRIFT = 100


class _Added(VectorOperator):
    """Adds `error`, one number for each entry."""

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Add the error."""
        return np.add(clean, done["error"])


class VectorNoise(_Added):
    """Adds normal noise with a deviation of 0.002, 0.005, 0.01, 0.02, 0.05, new at each step."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the error of the step."""
        return {"error": (at_level(_ERRORS, level) * key.generator().standard_normal(shape)).tolist()}


class VectorBias(_Added):
    """Adds 0.002, 0.005, 0.01, 0.02, 0.05 with a sign of its own to every entry, the same in the whole episode."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the error of the episode."""
        return {"error": (at_level(_ERRORS, level) * signs(key.lasting(), shape[0])).tolist()}


class VectorDrift(_Added):
    """Adds an error that grows from nothing by 0.002, 0.005, 0.01, 0.02, 0.05 in 100 steps, with a sign of its own."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Work out the error at the step."""
        grown = at_level(_ERRORS, level) * (key.step + 1) / _DRIFT
        return {"error": (grown * signs(key.lasting(), shape[0])).tolist()}


class VectorDropout(VectorOperator):
    """Sets entries to 0 with the probability 0.05, 0.1, 0.2, 0.35, 0.5, drawn at each step; metadata: `dropped`."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the entries."""
        drawn = key.generator().random(shape) < at_level((0.05, 0.1, 0.2, 0.35, 0.5), level)
        return {"dropped": np.flatnonzero(drawn).tolist()}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Set the entries to 0."""
        left = clean.copy()
        left[done["dropped"]] = 0
        return left
