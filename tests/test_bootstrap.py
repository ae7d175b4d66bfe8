"""The cluster bootstrap against distributions that can be enumerated."""

from __future__ import annotations

import numpy as np
import pytest

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.statistics.bootstrap import cluster_bootstrap
from roep_gym.seeding import generator


def interval(differences, init_state, task=None, *, confidence=0.95, key="test", resamples=4000):
    return cluster_bootstrap(
        differences,
        init_state=init_state,
        task=task,
        rng=generator(key),
        confidence=confidence,
        resamples=resamples,
    )


def test_two_initial_states_by_hand():
    # Of the four ordered draws one has mean 0, two have 1/2 and one has 1.
    whole, inner = interval([0, 1], [3, 8]), interval([0, 1], [3, 8], confidence=0.4)
    assert (whole.estimate, whole.low, whole.high) == (0.5, 0, 1)
    assert (inner.low, inner.high) == (0.5, 0.5)
    assert (whole.tasks, whole.init_states, whole.reason) == (1, 2, "")


def test_pairs_of_an_initial_state_stand_or_fall_together():
    # State 0 has three pairs of difference 1, state 1 one of 0: draws 00, 01, 10, 11 have means 1, 3/4, 3/4, 0.
    whole, inner = interval([1, 1, 1, 0], [0, 0, 0, 1]), interval([1, 1, 1, 0], [0, 0, 0, 1], confidence=0.4)
    assert (whole.estimate, whole.low, whole.high) == (0.75, 0, 1)
    assert (inner.low, inner.high) == (0.75, 0.75)


def test_tasks_are_drawn_before_initial_states():
    # Task 0 always 0, task 1 always 1: only the drawn tasks vary, with means 0, 1/2, 1 as 1 : 2 : 1.
    differences, states, tasks = [0, 0, 1, 1], [0, 1, 0, 1], [0, 0, 1, 1]
    whole, inner = interval(differences, states, tasks), interval(differences, states, tasks, confidence=0.4)
    assert (whole.estimate, whole.low, whole.high) == (0.5, 0, 1)
    assert (inner.low, inner.high) == (0.5, 0.5)
    assert (whole.tasks, whole.init_states) == (2, 4)


def test_the_mean_is_over_tasks_not_over_pooled_pairs():
    assert interval([1, 0, 0, 0], [0, 0, 1, 2], [0, 1, 1, 1]).estimate == 0.5


def test_initial_states_of_tasks_are_not_the_same_states():
    assert interval([0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]).init_states == 4


def test_many_independent_states_approach_the_normal_interval():
    differences = np.repeat([1, 0], [30, 70])
    found = interval(differences, np.arange(100), resamples=20_000)
    half = 1.96 * np.sqrt(0.3 * 0.7 / 100)
    np.testing.assert_allclose([found.low, found.high], [0.3 - half, 0.3 + half], atol=0.015)


def test_repeated_pairs_of_a_state_do_not_narrow_the_interval():
    differences, states = np.repeat([1, 0], [6, 14]), np.arange(20)
    once = interval(differences, states)
    ten_times = interval(np.repeat(differences, 10), np.repeat(states, 10))
    assert (once.low, once.high) == (ten_times.low, ten_times.high)


@pytest.mark.parametrize(
    ("differences", "states", "tasks", "reason"),
    [
        ([], [], None, "no pair"),
        ([1, 0, 1], [4, 4, 4], None, "a single initial state"),
        ([0] * 5, range(5), None, "every initial state shows the same difference"),
        ([1] * 4, [0, 1, 0, 1], [0, 0, 1, 1], "every initial state shows the same difference"),
    ],
)
def test_where_resampling_says_nothing_there_is_no_interval(differences, states, tasks, reason):
    found = interval(differences, list(states), tasks)
    assert found.reason == reason
    assert np.isnan([found.low, found.high]).all()
    assert np.isnan(found.estimate) == (not differences)


def test_the_generator_alone_decides_and_the_order_of_pairs_does_not():
    values, states = [1, 0, -1, 1, 0, 0, 1], [0, 1, 2, 3, 4, 4, 0]
    order = generator("order").permutation(7)
    first = interval(values, states, resamples=50)
    assert first == interval(np.take(values, order), np.take(states, order), resamples=50)
    assert first != interval(values, states, resamples=50, key="other")
    before = np.random.get_state(legacy=False)["state"]["pos"]
    interval(values, states)
    assert np.random.get_state(legacy=False)["state"]["pos"] == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 0], [0]), "as many initial states and tasks as differences"),
        (([1, 0], [0, 1], [0]), "got 2 and 1"),
    ],
)
def test_unequal_lengths_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        interval(*arguments)
    with pytest.raises(InvalidInputError, match="at least 1 resample, got 0"):
        interval([1, 0], [0, 1], resamples=0)
