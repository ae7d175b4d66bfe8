"""Intervals and tests that stand beside the metrics; they inform and never gate.

`wilson_interval` is the interval of a rate, `newcombe_interval` that of the difference of two independent rates and
`paired_difference_interval` of two paired ones. `mcnemar_exact` is the test of a paired comparison, `stratified_exact`
that of several executions on either side, and `holm_adjust` the correction for testing many of them. They need NumPy
alone, since importing `scipy.stats` takes longer than a whole judgement.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from roep_gym.typing import FloatArray

__all__ = [
    "Interval",
    "holm_adjust",
    "mcnemar_exact",
    "newcombe_interval",
    "paired_difference_interval",
    "stratified_exact",
    "wilson_interval",
]


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


def newcombe_interval(
    successes: ArrayLike,
    n: ArrayLike,
    other_successes: ArrayLike,
    other_n: ArrayLike,
    confidence: float = 0.95,
) -> Interval:
    r"""Return the hybrid score interval of the difference of two independent rates (Newcombe's method 10).

    .. math:: \hat p_1 - \hat p_2 - \sqrt{(\hat p_1 - l_1)^2 + (u_2 - \hat p_2)^2}, \quad
        \hat p_1 - \hat p_2 + \sqrt{(u_1 - \hat p_1)^2 + (\hat p_2 - l_2)^2}

    with the Wilson bounds l and u of each rate. It is for episodes that are no partners, such as published counts.

    Args:
        successes: Counts of the first rate, of any shape.
        n: Numbers of trials of the first rate.
        other_successes: Counts of the second rate.
        other_n: Numbers of trials of the second rate.
        confidence: Level of the interval, in 0..1.

    Returns:
        Bounds in -1..1; NaN where a number of trials is 0.

    References:
        Newcombe, R. G. (1998). Interval estimation for the difference between independent proportions: comparison
        of eleven methods. Statistics in Medicine, 17(8), 873-890.
        https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I

    Example:
        >>> low, high = newcombe_interval(56, 70, 48, 80)
        >>> round(float(low), 4), round(float(high), 4)
        (0.0524, 0.3339)
    """
    trials, other_trials = (np.where(np.asarray(m) > 0, m, np.nan) for m in (n, other_n))
    p, q = np.asarray(successes) / trials, np.asarray(other_successes) / other_trials
    first = wilson_interval(successes, n, confidence)
    second = wilson_interval(other_successes, other_n, confidence)
    return Interval(
        p - q - np.hypot(p - first.low, second.high - q), p - q + np.hypot(first.high - p, q - second.low)
    )


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


def stratified_exact(
    successes: ArrayLike, executions: ArrayLike, other_successes: ArrayLike, other_executions: ArrayLike
) -> float:
    r"""Return the two-sided exact p-value that the executions of each episode are exchangeable between two groups.

    With one execution on either side it is the exact McNemar test.
    Given how many of all executions of an episode succeeded, those of the first group are a draw without replacement:

    .. math:: P(X_i = x) = \binom{n_i}{x} \binom{m_i}{s_i - x} / \binom{n_i + m_i}{s_i}, \quad
        p = P(|T - E[T]| \ge |t - E[T]|), \quad T = \sum_i X_i

    the exact conditional form of the Cochran-Mantel-Haenszel test, with the episodes as strata.

    Args:
        successes: Successful executions of each episode in the first group (episode,).
        executions: Its executions (episode,).
        other_successes: Successful executions of each episode in the second group (episode,).
        other_executions: Its executions (episode,).

    Returns:
        p-value in 0..1; NaN where no episode was executed in both groups.

    References:
        Mehta, C. R., Patel, N. R. and Gray, R. (1985). Computing an exact confidence interval for the common odds ratio
        in several 2 x 2 contingency tables. JASA, 80(392), 969-973. https://doi.org/10.1080/01621459.1985.10478212

    Example:
        >>> stratified_exact([1] * 7, [1] * 7, [0] * 6 + [1], [1] * 7)
        0.03125
        >>> stratified_exact([1, 1, 0], [1, 1, 1], [0, 1, 0], [3, 3, 3])
        0.125
    """
    first, n, second, m = (
        np.asarray(values, dtype=np.int64)
        for values in (successes, executions, other_successes, other_executions)
    )
    both = (n > 0) & (m > 0)
    if not both.any():
        return math.nan
    strata = np.stack([n[both], m[both], first[both] + second[both]], axis=1)
    distribution = np.ones(1)
    for (size, other, succeeded), count in zip(*np.unique(strata, axis=0, return_counts=True), strict=True):
        single = _hypergeometric(int(size), int(other), int(succeeded))
        for _ in range(int(count)):
            distribution = np.convolve(distribution, single)
    expected = float((strata[:, 0] * strata[:, 2] / (strata[:, 0] + strata[:, 1])).sum())
    distance = np.abs(np.arange(distribution.size) - expected)
    extreme = distance >= abs(int(first[both].sum()) - expected) - 1e-9
    return min(1.0, float(distribution[extreme].sum()))


def holm_adjust(p_values: ArrayLike) -> FloatArray:
    r"""Return p-values adjusted for testing all of them (Holm's step-down).

    .. math:: \tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})

    over the m defined values in ascending order. Rejecting where the adjusted value is at most the level keeps the
    chance of any false rejection at the level, whatever the dependence between the tests.

    Args:
        p_values: p-values (m,); NaN is no test, counts in no m and stays NaN.

    References:
        Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics,
        6(2), 65-70. https://www.jstor.org/stable/4615733

    Example:
        >>> holm_adjust([0.01, 0.04, 0.03]).round(4).tolist()
        [0.03, 0.06, 0.06]
    """
    values = np.asarray(p_values, dtype=float)
    adjusted = np.full(values.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    steps = np.arange(order.size, 0, -1) * values[order]
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def _two_sided_binomial(smaller: int, n: int) -> float:
    """Return twice the lower tail of a fair binomial, at most 1; in integers, so that no term is rounded."""
    term = tail = 1
    for k in range(1, smaller + 1):
        term = term * (n - k + 1) // k
        tail += term
    p_value: float = 2 * tail / 2**n
    return min(1.0, p_value)


def _hypergeometric(size: int, other: int, succeeded: int) -> FloatArray:
    """Return the probabilities of 0..size successes among `size` of `size + other` executions."""
    ways = [
        math.comb(size, k) * (math.comb(other, succeeded - k) if succeeded >= k else 0)
        for k in range(size + 1)
    ]
    return np.array(ways, dtype=float) / math.comb(size + other, succeeded)
