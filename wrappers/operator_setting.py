"""What an operator of a profile does: how strongly it acts, on what and when.

`OperatorSetting` is one entry of a profile's list of operators.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roep_gym.arguments import check_names, read_integer
from roep_gym.error import InvalidInputError
from roep_gym.typing import JSON
from roep_gym.wrappers.operators.base import Modality, Operator
from roep_gym.wrappers.operators.registry import find_operator

__all__ = ["VECTOR_KEYS", "OperatorSetting"]

VECTOR_KEYS = ("proprio", "observation")
"""Keys of the vectors that operators act on where no targets are named; the second is that of a Box observation."""


class OperatorSetting(NamedTuple):
    """An operator, the severity it acts with, on what and when.

    Attributes:
        operator: Name of the operator.
        severity: Its severity.
        targets: Keys of the arrays it acts on, or `key.entry` for an entry of a vector; empty: every array of its
            modality, of the vectors `proprio` alone.
        onset: Step of the first observation or action that it acts on, or a fraction of the step budget, between 0
            and 1.
        duration: Number of steps that it acts for, or such a fraction; None: to the end of the episode.
    """

    operator: str
    severity: float
    targets: tuple[str, ...] = ()
    onset: int | float = 0
    duration: int | float | None = None

    def severity_at(self, step: int) -> float:
        """Return the severity at a step: 0 before the onset and after the duration."""
        before = step < self.onset or (self.duration is not None and step >= self.onset + self.duration)
        return 0.0 if before else self.severity

    def resolved(self, step_budget: int | None) -> OperatorSetting:
        """Return the setting with onset and duration in steps."""
        if isinstance(self.onset, int) and (self.duration is None or isinstance(self.duration, int)):
            return self
        if step_budget is None:
            raise InvalidInputError(
                f"Expected a step budget for {self.operator!r}, whose onset or duration is a fraction of it, got none; "
                "give step_budget, or steps."
            )
        onset = _in_steps(self.onset, step_budget)
        return self._replace(
            onset=onset,
            duration=None if self.duration is None else max(1, _in_steps(self.duration, step_budget)),
        )

    def is_for(self, modality: Modality, observation_key: str) -> bool:
        """Tell whether it acts on an array of an observation, its operator acting on the modality."""
        if not self.targets:
            return modality != "vector" or observation_key in VECTOR_KEYS
        return any(target.partition(".")[0] == observation_key for target in self.targets)

    def entries(self, observation_key: str, fields: Sequence[str]) -> list[int] | None:
        """Return the indices of the entries that the targets name of a vector; None: all of them.

        Raises:
            UnknownNameError: The vector has no such entry.
        """
        named = [target.partition(".") for target in self.targets]
        chosen = [entry for key, _, entry in named if key == observation_key]
        if not any(chosen) or "" in chosen:
            return None
        check_names(f"entry of {observation_key!r}", chosen, fields)
        return [fields.index(entry) for entry in chosen]

    @classmethod
    def from_entry(cls, entry: JSON) -> OperatorSetting:
        """Return the setting that a mapping with `operator`, its severity by name, and the attributes describes.

        Raises:
            UnknownNameError: The operator or a parameter is unknown.
            InvalidInputError: The mapping is malformed, or a number is out of its range.
        """
        if not isinstance(entry, Mapping) or not isinstance(entry.get("operator"), str):
            raise InvalidInputError(
                f"Expected an operator of a profile as {{'operator': name, ...}}, got {entry!r}."
            )
        operator = find_operator(entry["operator"])
        known = [operator.severity, "targets", "onset", "duration"]
        check_names(f"parameter of {operator.name!r}", (name for name in entry if name != "operator"), known)
        if operator.severity not in entry:
            raise InvalidInputError(
                f"Expected the parameter {operator.severity!r} of {operator.name!r}, but it is missing."
            )
        targets = entry.get("targets", [])
        if not isinstance(targets, list | tuple) or not all(isinstance(name, str) for name in targets):
            raise InvalidInputError(
                f"Expected 'targets' of {operator.name!r} to be a list of observation keys, got {targets!r}."
            )
        return cls(
            operator.name,
            operator.check(entry[operator.severity]),
            tuple(targets),
            _time(operator, "onset", entry.get("onset", 0), 0),
            None if entry.get("duration") is None else _time(operator, "duration", entry["duration"], 1),
        )

    def to_entry(self) -> dict[str, JSON]:
        """Return the mapping that `from_entry` reads; what is left at its default is left out."""
        defaults = self._field_defaults
        further = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self._asdict().items()
            if name in defaults and value != defaults[name]
        }
        return {
            "operator": self.operator,
            find_operator(self.operator).severity: self.severity,
            **further,
        }


def _in_steps(time: int | float, step_budget: int) -> int:
    return time if isinstance(time, int) else round(time * step_budget)


def _time(operator: Operator, name: str, value: JSON, least: int) -> int | float:
    """Return a number of steps, or a fraction of the step budget."""
    if isinstance(value, float) and 0 < value < 1:
        return value
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return read_integer(f"{name!r} of {operator.name!r}, unless a fraction between 0 and 1,", whole, least)
