"""Wilson intervals and the exact McNemar test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from roep_gym.evaluate.statistics import mcnemar_exact, wilson_interval


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (2, 50), (49, 50), (300, 1000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_wilson_interval_agrees_with_scipy(k, n, confidence):
    expected = binomtest(k, n).proportion_ci(confidence, method="wilson")
    np.testing.assert_allclose(wilson_interval(k, n, confidence), (expected.low, expected.high), atol=1e-12)


def test_wilson_interval_by_hand():
    # k = 0, n = 10, z = 1.959964: upper bound z^2 / (n + z^2) = 3.841459 / 13.841459.
    low, high = wilson_interval(0, 10)
    assert low == 0
    assert high == pytest.approx(3.841458820694124 / 13.841458820694124)


def test_wilson_interval_of_nothing_is_undefined():
    low, high = wilson_interval([0, 3], [0, 3])
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    assert high[1] == 1


@pytest.mark.parametrize(
    ("lost", "gained", "p"), [(0, 0, 1.0), (3, 3, 1.0), (6, 1, 0.125), (5, 0, 0.0625), (0, 1, 1.0)]
)
def test_mcnemar_by_hand(lost, gained, p):
    # For example 6 and 1: 2 (C(7,0) + C(7,1)) / 2^7 = 16 / 128.
    assert mcnemar_exact(lost, gained) == p


def test_mcnemar_agrees_with_scipy_in_any_shape():
    lost, gained = np.array([[40, 10], [1000, 7]]), np.array([[10, 40], [900, 12]])
    expected = [
        [binomtest(int(b), int(b + c)).pvalue for b, c in zip(*pair, strict=True)]
        for pair in zip(lost, gained, strict=True)
    ]
    np.testing.assert_allclose(mcnemar_exact(lost, gained), expected, rtol=1e-12)
