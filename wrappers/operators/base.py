"""What a perturbation operator is: a pure function of (clean value, severity, key).

`Operator` is what every operator declares. The kinds are `ObservationOperator` (one array of an observation),
`HistoryOperator` (which earlier array is given instead of the present one), `ActionOperator` and `InstructionOperator`;
`Perturbed` is the result of one application. `PerturbationKey` is the key, `frame_layout` tells where the rows and
columns of an image or depth array are, `modalities_of` which kinds of arrays an operator acts on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from roep_gym import seeding
from roep_gym.arguments import read_number
from roep_gym.error import InvalidInputError
from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array

__all__ = [
    "MAX_LEVEL",
    "ActionOperator",
    "FrameLayout",
    "HistoryOperator",
    "InstructionOperator",
    "Metadata",
    "Modality",
    "ObservationOperator",
    "Operator",
    "PerturbationKey",
    "Perturbed",
    "Shape",
    "Target",
    "frame_layout",
    "modalities_of",
]

Target = Literal["observation", "action", "scene", "instruction"]
"""What an operator acts on."""
Modality = Literal["image", "depth", "vector"]
"""Kind of an array of an observation."""
MAX_LEVEL = 5.0
"""The largest severity of an operator whose severities are the levels 1 to 5; those between are interpolated."""
Shape = tuple[int, ...]
Metadata = Mapping[str, JSON]
"""What one application of an operator did; with the clean array and the key it determines the perturbed array."""


class Perturbed(NamedTuple):
    """A perturbed array and the metadata of what was done to it."""

    array: Array
    metadata: Metadata


class PerturbationKey(NamedTuple):
    """The key of an operator's draws on one value at one step.

    What lasts longer than a step is drawn from a generator that leaves the step out, or names a block of steps.

    Attributes:
        purpose: "perturbation".
        run_id: Run id.
        seed_group: Seed group.
        episode: Episode index within the seed group.
        step: Step index of the observation, 0 for the one that `reset` returns, or of the action that follows it.
        channel: Key of the array in the observation, "action" or "instruction".
        operator: Name of the operator.
    """

    purpose: str
    run_id: str
    seed_group: int
    episode: int
    step: int
    channel: str
    operator: str

    @classmethod
    def of(cls, key: tuple[Key, ...]) -> PerturbationKey:
        """Return a key with its parts named.

        Raises:
            InvalidInputError: It has another number of parts.
        """
        if len(key) != len(cls._fields):
            raise InvalidInputError(f"Expected a key as `perturbation_key` gives it, got {key!r}.")
        return cls(*key)  # type: ignore[arg-type]

    def generator(self) -> np.random.Generator:
        """Return the generator of this very step."""
        return seeding.generator(*self)

    def lasting(self, *block: Key) -> np.random.Generator:
        """Return the generator of the whole episode, or of a block of steps in it."""
        return seeding.generator(*self._replace(step=-1), *block)


class FrameLayout(NamedTuple):
    """Numbers of rows and columns of an image or depth array, and the axis that the rows are on."""

    rows: int
    columns: int
    row_axis: int


def frame_layout(shape: Shape) -> FrameLayout:
    """Return the layout of (H, W), of (H, W, C) or of (C, H, W) with 1, 3 or 4 channels; the last axis is tried first.

    Raises:
        InvalidInputError: The shape is none of these.
    """
    if len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)):
        return FrameLayout(shape[0], shape[1], 0)
    if len(shape) == 3 and shape[0] in (1, 3, 4):
        return FrameLayout(shape[1], shape[2], 1)
    raise InvalidInputError(
        f"Expected a frame of shape (H, W), (H, W, C) or (C, H, W) with C in 1, 3, 4, got {shape}."
    )


@dataclass(frozen=True)
class Operator(ABC):
    """What every operator declares.

    Attributes:
        name: Name in profiles, metadata and keys: the one it was asked for by, registered or `module:attribute`.
        target: What it acts on.
        severity: Name of its severity parameter, a number from 0 to `max_severity`; at 0 the operator is the identity.
        max_severity: The largest severity.
    """

    name: str
    target: ClassVar[Target]
    severity: ClassVar[str]
    max_severity: ClassVar[float] = 1.0

    def check(self, severity: JSON) -> float:
        """Return the severity as a float.

        Raises:
            InvalidInputError: It is not a number within the range.
        """
        return read_number(f"{self.severity!r} of {self.name!r}", severity, 0.0, self.max_severity)


class ObservationOperator(Operator):
    """An operator on one array of an observation.

    The input is never modified and the result is a private copy. Everything random comes from the key. The metadata are
    JSON-native, and their `operator` is `name`.
    """

    target = "observation"
    modality: ClassVar[Modality]
    channels: ClassVar[tuple[int, ...]] = (1, 3, 4)
    """Numbers of channels that an image may have."""
    keeps_range: ClassVar[bool] = True
    """Whether the result stays between zero and the largest value that the clean array may have."""

    @abstractmethod
    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata for an array of a shape; the array itself, which may never be rendered, is not needed."""

    @abstractmethod
    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
        """Return the perturbed array for a clean one and the metadata of the application."""

    def apply(self, clean: Array, severity: float, key: tuple[Key, ...]) -> Perturbed:
        """Perturb an array."""
        metadata = self.describe(clean.shape, severity, key)
        return Perturbed(self.rebuild(clean, metadata, key), metadata)


class HistoryOperator(Operator):
    """An operator that gives an earlier array in the place of the present one.

    It acts on clean arrays, before the operators that change them. Which step it shows follows from the key alone, so
    that it is known ahead which frames have to be drawn although nobody looks at them.
    """

    target = "observation"
    severity = "severity"
    max_severity = MAX_LEVEL
    modalities: ClassVar[tuple[Modality, ...]]
    max_age: ClassVar[int]
    """The largest number of steps that the array may be old."""

    @abstractmethod
    def source(self, severity: float, key: PerturbationKey) -> int:
        """Return the step whose array is given at the key's step: from `key.step - max_age`, at least 0, to it."""

    @abstractmethod
    def is_needed(self, severity: float, key: PerturbationKey) -> bool:
        """Tell whether the array of the key's step may be given at a later one."""

    def describe(self, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata: `severity`, and `source_step`, whose clean array is the result."""
        level = self.check(severity)
        named = PerturbationKey.of(key)
        source = self.source(level, named) if level else named.step
        return {"operator": self.name, "severity": level, "source_step": source}


class ActionOperator(Operator):
    """An operator between the shield and the actuator, on the action of a step and those before it."""

    target = "action"
    severity = "severity"
    max_severity = MAX_LEVEL
    max_age: ClassVar[int] = 0
    """The number of earlier actions that it may look at."""
    stops_motion: ClassVar[bool] = False
    """Whether it may send the action of zeros, which stands for no motion in relative control alone."""

    @abstractmethod
    def describe(self, size: int, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata for an action of some entries."""

    @abstractmethod
    def rebuild(self, actions: Sequence[Array], metadata: Metadata) -> Array:
        """Return the executed action, a private copy, for the action of this step, the last, and those before it.

        There are `max_age + 1` of them, or fewer at the beginning of an episode.
        """

    def apply(self, actions: Sequence[Array], severity: float, key: tuple[Key, ...]) -> Perturbed:
        """Perturb the last of the actions."""
        metadata = self.describe(actions[-1].size, severity, key)
        return Perturbed(self.rebuild(actions, metadata), metadata)


class InstructionOperator(Operator):
    """An operator on the instruction of an episode; its key has the step 0."""

    target = "instruction"
    severity = "severity"
    max_severity = MAX_LEVEL

    @abstractmethod
    def rewrite(self, instruction: str, level: float, key: PerturbationKey) -> str:
        """Return the instruction that is given instead, for a level above zero."""

    def describe(self, instruction: str, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata: `severity`, and the `instruction` that is given."""
        level = self.check(severity)
        given = self.rewrite(instruction, level, PerturbationKey.of(key)) if level else instruction
        return {"operator": self.name, "severity": level, "instruction": given}


def modalities_of(operator: Operator) -> tuple[Modality, ...]:
    """Return the kinds of arrays that an operator acts on; none where its target is no observation."""
    if isinstance(operator, ObservationOperator):
        return (operator.modality,)
    return operator.modalities if isinstance(operator, HistoryOperator) else ()
