"""Weather in images: `fog`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level

__all__ = ["Fog"]

_STRENGTHS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0)
_DECAYS = (3.0, 2.8, 2.5, 2.2, 2.0, 1.8, 1.6, 1.5, 1.4, 1.3)


class Fog(ImageOperator):
    """Bright fog of a random density, a plasma fractal that is new at each step.

    `strength`: 1, 2, 3, 4, 5, of which level s is strength 2 s of LIBERO-plus (2025), and `decay`: 2.8, 2.2, 1.8, 1.5,
    1.3, by which it becomes smoother. The image keeps its largest value, at any size.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the parameters; the plasma follows from the key."""
        return {
            "strength": at_level(_STRENGTHS, level),
            "decay": at_level(_DECAYS, level, identity=_DECAYS[0]),
        }

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Add the fog."""
        rows, columns, _ = clean.shape
        density = _plasma(max(rows, columns), done["decay"], key.generator())[:rows, :columns, None]
        largest, strength = float(clean.max()), done["strength"]
        foggy = clean + np.float32(255 * strength) * density
        foggy *= np.float32(largest / (largest + 255 * strength))
        return np.rint(foggy, out=foggy)


def _plasma(side: int, decay: float, generator: np.random.Generator) -> Array:
    """Return a periodic plasma fractal (diamond-square), at least `side` pixels a side, float32 from 0 to 1."""
    size = 1 << max(side - 1, 1).bit_length()
    plasma = np.zeros((size, size), dtype=np.float32)
    step, amplitude = size, 1.0
    while step > 1:
        half = step // 2
        noise = generator.random((3, size // step, size // step), dtype=np.float32)
        noise = (noise - np.float32(0.5)) * np.float32(2 * amplitude)
        corners = plasma[::step, ::step]
        sides = corners + np.roll(corners, -1, 0)
        centres = (sides + np.roll(sides, -1, 1)) / 4 + noise[0]
        plasma[half::step, half::step] = centres
        across = corners + np.roll(corners, -1, 1) + centres + np.roll(centres, 1, 0)
        plasma[::step, half::step] = across / 4 + noise[1]
        along = corners + np.roll(corners, -1, 0) + centres + np.roll(centres, 1, 1)
        plasma[half::step, ::step] = along / 4 + noise[2]
        step, amplitude = half, amplitude / decay**2
    plasma -= plasma.min()
    plasma /= plasma.max()
    return plasma
