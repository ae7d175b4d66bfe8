"""The hybrid score interval of a paired difference, against published and hand-worked values."""

from __future__ import annotations

import numpy as np
import pytest

from roep_gym.evaluate.statistics.intervals import paired_difference_interval, wilson_interval


def test_published_example():
    # Newcombe (1998), Table II, method 10.
    low, high = paired_difference_interval(36, 12, 2, 0)
    assert (round(float(low), 4), round(float(high), 4)) == (0.0569, 0.3404)


def test_hand_worked_without_correlation():
    # A rate of 1 leaves nothing to correlate: the squares of the Wilson half-widths add up.
    base, comparison = wilson_interval(10, 10), wilson_interval(7, 10)
    low, high = paired_difference_interval(7, 3, 0, 0)
    assert float(low) == pytest.approx(0.3 - np.hypot(1 - base.low, comparison.high - 0.7))
    assert float(high) == pytest.approx(0.3 + (0.7 - comparison.low))


def test_agreement_of_pairs_narrows_the_interval():
    agreeing, crossing = paired_difference_interval(20, 5, 0, 25), paired_difference_interval(10, 15, 10, 15)
    assert agreeing.high - agreeing.low < crossing.high - crossing.low


def test_exchanging_base_and_comparison_mirrors_the_interval():
    first, second = paired_difference_interval(19, 13, 4, 14), paired_difference_interval(19, 4, 13, 14)
    assert (float(first.low), float(first.high)) == (pytest.approx(-second.high), pytest.approx(-second.low))


def test_nothing_is_known_without_pairs():
    assert np.isnan(paired_difference_interval(0, 0, 0, 0)).all()


def test_arrays_are_broadcast():
    low, high = paired_difference_interval([36, 0], [12, 0], [2, 0], [0, 0])
    assert low.shape == high.shape == (2,)
    assert np.isnan(low[1])
