"""The interval of a difference between two paired rates; it informs and never gates."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from roep_gym.evaluate.statistics.intervals import Interval, wilson_interval
from roep_gym.typing import FloatArray

__all__ = ["paired_difference_interval"]


def paired_difference_interval(
    both: ArrayLike, lost: ArrayLike, gained: ArrayLike, neither: ArrayLike, confidence: float = 0.95
) -> Interval:
    r"""Return the hybrid score interval of SR(base) - SR(comparison) over pairs.

    The Wilson bounds of the two rates are joined with their correlation phi, continuity-corrected where positive:

    .. math:: \delta = \sqrt{(p_1 - l_1)^2 - 2 \phi (p_1 - l_1)(u_2 - p_2) + (u_2 - p_2)^2},\quad
              \epsilon = \sqrt{(u_1 - p_1)^2 - 2 \phi (u_1 - p_1)(p_2 - l_2) + (p_2 - l_2)^2}

    and the interval is :math:`[p_1 - p_2 - \delta,\; p_1 - p_2 + \epsilon]`.

    Args:
        both: Pairs in which both succeeded, of any shape.
        lost: Pairs whose base succeeded and whose comparison failed, of the same shape.
        gained: Pairs the other way round.
        neither: Pairs in which both failed.
        confidence: Level of the interval, in 0..1.

    Returns:
        Bounds in -1..1; NaN without pairs.

    References:
        Newcombe, R. G. (1998). Improved confidence intervals for the difference between binomial proportions based
        on paired data. Statistics in Medicine, 17(22), 2635-2650, method 10.

    Example:
        >>> low, high = paired_difference_interval(36, 12, 2, 0)
        >>> round(float(low), 4), round(float(high), 4)
        (0.0569, 0.3404)
    """
    a, b, c, d = (
        np.asarray(count, dtype=float) for count in np.broadcast_arrays(both, lost, gained, neither)
    )
    n = a + b + c + d
    pairs = np.where(n > 0, n, np.nan)
    p_base, p_comparison = (a + b) / pairs, (a + c) / pairs
    base, comparison = wilson_interval(a + b, n, confidence), wilson_interval(a + c, n, confidence)
    scale = np.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    association = a * d - b * c
    association = np.where(association > 0, np.maximum(association - n / 2, 0), association)
    # A rate of 0 or 1 leaves nothing to correlate.
    phi = np.divide(association, scale, out=np.zeros_like(n), where=scale > 0)

    def joined(first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray(np.sqrt(first**2 - 2 * phi * first * second + second**2))

    difference = p_base - p_comparison
    return Interval(
        difference - joined(p_base - base.low, comparison.high - p_comparison),
        difference + joined(base.high - p_base, p_comparison - comparison.low),
    )
