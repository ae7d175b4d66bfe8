"""Cluster bootstrap of paired differences over tasks and initial states.

Episodes that start from the same initial state of a task are one cluster: they stand or fall together, and more of them
say little more. `cluster_bootstrap` draws whole clusters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roep_gym.error import InvalidInputError
from roep_gym.typing import FloatArray, IntArray

__all__ = ["BootstrapInterval", "cluster_bootstrap"]


@dataclass(frozen=True)
class BootstrapInterval:
    """A mean difference with its bootstrap interval.

    Attributes:
        estimate: Mean over tasks of the mean difference of each task; NaN without a pair.
        low: Lower bound; NaN where `reason` says why there is none.
        high: Upper bound.
        tasks: Number of tasks with a pair.
        init_states: Number of initial states with a pair, over all tasks.
        reason: Why there is no interval; empty where there is one.
    """

    estimate: float
    low: float
    high: float
    tasks: int
    init_states: int
    reason: str = ""


def cluster_bootstrap(
    differences: ArrayLike,
    *,
    init_state: ArrayLike,
    task: ArrayLike | None = None,
    rng: np.random.Generator,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> BootstrapInterval:
    """Return the mean paired difference with its percentile interval under resampling of whole clusters.

    Within a task, initial states are drawn with replacement, each with all of its pairs. With several tasks these are
    drawn first, and the initial states within each drawn task, so that the interval speaks about tasks like these; the
    mean is over tasks, as everywhere in the protocol. Where all clusters show the same mean difference, resampling
    cannot tell how far others would differ: that is no certainty, and there is no interval. A percentile interval is
    too narrow where few clusters (tasks, or initial states with a discordant pair) carry the difference.

    Args:
        differences: Paired differences (pair,).
        init_state: Initial state of each pair, within its task.
        task: Task of each pair; None for one task.
        rng: Generator of the resamples, from `roep_gym.seeding.generator`.
        resamples: Number of resamples.
        confidence: Level of the interval, in 0..1.

    Raises:
        InvalidInputError: The arguments differ in length, or there are no resamples.

    References:
        Davison, A. C., & Hinkley, D. V. (1997). Bootstrap methods and their application, section 3.8. Cambridge
        University Press. https://doi.org/10.1017/CBO9780511802843

    Example:
        Two initial states with differences 0 and 1: of the four ordered draws one has mean 0, two 1/2 and one 1, so
        the 95 % interval is 0..1 around 1/2.
    """
    values = np.asarray(differences, dtype=float)
    states = np.asarray(init_state)
    tasks = np.zeros(values.size, dtype=int) if task is None else np.asarray(task)
    if not values.size == states.size == tasks.size:
        raise InvalidInputError(
            f"Expected as many initial states and tasks as differences ({values.size}), got {states.size} and "
            f"{tasks.size}."
        )
    if resamples < 1:
        raise InvalidInputError(f"Expected at least 1 resample, got {resamples}.")
    if not values.size:
        return BootstrapInterval(np.nan, np.nan, np.nan, 0, 0, "no pair")
    samples = [_TaskSample.of(values[tasks == name], states[tasks == name]) for name in np.unique(tasks)]
    estimate = float(np.mean([sample.mean for sample in samples]))
    init_states = sum(sample.size.size for sample in samples)
    if reason := _no_interval(samples):
        return BootstrapInterval(estimate, np.nan, np.nan, len(samples), init_states, reason)
    tail = (1 - confidence) / 2
    low, high = np.quantile(_resampled_means(samples, rng, resamples), [tail, 1 - tail])
    return BootstrapInterval(estimate, float(low), float(high), len(samples), init_states)


def _no_interval(samples: list[_TaskSample]) -> str:
    """Return why resampling says nothing; empty where it does."""
    means = np.concatenate([sample.total / sample.size for sample in samples])
    if means.size < 2:
        return "a single initial state"
    return "every initial state shows the same difference" if np.ptp(means) == 0 else ""


@dataclass(frozen=True)
class _TaskSample:
    """The pairs of one task by initial state: their number and the total of their differences."""

    size: IntArray
    total: FloatArray

    @classmethod
    def of(cls, values: FloatArray, states: IntArray) -> _TaskSample:
        _, cluster, size = np.unique(states, return_inverse=True, return_counts=True)
        return cls(size, np.bincount(cluster, weights=values).astype(float))

    @property
    def mean(self) -> float:
        return float(self.total.sum() / self.size.sum())

    def resampled(self, rng: np.random.Generator, draws: int) -> FloatArray:
        """Return the mean difference of `draws` samples of as many initial states, with replacement."""
        # Initial states with equal size and total are exchangeable, so how often each kind is drawn is enough.
        kinds, count = np.unique(np.stack([self.size, self.total]), axis=1, return_counts=True)
        times = rng.multinomial(self.size.size, count / self.size.size, size=draws)
        return np.asarray(times @ kinds[1] / (times @ kinds[0]))


def _resampled_means(samples: list[_TaskSample], rng: np.random.Generator, resamples: int) -> FloatArray:
    """Return (resamples,) means over tasks; a task that is drawn twice gets its initial states drawn twice."""
    count = len(samples)
    if count == 1:
        return samples[0].resampled(rng, resamples)
    drawn = rng.integers(count, size=(resamples, count))
    means = np.empty(drawn.shape)
    for index, sample in enumerate(samples):
        here = drawn == index
        means[here] = sample.resampled(rng, int(here.sum()))
    return np.asarray(means.mean(axis=1))
