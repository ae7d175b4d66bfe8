"""The operator `rgb_occlusion`: a black square."""

from __future__ import annotations

from roep_gym import seeding
from roep_gym.seeding import Key
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import Metadata, ObservationOperator, Shape, frame_layout

__all__ = ["RgbOcclusion"]


class RgbOcclusion(ObservationOperator):
    """A black square at a uniformly random place fully inside the frame (protocol section 2, Eq. 2).

    Its side is `round(alpha * shorter side)` pixels (half to even); all channels become 0. Metadata: `row` and `column`
    of the upper left corner and `side`, in pixels; all 0 when nothing is covered.
    """

    modality = "image"
    severity = "alpha"

    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Draw the place of the square."""
        layout = frame_layout(shape)
        side = round(self.check(severity) * min(layout.rows, layout.columns))
        row = column = 0
        if side:
            generator = seeding.generator(*key)
            row = int(generator.integers(layout.rows - side + 1))
            column = int(generator.integers(layout.columns - side + 1))
        return {"operator": self.name, "row": row, "column": column, "side": side}

    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...] = ()) -> Array:
        """Return a copy with the square; the key is not needed."""
        row, column, side = metadata["row"], metadata["column"], metadata["side"]
        leading = (slice(None),) * frame_layout(clean.shape).row_axis
        perturbed = clean.copy()
        perturbed[(*leading, slice(row, row + side), slice(column, column + side))] = 0
        return perturbed
