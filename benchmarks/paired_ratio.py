"""How every benchmark states a ratio: that of the medians, and how far the ratios of single pairs spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HEADING = "ratio (10th to 90th percentile of pairs)"


def paired_ratio(above: Sequence[float], below: Sequence[float]) -> str:
    """Return the ratio of the medians with the 10th and 90th percentile of the ratios of interleaved pairs."""
    numerator, denominator = np.asarray(above), np.asarray(below)
    low, high = np.quantile(numerator / denominator, (0.1, 0.9))
    return f"{np.median(numerator) / np.median(denominator):.2f} ({low:.2f} to {high:.2f})"
