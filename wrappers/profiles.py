"""Perturbation profiles: named lists of operators with parameters (protocol section 2).

`PROFILES` holds the paper's four, `Profile.from_spec` reads a name or a JSON-native mapping, `perturbation_key` is
the key of one operator on one array at one step. Nothing here needs Gymnasium.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, get_args

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import Metadata, Modality, ObservationOperator, Perturbed, Shape
from roep_gym.wrappers.operators.registry import find_operator

__all__ = ["PROFILES", "OperatorSetting", "Profile", "perturbation_key"]


def perturbation_key(
    stream: tuple[str, int, int], step: int, observation_key: str, operator: str
) -> tuple[Key, ...]:
    """Return the key of an operator's draws on one array of one observation.

    Args:
        stream: Run id, seed group and episode (`EpisodeIdentity.key`).
        step: Step index of the observation; the one that `reset` returns has 0.
        observation_key: Key of the array in the observation.
        operator: Name of the operator.
    """
    return ("perturbation", *stream, step, observation_key, operator)


class OperatorSetting(NamedTuple):
    """An operator and the severity it acts with."""

    operator: str
    severity: float


@dataclass(frozen=True)
class Profile:
    """A named list of operators with their severities.

    Attributes:
        name: Name of the profile.
        settings: Operators in the order they act in; none appears twice.
    """

    name: str
    settings: tuple[OperatorSetting, ...]

    def __post_init__(self) -> None:
        """Check names and ranges, and that something applies each operator."""
        names = [setting.operator for setting in self.settings]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"Expected each operator once in the profile {self.name!r}, got {names}.")
        for setting in self.settings:
            operator = find_operator(setting.operator)
            operator.check(setting.severity)
            if not isinstance(operator, ObservationOperator) or operator.modality not in get_args(Modality):
                acts_on = getattr(operator, "modality", operator.target)
                raise InvalidInputError(
                    f"Expected an operator on observations of the modality {' or '.join(get_args(Modality))}, got "
                    f"{operator.name!r} on {acts_on!r}, which nothing applies."
                )

    @classmethod
    def from_spec(cls, spec: str | Mapping[str, JSON]) -> Profile:
        """Return the profile of a built-in name or of a mapping.

        A mapping has a `name` and `operators`, a list such as `[{"operator": "rgb_occlusion", "alpha": 0.2}]`.

        Raises:
            UnknownNameError: A profile, operator or parameter name is unknown; the message offers the closest match.
            InvalidInputError: The mapping is malformed, a severity is out of its range, or the name is that of a
                built-in profile with other contents.
        """
        if isinstance(spec, str):
            if spec not in PROFILES:
                raise unknown_name("perturbation profile", spec, PROFILES)
            return PROFILES[spec]
        if (
            not isinstance(spec, Mapping)
            or set(spec) != {"name", "operators"}
            or not isinstance(spec["name"], str)
        ):
            raise InvalidInputError(
                f"Expected a profile's name or a mapping with 'name' and 'operators', got {spec!r}."
            )
        if not isinstance(spec["operators"], list | tuple):
            raise InvalidInputError(
                f"Expected 'operators' of a profile to be a list, got {spec['operators']!r}."
            )
        profile = cls(spec["name"], tuple(_setting(entry) for entry in spec["operators"]))
        if PROFILES.get(profile.name, profile) != profile:
            raise InvalidInputError(
                f"Expected another name than that of the built-in profile {profile.name!r}."
            )
        return profile

    def to_spec(self) -> dict[str, JSON]:
        """Return the mapping that `from_spec` reads."""
        operators = [
            {"operator": s.operator, find_operator(s.operator).severity: s.severity} for s in self.settings
        ]
        return {"name": self.name, "operators": operators}

    def perturb(
        self, clean: Array, modality: Modality, stream: tuple[str, int, int], step: int, observation_key: str
    ) -> tuple[Array, list[Metadata]]:
        """Return the perturbed array, a private copy, and the metadata of each operator that acts on the modality.

        Args:
            clean: Image or depth array, in the canonical orientation.
            modality: "image" or "depth".
            stream: Run id, seed group and episode.
            step: Step index of the observation.
            observation_key: Key of the array in the observation.
        """
        array, metadata = clean, list[Metadata]()
        for operator, severity in self._acting_on(modality):
            key = perturbation_key(stream, step, observation_key, operator.name)
            result: Perturbed = operator.apply(array, severity, key)
            array = result.array
            metadata.append(result.metadata)
        return array if metadata else clean.copy(), metadata

    def describe(
        self, shape: Shape, modality: Modality, stream: tuple[str, int, int], step: int, observation_key: str
    ) -> list[Metadata]:
        """Return the metadata that `perturb` would give for an array of a shape, which need not exist."""
        return [
            operator.describe(shape, severity, perturbation_key(stream, step, observation_key, operator.name))
            for operator, severity in self._acting_on(modality)
        ]

    def modalities(self) -> frozenset[Modality]:
        """Return the kinds of arrays that some operator changes, that is with a severity above zero."""
        operators = [find_operator(s.operator) for s in self.settings if s.severity > 0]
        return frozenset(o.modality for o in operators if isinstance(o, ObservationOperator))

    @property
    def is_identity(self) -> bool:
        """Whether every severity is zero."""
        return all(setting.severity == 0 for setting in self.settings)

    def scaled(self, factor: float) -> Profile:
        """Return the profile with every severity multiplied by a factor; 1 gives the profile itself.

        Raises:
            InvalidInputError: A severity would leave its range.
        """
        if factor == 1 or self.is_identity:
            return self
        settings = tuple(OperatorSetting(s.operator, s.severity * factor) for s in self.settings)
        return Profile(f"{self.name} x {factor!r}", settings)

    def _acting_on(self, modality: Modality) -> Iterator[tuple[ObservationOperator, float]]:
        for setting in self.settings:
            operator = find_operator(setting.operator)
            if isinstance(operator, ObservationOperator) and operator.modality == modality:
                yield operator, setting.severity


def _setting(entry: JSON) -> OperatorSetting:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("operator"), str):
        raise InvalidInputError(
            f"Expected an operator of a profile as {{'operator': name, ...}}, got {entry!r}."
        )
    operator = find_operator(entry["operator"])
    for name in entry:
        if name not in ("operator", operator.severity):
            raise unknown_name(f"parameter of {operator.name!r}", str(name), [operator.severity])
    if operator.severity not in entry:
        raise InvalidInputError(
            f"Expected the parameter {operator.severity!r} of {operator.name!r}, but it is missing."
        )
    return OperatorSetting(operator.name, operator.check(entry[operator.severity]))


def _paper_profile(name: str, alpha: float, probability: float) -> Profile:
    settings = (OperatorSetting("rgb_occlusion", alpha), OperatorSetting("depth_dropout", probability))
    return Profile(name, settings)


PROFILES: Mapping[str, Profile] = {
    "clean": _paper_profile("clean", 0.0, 0.0),
    "mild": _paper_profile("mild", 0.10, 0.10),
    "medium": _paper_profile("medium", 0.30, 0.20),
    "strong": _paper_profile("strong", 0.50, 0.30),
}
"""The paper's profiles (Eq. 2)."""
