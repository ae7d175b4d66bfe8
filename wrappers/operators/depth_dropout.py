"""The operator `depth_dropout`: pixels without a measurement."""

from __future__ import annotations

import numpy as np

from roep_gym import seeding
from roep_gym.error import InvalidInputError
from roep_gym.seeding import Key
from roep_gym.typing import Array, BoolArray
from roep_gym.wrappers.operators.base import Metadata, ObservationOperator, Perturbed, Shape, frame_layout

__all__ = ["DepthDropout"]


class DepthDropout(ObservationOperator):
    """Each pixel is set to 0 independently with a probability (protocol section 2, Eq. 2).

    A pixel drops when its 16 random bits are below `round(probability * 65536)`, so that the exact probability is a
    multiple of 1/65536, at most 8e-6 away from the one asked for. Metadata: `probability` and the `fraction` of pixels
    that dropped.
    """

    modality = "depth"
    severity = "probability"

    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Draw the mask and return its fraction."""
        return self._metadata(severity, self.mask(shape, severity, key))

    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
        """Return a copy with the dropped pixels, which the key determines."""
        return self._drop(clean, self.mask(clean.shape, metadata["probability"], key))

    def apply(self, clean: Array, severity: float, key: tuple[Key, ...]) -> Perturbed:
        """Perturb an array, drawing the mask once."""
        mask = self.mask(clean.shape, severity, key)
        return Perturbed(self._drop(clean, mask), self._metadata(severity, mask))

    def mask(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> BoolArray:
        """Return which pixels drop, a boolean array of the given shape."""
        layout = frame_layout(shape)
        if layout.rows * layout.columns != np.prod(shape):
            raise InvalidInputError(f"Expected depth of shape (H, W), (H, W, 1) or (1, H, W), got {shape}.")
        threshold = round(self.check(severity) * 65536)
        if threshold in (0, 65536):
            return np.full(shape, threshold > 0)
        pixels = layout.rows * layout.columns
        words = seeding.generator(*key).bit_generator.random_raw((pixels + 3) // 4)
        # Explicit byte order: the same pixels drop on every machine.
        sixteen_bits = words.astype("<u8", copy=False).view("<u2")[:pixels]
        return (sixteen_bits < np.uint16(threshold)).reshape(shape)

    def _metadata(self, severity: float, mask: BoolArray) -> Metadata:
        fraction = int(np.count_nonzero(mask)) / mask.size
        return {"operator": self.name, "probability": float(severity), "fraction": fraction}

    def _drop(self, clean: Array, mask: BoolArray) -> Array:
        # Multiplying the bits, not the floats, gives exact zeros also for infinities, ten times faster than masking.
        bits = clean.view(np.dtype(f"u{clean.dtype.itemsize}"))
        dropped: Array = (bits * ~mask).view(clean.dtype)
        return dropped
