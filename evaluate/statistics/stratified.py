"""An exact test of two groups of executions of the same episodes.

`stratified_exact` generalises the exact McNemar test to several executions on either side: with one on each it is that
test.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from roep_gym.typing import FloatArray

__all__ = ["stratified_exact"]

_TOLERANCE = 1e-9


def stratified_exact(
    successes: ArrayLike, executions: ArrayLike, other_successes: ArrayLike, other_executions: ArrayLike
) -> float:
    r"""Return the two-sided exact p-value that the executions of each episode are exchangeable between two groups.

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
    extreme = distance >= abs(int(first[both].sum()) - expected) - _TOLERANCE
    return min(1.0, float(distribution[extreme].sum()))


def _hypergeometric(size: int, other: int, succeeded: int) -> FloatArray:
    """Return the probabilities of 0..size successes among `size` of `size + other` executions."""
    ways = [
        math.comb(size, k) * (math.comb(other, succeeded - k) if succeeded >= k else 0)
        for k in range(size + 1)
    ]
    return np.array(ways, dtype=float) / math.comb(size + other, succeeded)
