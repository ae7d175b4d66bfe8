"""Perturbation profiles: named lists of operators with parameters (protocol section 2).

`PROFILES` holds the paper's four, `Profile.from_spec` reads a name or a JSON-native mapping, `named_profile` finds one
among those of a plan, `perturbation_key` is the key of one operator on one array at one step. Nothing here needs
Gymnasium.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, get_args

import yaml

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operator_setting import OperatorSetting
from roep_gym.wrappers.operators.base import (
    ActionOperator,
    HistoryOperator,
    InstructionOperator,
    Metadata,
    Modality,
    ObservationOperator,
    Operator,
    PerturbationKey,
    Shape,
    Target,
    modalities_of,
)
from roep_gym.wrappers.operators.registry import find_operator

__all__ = ["PROFILES", "Earlier", "OperatorSetting", "Profile", "named_profile", "perturbation_key"]


def perturbation_key(
    stream: tuple[str, int, int], step: int, observation_key: str, operator: str
) -> PerturbationKey:
    """Return the key of an operator's draws on one array of one observation.

    Args:
        stream: Run id, seed group and episode (`EpisodeIdentity.key`).
        step: Step index of the observation; the one that `reset` returns has 0.
        observation_key: Key of the array in the observation; "action" and "instruction" for operators on these.
        operator: Name of the operator.
    """
    return PerturbationKey("perturbation", *stream, step, observation_key, operator)


class Earlier(NamedTuple):
    """An earlier array that is given in the place of the present one.

    Attributes:
        step: The step that it is of.
        entries: Indices of the entries of a vector that are taken from it; None: all of it.
        metadata: Metadata of the operator.
    """

    step: int
    entries: list[int] | None
    metadata: Metadata


@dataclass(frozen=True)
class Profile:
    """A named list of operators with their severities.

    Attributes:
        name: Name of the profile.
        settings: Operators in the order they act in; none appears twice. Those that give earlier arrays act first.
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
            _check_applied(operator)
            if operator.target != "observation" and setting.targets:
                raise InvalidInputError(
                    f"Expected targets for operators on observations alone, got {list(setting.targets)} for "
                    f"{operator.name!r}, which acts on {operator.target}s."
                )
            if operator.target == "instruction" and (setting.onset, setting.duration) != (0, None):
                raise InvalidInputError(
                    f"Expected {operator.name!r} to act from the beginning of an episode to its end, since the "
                    f"instruction is given once, got the onset {setting.onset} and the duration {setting.duration}."
                )

    @classmethod
    def from_spec(cls, spec: str | Mapping[str, JSON]) -> Profile:
        """Return the profile of a built-in name or of a mapping.

        A mapping has a `name` and `operators`, a list such as `[{"operator": "rgb_occlusion", "alpha": 0.2}]`. An
        operator may also have `targets`, `onset` and `duration`; see `OperatorSetting`.

        Raises:
            UnknownNameError: A profile, operator or parameter name is unknown; the message offers the closest match.
            InvalidInputError: The mapping is malformed, a severity is out of its range, or the name is that of a
                built-in profile with other contents.
        """
        if isinstance(spec, str):
            check_names("perturbation profile", [spec], PROFILES)
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
        profile = cls(spec["name"], tuple(OperatorSetting.from_entry(entry) for entry in spec["operators"]))
        if PROFILES.get(profile.name, profile) != profile:
            raise InvalidInputError(
                f"Expected another name than that of the built-in profile {profile.name!r}."
            )
        return profile

    def to_spec(self) -> dict[str, JSON]:
        """Return the mapping that `from_spec` reads."""
        return {"name": self.name, "operators": [setting.to_entry() for setting in self.settings]}

    def perturb(
        self,
        clean: Array,
        modality: Modality,
        stream: tuple[str, int, int],
        step: int,
        observation_key: str,
        fields: Sequence[str] = (),
    ) -> tuple[Array, list[Metadata]]:
        """Return the perturbed array, a private copy, and the metadata of each operator that changes the modality.

        Args:
            clean: Image, depth array or vector, images and depth in the canonical orientation.
            modality: "image", "depth" or "vector".
            stream: Run id, seed group and episode.
            step: Step index of the observation.
            observation_key: Key of the array in the observation.
            fields: Names of a vector's entries, which targets name.
        """
        array, metadata = clean, list[Metadata]()
        for operator, setting in self._changing(modality, observation_key):
            key = perturbation_key(stream, step, observation_key, operator.name)
            entries = setting.entries(observation_key, fields)
            severity = setting.severity_at(step)
            if entries is None:
                array, done = operator.apply(array, severity, key)
            else:
                part, done = operator.apply(array[entries], severity, key)
                array, done = array.copy(), {**done, "entries": entries}
                array[entries] = part
            metadata.append(done)
        return array if metadata else clean.copy(), metadata

    def describe(
        self, shape: Shape, modality: Modality, stream: tuple[str, int, int], step: int, observation_key: str
    ) -> list[Metadata]:
        """Return the metadata that `perturb` would give for an image or depth array, which need not exist."""
        return [
            operator.describe(
                shape,
                setting.severity_at(step),
                perturbation_key(stream, step, observation_key, operator.name),
            )
            for operator, setting in self._changing(modality, observation_key)
        ]

    def earlier(
        self,
        modality: Modality,
        stream: tuple[str, int, int],
        step: int,
        observation_key: str,
        fields: Sequence[str] = (),
    ) -> list[Earlier]:
        """Return the earlier arrays that are given one after the other, before anything is changed.

        Where several operators give whole arrays, each looks back from the step that the one before it gives.
        """
        found, source = list[Earlier](), step
        for operator, setting in self._giving_earlier(modality, observation_key):
            key = perturbation_key(stream, source, observation_key, operator.name)
            metadata = operator.describe(setting.severity_at(step), key)
            entries = setting.entries(observation_key, fields)
            if entries is None:
                source = metadata["source_step"]
            else:
                metadata = {**metadata, "entries": entries}
            found.append(Earlier(metadata["source_step"], entries, metadata))
        return found

    def is_needed(
        self, modality: Modality, stream: tuple[str, int, int], step: int, observation_key: str
    ) -> bool:
        """Tell whether an array may be given at a later step, so that it has to exist although nobody looks at it."""
        acting = [
            (operator, setting)
            for operator, setting in self._giving_earlier(modality, observation_key)
            if setting.severity > 0
        ]
        if len(acting) != 1:
            return bool(acting)
        [(operator, setting)] = acting
        key = perturbation_key(stream, step, observation_key, operator.name)
        begun = step + operator.max_age >= setting.onset
        ended = setting.duration is not None and step + 1 >= setting.onset + setting.duration
        return begun and not ended and operator.is_needed(setting.severity, key)

    def max_age(self, modality: Modality, observation_key: str) -> int:
        """Return the largest number of steps that an array which is given may be old."""
        return sum(operator.max_age for operator, _ in self._giving_earlier(modality, observation_key))

    def rewrite(self, instruction: str, stream: tuple[str, int, int]) -> tuple[str, list[Metadata]]:
        """Return the instruction that is given, and the metadata of each operator on it."""
        metadata = list[Metadata]()
        for setting in self.settings:
            operator = find_operator(setting.operator)
            if isinstance(operator, InstructionOperator):
                key = perturbation_key(stream, 0, "instruction", operator.name)
                metadata.append(operator.describe(instruction, setting.severity, key))
                instruction = metadata[-1]["instruction"]
        return instruction, metadata

    def action_settings(self) -> list[tuple[ActionOperator, OperatorSetting]]:
        """Return the operators on actions, with their settings."""
        found = [(find_operator(setting.operator), setting) for setting in self.settings]
        return [(operator, setting) for operator, setting in found if isinstance(operator, ActionOperator)]

    def modalities(self) -> frozenset[Modality]:
        """Return the kinds of arrays that some operator acts on, that is with a severity above zero."""
        found: set[Modality] = set()
        for setting in self.settings:
            if setting.severity > 0:
                found.update(modalities_of(find_operator(setting.operator)))
        return frozenset(found)

    def is_for(self, modality: Modality, observation_key: str) -> bool:
        """Tell whether some operator acts on an array of a modality, that is with a severity above zero."""
        return any(
            setting.severity > 0
            and modality in modalities_of(find_operator(setting.operator))
            and setting.is_for(modality, observation_key)
            for setting in self.settings
        )

    def acts_on(self, target: Target) -> bool:
        """Tell whether some operator acts on a target, that is with a severity above zero."""
        return any(s.severity > 0 and find_operator(s.operator).target == target for s in self.settings)

    def keeps_range(self, modality: Modality, observation_key: str) -> bool:
        """Tell whether a perturbed array stays between zero and the bounds of the clean one."""
        return all(operator.keeps_range for operator, _ in self._changing(modality, observation_key))

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
        settings = tuple(setting._replace(severity=setting.severity * factor) for setting in self.settings)
        return Profile(f"{self.name} x {factor!r}", settings)

    def resolved(self, step_budget: int | None) -> Profile:
        """Return the profile with every onset and duration in steps.

        Raises:
            InvalidInputError: One is a fraction of the step budget, and the budget is None.
        """
        return Profile(self.name, tuple(setting.resolved(step_budget) for setting in self.settings))

    def _changing(
        self, modality: Modality, observation_key: str
    ) -> Iterator[tuple[ObservationOperator, OperatorSetting]]:
        for setting in self.settings:
            operator = find_operator(setting.operator)
            if (
                isinstance(operator, ObservationOperator)
                and operator.modality == modality
                and setting.is_for(modality, observation_key)
            ):
                yield operator, setting

    def _giving_earlier(
        self, modality: Modality, observation_key: str
    ) -> Iterator[tuple[HistoryOperator, OperatorSetting]]:
        for setting in self.settings:
            operator = find_operator(setting.operator)
            if (
                isinstance(operator, HistoryOperator)
                and modality in operator.modalities
                and setting.is_for(modality, observation_key)
            ):
                yield operator, setting


def named_profile(name: str, own: Mapping[str, JSON]) -> Profile:
    """Return a profile of a plan's own, mappings with `operators` by name, or a built-in one; all are checked.

    Raises:
        UnknownNameError: No profile has the name.
        InvalidInputError: One of their own is malformed, or has the name of a built-in one.
    """
    found = dict(PROFILES)
    for key, spec in own.items():
        if key in PROFILES or not isinstance(spec, Mapping) or set(spec) != {"operators"}:
            raise InvalidInputError(
                f"Expected a profile under a name that no built-in one has, as a mapping with 'operators' alone, got "
                f"{spec!r} under {key!r}."
            )
        found[key] = Profile.from_spec({"name": key, **spec})
    check_names("perturbation profile", [name], found)
    return found[name]


def _check_applied(operator: Operator) -> None:
    """Refuse an operator that nothing applies."""
    if isinstance(operator, ActionOperator | InstructionOperator):
        return
    for modality in modalities_of(operator) or (operator.target,):
        if modality not in get_args(Modality):
            raise InvalidInputError(
                f"Expected an operator on actions, on the instruction, or on observations of the modality "
                f"{' or '.join(get_args(Modality))}, got {operator.name!r} on {modality!r}, which nothing applies."
            )


def _paper_profile(name: str) -> Profile:
    """Return a profile of the paper, read from its file."""
    text = (Path(__file__).parent / "paper_profiles" / f"{name}.yaml").read_text(encoding="utf-8")
    spec = yaml.safe_load(text)
    return Profile(spec["name"], tuple(map(OperatorSetting.from_entry, spec["operators"])))


PROFILES: Mapping[str, Profile] = {
    name: _paper_profile(name) for name in ("clean", "mild", "medium", "strong")
}
"""The paper's profiles (Eq. 2), each a file in `paper_profiles/`."""
