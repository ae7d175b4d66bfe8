"""Faults of depth cameras: `depth_scale`, `depth_offset`, `depth_holes`, `depth_quantisation` and `depth_edge_noise`.

Strengths are ours: at level 3 about those of a consumer's camera in bad light. Pixels without a measurement (0 or not
finite) stay as they are, and 0 is what a hole is set to.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import numpy as np

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import DepthOperator, at_level, signs, sixteen_bits

__all__ = ["DepthEdgeNoise", "DepthHoles", "DepthOffset", "DepthQuantisation", "DepthScale"]

_DRIFT = 50


def _drift(key: PerturbationKey) -> float:
    """Return a number from -1 to 1 that goes linearly from one draw to the next, one every 50 steps."""
    block, rest = divmod(key.step, _DRIFT)
    before, after = (float(key.lasting(block + i).uniform(-1, 1)) for i in (0, 1))
    return before + (after - before) * rest / _DRIFT


class DepthScale(DepthOperator):
    """Multiplies depth by a drifting factor: `scale`, at most 0.01, 0.02, 0.04, 0.07, 0.1 from 1."""

    keeps_range = False

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Work out the factor at the step."""
        return {"scale": 1 + at_level((0.01, 0.02, 0.04, 0.07, 0.1), level) * _drift(key)}

    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the scaled depth."""
        return np.asarray(clean * clean.dtype.type(done["scale"]))


class DepthOffset(DepthOperator):
    """Adds a drifting `offset` in metres, at most 0.005, 0.01, 0.02, 0.035, 0.05 from 0."""

    keeps_range = False

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Work out the offset at the step."""
        return {"offset": at_level((0.005, 0.01, 0.02, 0.035, 0.05), level) * _drift(key)}

    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the moved depth."""
        return np.asarray(clean + clean.dtype.type(done["offset"]))


class DepthHoles(DepthOperator):
    """Ellipses without a measurement, new ones at each step, until they cover a share of the frame.

    `share`: 0.02, 0.05, 0.1, 0.2, 0.35 of the pixels, the last hole apart; a hole's axes are 0.05 to 0.2 of the sides.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the share; the holes follow from the key."""
        return {"share": at_level((0.02, 0.05, 0.1, 0.2, 0.35), level)}

    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the depth with holes."""
        rows, columns = clean.shape
        generator, hole = key.generator(), np.zeros(clean.shape, dtype=bool)
        for _ in count():
            middle, axes = generator.random(2), generator.uniform(0.05, 0.2, 2)
            down = (np.arange(rows) / rows - middle[0]) / axes[0]
            right = (np.arange(columns) / columns - middle[1]) / axes[1]
            hole |= down[:, None] ** 2 + right**2 < 1
            if np.count_nonzero(hole) >= done["share"] * hole.size:
                break
        return np.where(hole, clean.dtype.type(0), clean)


class DepthQuantisation(DepthOperator):
    """Rounds depth to multiples of a `unit`: 0.005, 0.01, 0.02, 0.04, 0.08 metres, at least one."""

    keeps_range = False

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the unit."""
        return {"unit": at_level((0.005, 0.01, 0.02, 0.04, 0.08), level)}

    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the rounded depth."""
        unit = clean.dtype.type(done["unit"])
        return np.asarray(np.maximum(np.rint(clean / unit), 1) * unit)


class DepthEdgeNoise(DepthOperator):
    """At an edge, where neighbours differ by more than 2 cm, a pixel loses its measurement or has that of a neighbour.

    `share` of the pixels at edges: 0.1, 0.2, 0.4, 0.6, 0.8, half of them lost, a new draw at each step.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the share; the pixels follow from the key."""
        return {"share": at_level((0.1, 0.2, 0.4, 0.6, 0.8), level)}

    def measure(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return the depth with ragged edges."""
        generator = key.generator()
        drawn = sixteen_bits(generator, clean.shape)
        axis = int(generator.integers(2))
        shift = int(signs(generator, 1)[0])
        edge = np.zeros(clean.shape, dtype=bool)
        for along in (0, 1):
            jump = np.abs(np.diff(clean, axis=along)) > 0.02
            before, after = [slice(None)] * 2, [slice(None)] * 2
            before[along], after[along] = slice(None, -1), slice(1, None)
            edge[tuple(before)] |= jump
            edge[tuple(after)] |= jump
        threshold = round(done["share"] * 65536)
        neighbour = np.roll(clean, shift, axis=axis)
        ragged = np.where(edge & (drawn < threshold), neighbour, clean)
        ragged[edge & (drawn < threshold // 2)] = 0
        return ragged
