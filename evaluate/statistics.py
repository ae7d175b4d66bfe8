"""Intervals and tests that stand beside the metrics; they inform and never gate.

`wilson_interval` is the interval of a rate, `mcnemar_exact` the test of a paired comparison. Both work on
arrays and need NumPy alone, since importing `scipy.stats` takes longer than a whole judgement.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roep_gym.typing import FloatArray

__all__ = ["Interval", "mcnemar_exact", "wilson_interval"]


class Interval(NamedTuple):
    """Lower and upper bounds."""

    low: FloatArray
    high: FloatArray


def wilson_interval(successes: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> Interval:
    r"""Return the Wilson score interval of a binomial rate.

    .. math:: \frac{\hat p + z^2/2n \pm z \sqrt{\hat p (1 - \hat p)/n + z^2/4n^2}}{1 + z^2/n}

    Args:
        successes: Counts, of any shape.
        n: Numbers of trials; broadcast against `successes`.
        confidence: Level of the interval, in 0..1.

    Returns:
        Bounds in 0..1; NaN where `n` is 0.

    References:
        Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA,
        22(158), 209-212. https://doi.org/10.1080/01621459.1927.10502953

    Example:
        >>> low, high = wilson_interval(5, 10)
        >>> round(float(low), 4), round(float(high), 4)
        (0.2366, 0.7634)
    """
    k, trials = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(n, dtype=float))
    trials = np.where(trials > 0, trials, np.nan)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = k / trials
    centre = p + z**2 / (2 * trials)
    half = z * np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    scale = 1 + z**2 / trials
    # The bounds of 0/n and n/n are exactly 0 and 1, which rounding would miss.
    return Interval(
        np.where(p == 0, 0.0, (centre - half) / scale), np.where(p == 1, 1.0, (centre + half) / scale)
    )


def mcnemar_exact(lost: ArrayLike, gained: ArrayLike) -> FloatArray:
    r"""Return the two-sided exact McNemar p-value of a paired comparison.

    .. math:: p = \min\left(1, 2 \sum_{k=0}^{\min(b, c)} \binom{b + c}{k} 2^{-(b + c)}\right)

    Args:
        lost: Discordant pairs whose base succeeded and whose comparison failed (b), of any shape.
        gained: Discordant pairs the other way round (c), of the same shape.

    Returns:
        p-values in 0..1; 1 where no pair is discordant.

    References:
        McNemar, Q. (1947). Note on the sampling error of the difference between correlated proportions or
        percentages. Psychometrika, 12(2), 153-157. https://doi.org/10.1007/BF02295996

    Example:
        >>> float(mcnemar_exact(6, 1))
        0.125
    """
    b, c = np.broadcast_arrays(np.asarray(lost, dtype=np.int64), np.asarray(gained, dtype=np.int64))
    pairs, inverse = np.unique(np.stack([b.ravel(), c.ravel()]), axis=1, return_inverse=True)
    values = np.array([_two_sided_binomial(int(min(pair)), int(sum(pair))) for pair in pairs.T], dtype=float)
    return values[inverse.ravel()].reshape(b.shape)


def _two_sided_binomial(smaller: int, n: int) -> float:
    """Return twice the lower tail of a fair binomial, at most 1; in integers, so that no term is rounded."""
    term = tail = 1
    for k in range(1, smaller + 1):
        term = term * (n - k + 1) // k
        tail += term
    p_value: float = 2 * tail / 2**n
    return min(1.0, p_value)
