"""Power and numbers of episodes, against numbers worked by hand and exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.statistics.intervals import mcnemar_exact
from roep_gym.evaluate.statistics.power import (
    independent_gain,
    mcnemar_power,
    minimum_detectable_drop,
    paired_episodes,
    power_table,
    unpaired_episodes,
)


@pytest.mark.parametrize(
    ("drop", "gained", "n", "power"),
    [
        # Six lost pairs have p = 2/64, five 2/32: at least six must be lost.
        (1, 0, 6, 1),
        (1, 0, 5, 0),
        (0.5, 0, 6, 1 / 64),
        (0.5, 0, 7, 8 / 128),
        # Without a drop the power is the size: 0 or 6 of 6 lost, 0, 1, 8 or 9 of 9.
        (0, 0.5, 6, 2 / 64),
        (0, 0.5, 9, 20 / 512),
        (0, 0, 50, 0),
    ],
)
def test_mcnemar_power_by_hand(drop, gained, n, power):
    assert mcnemar_power(drop, gained, n) == pytest.approx(power, abs=1e-14)


def test_power_counts_exactly_the_outcomes_that_the_test_rejects():
    drop, gained, n = 0.2, 0.1, 25
    lost, kept = np.arange(n + 1), 1 - drop - 2 * gained
    total = 0.0
    for b in lost:
        for c in range(n - b + 1):
            if mcnemar_exact(b, c) <= 0.05:
                ways = math.comb(n, b) * math.comb(n - b, c)
                total += ways * (drop + gained) ** b * gained**c * kept ** (n - b - c)
    assert mcnemar_power(drop, gained, n) == pytest.approx(total, rel=1e-10)


def test_the_number_of_pairs_is_the_first_that_suffices():
    # Without gains the test rejects from six losses on, so n must make six or more of Bin(n, 0.1) likely.
    assert binom.sf(5, 78, 0.1) >= 0.8 > binom.sf(5, 77, 0.1)
    assert paired_episodes(0.1, 0) == 78
    assert paired_episodes(1, 0) == 6


def test_the_power_stays_after_the_number():
    n = paired_episodes(0.2, 0.1)
    assert all(mcnemar_power(0.2, 0.1, k) >= 0.8 for k in range(n, n + 20))
    assert mcnemar_power(0.2, 0.1, n - 1) < 0.8


def test_unpaired_episodes_by_hand():
    # (1.95996 sqrt(2 * 0.55 * 0.45) + 0.84162 sqrt(0.24 + 0.25))^2 / 0.01 = 387.3, corrected for continuity 407.1.
    assert unpaired_episodes(0.6, 0.1) == 408


@pytest.mark.parametrize(("rate", "drop"), [(0.9, 0.2), (0.6, 0.3), (0.5, 0.2)])
def test_unpaired_episodes_are_those_of_fishers_exact_test(rate, drop):
    n = unpaired_episodes(rate, drop)
    counts = np.arange(n + 1)
    base, other = np.meshgrid(counts, counts, indexing="ij")
    total = base + other
    tail = np.minimum(hypergeom.cdf(base, 2 * n, n, total), hypergeom.sf(base - 1, 2 * n, n, total))
    weight = np.outer(binom.pmf(counts, n, rate), binom.pmf(counts, n, rate - drop))
    assert weight[2 * tail <= 0.05].sum() == pytest.approx(0.8, abs=0.03)


def test_partners_that_share_more_need_fewer_pairs():
    rate, drop = 0.9, 0.1
    unpaired, independent = unpaired_episodes(rate, drop), paired_episodes(drop, independent_gain(rate, drop))
    assert paired_episodes(drop, 0) < paired_episodes(drop, 0.04) < independent
    assert independent == pytest.approx(unpaired, rel=0.05)


def test_minimum_detectable_drop_by_hand():
    # Six pairs must all be lost: d^6 = 0.8. With five nothing shows, nor with four successes to lose.
    assert minimum_detectable_drop(6, 1, 0) == pytest.approx(0.8 ** (1 / 6), abs=1e-4)
    assert math.isnan(minimum_detectable_drop(5, 1, 0))
    assert math.isnan(minimum_detectable_drop(50, 0.08, 0))
    assert math.isnan(minimum_detectable_drop(0, 0.5, 0))


def test_minimum_detectable_drop_is_the_inverse_of_the_number_of_pairs():
    drop = minimum_detectable_drop(78, 0.9, 0)
    assert drop == pytest.approx(0.1, abs=2e-3)
    assert mcnemar_power(drop, 0, 78) >= 0.8


def test_table_holds_the_designs_and_leaves_out_what_cannot_be():
    table = power_table([0.1, 0.3], [0.2, 0.9])
    assert table["paired_best"].values[:, 0].tolist() == [78, 78]
    assert np.isnan(table["unpaired"].sel(base_rate=0.2, success_drop=0.3))
    assert table["unpaired"].sel(base_rate=0.9, success_drop=0.1) == unpaired_episodes(0.9, 0.1)


def test_testing_many_rows_together_needs_more_episodes():
    one, many = (power_table([0.1], [0.9], tests=tests) for tests in (1, 24))
    assert many["paired_best"].item() == paired_episodes(0.1, 0, alpha=0.05 / 24) > one["paired_best"].item()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar_power(0.5, 0.3, 10), "got 0.5, 0.3 and 0.05"),
        (lambda: mcnemar_power(-0.1, 0.3, 10), "Expected a drop and a gained share"),
        (lambda: mcnemar_power(0.1, 0, 10, alpha=1), "and 1"),
        (lambda: paired_episodes(0, 0.1), "a drop above 0, got 0"),
        (lambda: paired_episodes(0.001, 0.2), "at most 100000 pairs show, but 0.001 needs more"),
        (lambda: unpaired_episodes(0.1, 0.2), "between the drop 0.2 and 1"),
        (lambda: unpaired_episodes(0.5, 0.2, power=1), "a power between 0 and 1, got 1"),
        (lambda: power_table([0.1], [0.5], tests=0), "at least 1 test, got 0"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
