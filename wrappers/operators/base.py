"""What a perturbation operator is: a pure function of (clean array, severity, key).

`Operator` is what every operator declares, `ObservationOperator` what those on observations share, `Perturbed` the
result of one application. `frame_layout` tells where the rows and columns of an image or depth array are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from roep_gym.arguments import read_number
from roep_gym.error import InvalidInputError
from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array

__all__ = [
    "FrameLayout",
    "Metadata",
    "Modality",
    "ObservationOperator",
    "Operator",
    "Perturbed",
    "Shape",
    "Target",
    "frame_layout",
]

Target = Literal["observation", "action", "scene", "instruction"]
"""What an operator acts on."""
Modality = Literal["image", "depth"]
"""Kind of an array of an observation."""
Shape = tuple[int, ...]
Metadata = Mapping[str, JSON]
"""What one application of an operator did; with the clean array and the key it determines the perturbed array."""


class Perturbed(NamedTuple):
    """A perturbed array and the metadata of what was done to it."""

    array: Array
    metadata: Metadata


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
