"""Perturbation operators as pure functions of (clean array, severity, key), and their registry.

`RgbOcclusion` and `DepthDropout` are the operators of protocol section 2, `rgb_occlusion` and `depth_dropout` the same
as functions. `Operator` is what every operator declares, `ObservationOperator` what those on observations share;
`register_operator` and `find_operator` are the registry, `rebuild` makes a perturbed array again from the clean one
and its metadata. `frame_layout` tells where the rows and columns of an image or depth array are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from roep_gym import seeding
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array, BoolArray

__all__ = [
    "DepthDropout",
    "FrameLayout",
    "Metadata",
    "ObservationOperator",
    "Operator",
    "Perturbed",
    "RgbOcclusion",
    "Target",
    "depth_dropout",
    "find_operator",
    "frame_layout",
    "operator_names",
    "rebuild",
    "register_operator",
    "rgb_occlusion",
]

Target = Literal["observation", "action", "scene", "instruction"]
"""What an operator acts on."""
Modality = Literal["image", "depth"]
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
    if len(shape) == 2:
        return FrameLayout(shape[0], shape[1], 0)
    if len(shape) == 3 and shape[2] in (1, 3, 4):
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
        name: Name in profiles, metadata and keys.
        target: What it acts on.
        severity: Name of its severity parameter, a number from 0 to `most`; at 0 the operator is the identity.
    """

    name: ClassVar[str]
    target: ClassVar[Target]
    severity: ClassVar[str]
    most: ClassVar[float] = 1.0

    def check(self, severity: JSON) -> float:
        """Return the severity as a float.

        Raises:
            InvalidInputError: It is not a number within the range.
        """
        if (
            isinstance(severity, bool)
            or not isinstance(severity, int | float)
            or not 0.0 <= severity <= self.most
        ):
            raise InvalidInputError(
                f"Expected {self.severity!r} of {self.name!r} to be a number in [0, {self.most:g}], got {severity!r}."
            )
        return float(severity)


class ObservationOperator(Operator):
    """An operator on one array of an observation.

    The input is never modified and the result is a private copy. Everything random comes from the key.
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


class RgbOcclusion(ObservationOperator):
    """A black square at a uniformly random place fully inside the frame (protocol section 2, Eq. 2).

    Its side is `round(alpha * shorter side)` pixels (half to even); all channels become 0. Metadata: `row` and `column`
    of the upper left corner and `side`, in pixels; all 0 when nothing is covered.
    """

    name = "rgb_occlusion"
    modality = "image"
    severity = "alpha"

    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Draw the place of the square."""
        layout = frame_layout(shape)
        side = round(self.check(severity) * min(layout.rows, layout.columns))
        row = column = 0
        if side:
            generator = seeding.generator(*key)
            row = int(generator.integers(layout.rows - side + 1))
            column = int(generator.integers(layout.columns - side + 1))
        return {"operator": self.name, "row": row, "column": column, "side": side}

    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...] = ()) -> Array:
        """Return a copy with the square; the key is not needed."""
        row, column, side = metadata["row"], metadata["column"], metadata["side"]
        leading = (slice(None),) * frame_layout(clean.shape).row_axis
        perturbed = clean.copy()
        perturbed[(*leading, slice(row, row + side), slice(column, column + side))] = 0
        return perturbed


class DepthDropout(ObservationOperator):
    """Each pixel is set to 0 independently with a probability (protocol section 2, Eq. 2).

    A pixel drops when its 16 random bits are below `round(probability * 65536)`, so that the exact probability is a
    multiple of 1/65536, at most 8e-6 away from the one asked for. Metadata: `probability` and the `fraction` of pixels
    that dropped.
    """

    name = "depth_dropout"
    modality = "depth"
    severity = "probability"

    def describe(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Draw the mask and return its fraction."""
        return self._metadata(severity, self.mask(shape, severity, key))

    def rebuild(self, clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
        """Return a copy with the dropped pixels, which the key determines."""
        return self._drop(clean, self.mask(clean.shape, metadata["probability"], key))

    def apply(self, clean: Array, severity: float, key: tuple[Key, ...]) -> Perturbed:
        """Perturb an array, drawing the mask once."""
        mask = self.mask(clean.shape, severity, key)
        return Perturbed(self._drop(clean, mask), self._metadata(severity, mask))

    def mask(self, shape: Shape, severity: float, key: tuple[Key, ...]) -> BoolArray:
        """Return which pixels drop, a boolean array of the given shape."""
        layout = frame_layout(shape)
        if layout.rows * layout.columns != np.prod(shape):
            raise InvalidInputError(f"Expected depth of shape (H, W), (H, W, 1) or (1, H, W), got {shape}.")
        threshold = round(self.check(severity) * 65536)
        if threshold == 0:
            return np.zeros(shape, dtype=np.bool_)
        if threshold == 65536:
            return np.ones(shape, dtype=np.bool_)
        pixels = layout.rows * layout.columns
        words = seeding.generator(*key).bit_generator.random_raw((pixels + 3) // 4)
        # Explicit byte order: the same pixels drop on every machine.
        sixteen_bits = words.astype("<u8", copy=False).view("<u2")[:pixels]
        return (sixteen_bits < np.uint16(threshold)).reshape(shape)

    def _metadata(self, severity: float, mask: BoolArray) -> Metadata:
        fraction = int(np.count_nonzero(mask)) / mask.size
        return {"operator": self.name, "probability": float(severity), "fraction": fraction}

    def _drop(self, clean: Array, mask: BoolArray) -> Array:
        # Multiplying the bits, not the floats, gives exact zeros also for infinities, ten times faster than masking.
        bits = clean.view(np.dtype(f"u{clean.dtype.itemsize}"))
        dropped: Array = (bits * ~mask).view(clean.dtype)
        return dropped


_REGISTRY: dict[str, Operator] = {}


def register_operator(operator: Operator) -> None:
    """Make an operator known by its name.

    Raises:
        InvalidInputError: Another operator has that name.
    """
    if type(_REGISTRY.get(operator.name, operator)) is not type(operator):
        raise InvalidInputError(
            f"Expected a new operator name, but {operator.name!r} is taken; choose another."
        )
    _REGISTRY[operator.name] = operator


def find_operator(name: str) -> Operator:
    """Return the operator of a name.

    Raises:
        UnknownNameError: There is none; the message offers the closest match.
    """
    if name not in _REGISTRY:
        raise unknown_name("perturbation operator", name, _REGISTRY)
    return _REGISTRY[name]


def operator_names(target: Target | None = None) -> tuple[str, ...]:
    """Return the names of all operators, or of those with a target."""
    return tuple(name for name, operator in _REGISTRY.items() if target in (None, operator.target))


_OCCLUSION, _DROPOUT = RgbOcclusion(), DepthDropout()
register_operator(_OCCLUSION)
register_operator(_DROPOUT)


def rgb_occlusion(clean: Array, alpha: float, key: tuple[Key, ...]) -> Perturbed:
    """Cover a square of an image (see `RgbOcclusion`)."""
    return _OCCLUSION.apply(clean, alpha, key)


def depth_dropout(clean: Array, probability: float, key: tuple[Key, ...]) -> Perturbed:
    """Set pixels of a depth array to 0 (see `DepthDropout`)."""
    return _DROPOUT.apply(clean, probability, key)


def rebuild(clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
    """Return the perturbed array of one application from its clean array, its metadata and its key."""
    operator = find_operator(metadata["operator"])
    if not isinstance(operator, ObservationOperator):
        raise InvalidInputError(
            f"Expected an operator on observations, but {operator.name!r} acts on {operator.target}s."
        )
    return operator.rebuild(clean, metadata, key)
