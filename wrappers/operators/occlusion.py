"""What hides a part of an image for longer: `lasting_occlusion`, `moving_occlusion` and `dead_camera`.

Strengths are ours; the sides of the squares at the levels 1, 3 and 5 are those of the paper's profiles, whose own
square (`rgb_occlusion`) is somewhere else at every step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, PerturbationKey, Shape
from roep_gym.wrappers.operators.levels import ImageOperator, at_level

__all__ = ["DeadCamera", "LastingOcclusion", "MovingOcclusion"]

_SIDES = (0.1, 0.2, 0.3, 0.4, 0.5)
_STAY = 20
_OUTAGE = 10
_CROSSING = 60


class _Square(ImageOperator):
    """A black square; metadata: `row` and `column` of its upper left corner and `side`, in pixels."""

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Draw the square."""
        row, column, side = done["row"], done["column"], done["side"]
        hidden = clean.copy()
        hidden[row : row + side, column : column + side] = 0
        return hidden


class LastingOcclusion(_Square):
    """A black square that stays for 20 steps at a time. Side: 0.1, 0.2, 0.3, 0.4, 0.5 of the shorter one."""

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the place, for a block of steps."""
        side = round(at_level(_SIDES, level) * min(shape[:2]))
        draw = key.lasting(key.step // _STAY)
        row, column = draw.integers(shape[0] - side + 1), draw.integers(shape[1] - side + 1)
        return {"row": int(row), "column": int(column), "side": side}


class MovingOcclusion(_Square):
    """A black square that moves evenly and is thrown back at the edges; 60 steps or more from edge to edge.

    Side: 0.1, 0.2, 0.3, 0.4, 0.5 of the shorter one. Place and velocity are drawn for the episode.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Work out the place at the step."""
        side = round(at_level(_SIDES, level) * min(shape[:2]))
        start, velocity = key.lasting().uniform((0, 0, -1, -1), (2, 2, 1, 1)).reshape(2, 2)
        path = (start + velocity * key.step / _CROSSING) % 2  # from 0 to 1 and back, twice as long
        row, column = np.rint(np.minimum(path, 2 - path) * (np.array(shape[:2]) - side))
        return {"row": int(row), "column": int(column), "side": side}


class DeadCamera(ImageOperator):
    """A camera that gives black images for a share of the time: 0.2, 0.4, 0.6, 0.8 and all of it.

    It fails for 10 steps at a time. Every camera fails by itself; name one in the profile's `targets` for one dead
    camera. Metadata: `dead`.
    """

    def draw(self, shape: Shape, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw whether the camera is dead, for a block of steps."""
        return {"dead": bool(key.lasting(key.step // _OUTAGE).random() < level / 5)}

    def change(self, clean: Array, done: Metadata, key: PerturbationKey) -> Array:
        """Return black where the camera is dead."""
        return np.zeros_like(clean) if done["dead"] else clean.copy()
