"""How strongly a profile acts in an episode: always the same, drawn, or by a schedule.

`Severity` is a factor on every severity of a profile, 0 for the identity and 1 for the profile as it is.
`Severity.from_spec` reads the forms that people write, `Severity.at` gives the factor of an episode, a pure function of
the episode's key. A constant is a schedule of one point.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from roep_gym import seeding
from roep_gym.arguments import read_number
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.typing import JSON

__all__ = ["ChosenSeverity", "ScheduledSeverity", "Severity", "UniformSeverity"]

Stream = tuple[str, int, int]
"""Run id, seed group and episode (`EpisodeIdentity.key`)."""


class Severity(ABC):
    """The factor on a profile's severities, by episode."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest factor that any episode may have."""

    @abstractmethod
    def at(self, stream: Stream) -> float:
        """Return the factor of an episode."""

    @staticmethod
    def from_spec(spec: JSON) -> Severity:
        """Return the severity of a JSON-native description.

        A number is constant. `{"uniform": [low, high]}` draws for each episode (domain randomisation), where a bound is
        a number or a schedule; `{"choice": [0, 0.5, 1]}` draws one of the numbers.
        `{"schedule": [[0, 0.0], [500, 1.0]]}` goes linearly from point to point, each an episode's number and a factor,
        and is constant before and after (curriculum).

        Raises:
            UnknownNameError: A form has another name.
            InvalidInputError: The form is malformed, or a factor is negative or not finite.
        """
        if not isinstance(spec, Mapping):
            return ScheduledSeverity((0.0,), (_factor(spec),))
        if len(spec) != 1:
            raise InvalidInputError(
                f"Expected a severity as a number or one of {list(_FORMS)}, got {dict(spec)!r}."
            )
        ((form, values),) = spec.items()
        if form not in _FORMS:
            raise unknown_name("form of a severity", str(form), _FORMS)
        if not isinstance(values, list | tuple) or not values:
            raise InvalidInputError(f"Expected the severity {form!r} to hold a list, got {values!r}.")
        return _FORMS[form](list(values))


@dataclass(frozen=True)
class ScheduledSeverity(Severity):
    """A factor that goes linearly from point to point over the episodes of an environment.

    Attributes:
        episodes: Episode numbers of the points, increasing.
        factors: Factors of the points; the first and the last hold before and after.
    """

    episodes: tuple[float, ...]
    factors: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest factor of a point."""
        return max(self.factors)

    def at(self, stream: Stream) -> float:
        """Return the factor at the episode's number."""
        return float(np.interp(stream[2], self.episodes, self.factors))


@dataclass(frozen=True)
class UniformSeverity(Severity):
    """A factor drawn uniformly between two bounds, which may follow a schedule."""

    low: Severity
    high: Severity

    @property
    def largest(self) -> float:
        """The largest upper bound."""
        return self.high.largest

    def at(self, stream: Stream) -> float:
        """Return the factor that the episode's key draws."""
        low, high = self.low.at(stream), self.high.at(stream)
        return low + (high - low) * float(seeding.generator("severity", *stream).random())


@dataclass(frozen=True)
class ChosenSeverity(Severity):
    """One of several factors, each as likely."""

    factors: tuple[float, ...]

    @property
    def largest(self) -> float:
        """The largest of the factors."""
        return max(self.factors)

    def at(self, stream: Stream) -> float:
        """Return the factor that the episode's key draws."""
        return self.factors[int(seeding.generator("severity", *stream).integers(len(self.factors)))]


def _factor(value: JSON) -> float:
    return read_number("a severity", value, 0.0)


def _uniform(bounds: list[JSON]) -> UniformSeverity:
    if len(bounds) != 2:
        raise InvalidInputError(f"Expected the severity 'uniform' to hold [low, high], got {bounds!r}.")
    low, high = map(Severity.from_spec, bounds)
    if not isinstance(low, ScheduledSeverity) or not isinstance(high, ScheduledSeverity):
        raise InvalidInputError(f"Expected the bounds of 'uniform' as numbers or schedules, got {bounds!r}.")
    points = low.episodes + high.episodes
    episodes = {0, *map(math.floor, points), *map(math.ceil, points)}
    if any(low.at(("", 0, episode)) > high.at(("", 0, episode)) for episode in episodes):
        raise InvalidInputError(f"Expected the lower bound of 'uniform' first, got {bounds!r}.")
    return UniformSeverity(low, high)


def _schedule(points: list[JSON]) -> ScheduledSeverity:
    if not all(isinstance(point, list | tuple) and len(point) == 2 for point in points):
        raise InvalidInputError(
            f"Expected the points of 'schedule' as [episode, severity] each, got {points!r}."
        )
    episodes, factors = zip(*((_factor(episode), _factor(value)) for episode, value in points), strict=True)
    if any(after <= before for before, after in pairwise(episodes)):
        raise InvalidInputError(f"Expected the points of 'schedule' by increasing episode, got {points!r}.")
    return ScheduledSeverity(episodes, factors)


_FORMS: Mapping[str, Callable[[list[JSON]], Severity]] = {
    "uniform": _uniform,
    "choice": lambda factors: ChosenSeverity(tuple(map(_factor, factors))),
    "schedule": _schedule,
}
