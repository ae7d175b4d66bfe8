"""Statistics of a feature as LeRobot's format v3 keeps them: `Statistics`, `vector_statistics`, `image_statistics`.

Each has `min`, `max`, `mean`, `std` (of the population), the quantiles `q01`, `q10`, `q50`, `q90`, `q99`, and `count`,
the number of rows. They are exact, also over all episodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from roep_gym.typing import Array, FloatArray, IntArray

__all__ = ["Statistics", "image_counts", "image_statistics", "vector_statistics"]

Statistics = Mapping[str, Array]

_QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_LEVELS = np.arange(256)


def vector_statistics(values: Array) -> Statistics:
    """Return the statistics of each entry of a vector.

    Args:
        values: Shape (rows, entries), at least one row.
    """
    values = values.astype(np.float64)
    quantiles = np.quantile(values, list(_QUANTILES.values()), axis=0)
    return {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "count": np.array([len(values)]),
        **dict(zip(_QUANTILES, quantiles, strict=True)),
    }


def image_counts(images: Array) -> IntArray:
    """Return how often each level occurs in each channel, shape (channels, 256); counts of several batches add up.

    Args:
        images: uint8 (rows, height, width, channels).
    """
    return np.stack([np.bincount(images[..., c].ravel(), minlength=256) for c in range(images.shape[-1])])


def image_statistics(counts: IntArray, rows: int) -> Statistics:
    """Return the statistics of each channel, shape (channels, 1, 1), with levels 0 to 255 as 0 to 1.

    Args:
        counts: What `image_counts` gives, shape (channels, 256).
        rows: Number of images.
    """
    total = counts.sum(axis=1)
    mean = counts @ _LEVELS / total
    std = np.sqrt(counts @ _LEVELS**2 / total - mean**2)
    cumulated = np.cumsum(counts, axis=1)

    def level(quantile: float) -> FloatArray:
        """Return the lowest level that at least this share of the pixels does not exceed."""
        reached: FloatArray = np.argmax(cumulated >= quantile * total[:, np.newaxis], axis=1).astype(
            np.float64
        )
        return reached

    values = {
        "min": np.argmax(counts > 0, axis=1),
        "max": 255 - np.argmax(counts[:, ::-1] > 0, axis=1),
        "mean": mean,
        "std": std,
        **{name: level(quantile) for name, quantile in _QUANTILES.items()},
    }
    return {
        **{name: (value / 255.0).reshape(-1, 1, 1) for name, value in values.items()},
        "count": np.array([rows]),
    }
