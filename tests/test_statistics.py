"""Wilson intervals and the exact McNemar test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from roep_gym.evaluate.statistics.intervals import (
    holm_adjust,
    mcnemar_exact,
    newcombe_interval,
    wilson_interval,
)


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


def test_newcombe_interval_of_the_published_example():
    # Newcombe (1998), table II, 56/70 against 48/80, method 10: 0.0524 to 0.3339.
    np.testing.assert_allclose(newcombe_interval(56, 70, 48, 80), (0.0524, 0.3339), atol=5e-5)


def test_newcombe_interval_by_hand():
    # 10/10 against 0/10: Wilson bounds 10 / (10 + z^2) and z^2 / (10 + z^2), so 1 - sqrt(2) z^2 / (10 + z^2).
    low, high = newcombe_interval(10, 10, 0, 10)
    assert low == pytest.approx(1 - np.sqrt(2) * 3.841458820694124 / 13.841458820694124)
    assert high == 1


def test_newcombe_interval_agrees_in_any_shape_and_without_trials():
    low, high = newcombe_interval([56, 3], [70, 0], [48, 1], [80, 2])
    np.testing.assert_allclose([low[0], high[0]], newcombe_interval(56, 70, 48, 80))
    assert np.isnan([low[1], high[1]]).all()


def test_holm_by_hand():
    # Ascending 0.01, 0.03, 0.04 times 3, 2, 1 is 0.03, 0.06, 0.04; the running maximum makes the last one 0.06.
    np.testing.assert_allclose(holm_adjust([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])


def test_holm_leaves_out_what_was_not_tested_and_stays_below_one():
    np.testing.assert_allclose(holm_adjust([np.nan, 0.6, 0.02, np.nan]), [np.nan, 0.6, 0.04, np.nan])
    assert holm_adjust([0.9, 0.8]).tolist() == [1, 1]
    assert holm_adjust([]).shape == (0,)
