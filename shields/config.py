"""The settings of a shield; the defaults are the paper's where it gives them.

`ShieldConfig` covers features, labels, split, training and calibration, `ProjectionConfig` what an
intervention does to an action. Both are validated when they are made and round-trip through JSON.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from roep_gym.error import InvalidInputError, unknown_name

__all__ = ["ProjectionConfig", "ShieldConfig"]


@dataclass(frozen=True)
class ProjectionConfig:
    """How an intervention changes an action (protocol section 6, projection).

    Actions are relative: a zero translation and rotation holds still. Sizes are in action units. The paper
    names the projection without its numbers; the defaults here are ours.

    Attributes:
        scale: Factor on the translational part, in [0, 1].
        lift: Added to the vertical translation, >= 0.
        max_translation_norm: Largest Euclidean norm of the translation after projection, > 0.
        min_risk_reduction: Fraction, in [0, 1], by which the risk must fall, unless it falls below the threshold.
        translation: Indices of the translational entries of the action.
        vertical: Index of the vertical one among them; None where there is none.
        gripper: Indices of entries that are kept exactly, also in a refusal.
        action_low: Lower bound of every action entry, <= 0.
        action_high: Upper bound of every action entry, >= 0.
    """

    scale: float = 0.5
    lift: float = 0.1
    max_translation_norm: float = 0.5
    min_risk_reduction: float = 0.1
    translation: tuple[int, ...] = (0, 1, 2)
    vertical: int | None = 2
    gripper: tuple[int, ...] = (6,)
    action_low: float = -1.0
    action_high: float = 1.0

    def __post_init__(self) -> None:
        for name in ("translation", "gripper"):
            object.__setattr__(self, name, _index_tuple(f"projection.{name}", getattr(self, name)))
        _expect_float("projection.scale", self.scale, 0.0, 1.0)
        _expect_float("projection.lift", self.lift, 0.0)
        _expect_float("projection.max_translation_norm", self.max_translation_norm, 0.0)
        _expect(
            self.max_translation_norm > 0, "projection.max_translation_norm", "> 0", self.max_translation_norm
        )
        _expect_float("projection.min_risk_reduction", self.min_risk_reduction, 0.0, 1.0)
        _expect(len(self.translation) > 0, "projection.translation", "at least one index", self.translation)
        _expect(
            self.vertical is None or self.vertical in self.translation,
            "projection.vertical",
            f"None or one of the translational indices {list(self.translation)}",
            self.vertical,
        )
        shared = set(self.translation) & set(self.gripper)
        _expect(not shared, "projection.gripper", "disjoint from projection.translation", self.gripper)
        # Scaling a translation down must not leave the bounds, so zero lies within them.
        _expect_float("projection.action_low", self.action_low, -math.inf, 0.0)
        _expect_float("projection.action_high", self.action_high, 0.0)
        _expect(
            self.action_low < self.action_high, "projection.action_high", "> action_low", self.action_high
        )


@dataclass(frozen=True)
class ShieldConfig:
    """The settings of a shield's training (protocol section 6).

    Attributes:
        fields: Entries of the low-dimensional observation that become features; None takes all.
        tail_horizon: Steps at the end of a risk episode that are risk, >= 1.
        prefix_support: How much of a risk episode's remainder is weak safe support in training: "all", "none", or
            the first n steps.
        min_risk_episodes: Risk episodes that the training part must hold, >= 1.
        train_fraction: Share of the episodes in the training part.
        validation_fraction: Share in the validation part; the three shares sum to 1.
        calibration_fraction: Share in the calibration part.
        hidden_sizes: Widths of the hidden layers.
        learning_rate: Adam's learning rate.
        batch_size: Steps in a batch.
        max_epochs: Largest number of epochs.
        patience: Epochs without a lower validation loss before training stops.
        alpha: Share of safe calibration steps that may reach the threshold; tau is the (1 - alpha) quantile.
        seed: Seed of the initial weights and of the batch order.
        projection: What an intervention does.
    """

    fields: tuple[str, ...] | None = None
    tail_horizon: int = 5
    prefix_support: Literal["all", "none"] | int = "all"
    min_risk_episodes: int = 1
    train_fraction: float = 0.8
    validation_fraction: float = 0.1
    calibration_fraction: float = 0.1
    hidden_sizes: tuple[int, ...] = (128, 64, 32)
    learning_rate: float = 1e-3
    batch_size: int = 256
    max_epochs: int = 40
    patience: int = 7
    alpha: float = 0.05
    seed: int = 0
    projection: ProjectionConfig = field(default_factory=ProjectionConfig)

    def __post_init__(self) -> None:
        if self.fields is not None:
            names = tuple(self.fields) if isinstance(self.fields, list | tuple) else ()
            valid = names and all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
            _expect(bool(valid), "fields", "None or a list of distinct field names", self.fields)
            object.__setattr__(self, "fields", names)
        if self.prefix_support not in ("all", "none"):
            valid_prefix = _is_int(self.prefix_support, 0)
            _expect(valid_prefix, "prefix_support", "'all', 'none' or an integer >= 0", self.prefix_support)
        for name in ("tail_horizon", "min_risk_episodes", "batch_size", "max_epochs", "patience"):
            _expect(_is_int(getattr(self, name), 1), name, "an integer >= 1", getattr(self, name))
        _expect(_is_int(self.seed, 0), "seed", "an integer >= 0", self.seed)
        for name in ("train_fraction", "validation_fraction", "calibration_fraction"):
            _expect_float(name, getattr(self, name), 0.0, 1.0)
        total = self.train_fraction + self.validation_fraction + self.calibration_fraction
        _expect(abs(total - 1.0) <= 1e-9, "train_fraction", "such that the three fractions sum to 1", total)
        sizes = self.hidden_sizes if isinstance(self.hidden_sizes, list | tuple) else (0,)
        valid_sizes = all(_is_int(size, 1) for size in sizes)
        _expect(valid_sizes, "hidden_sizes", "a list of integers >= 1", self.hidden_sizes)
        object.__setattr__(self, "hidden_sizes", tuple(sizes))
        _expect_float("learning_rate", self.learning_rate, 0.0)
        _expect(self.learning_rate > 0, "learning_rate", "> 0", self.learning_rate)
        _expect_float("alpha", self.alpha, 0.0, 1.0)
        _expect(0 < self.alpha < 1, "alpha", "between 0 and 1, both excluded", self.alpha)
        is_projection = isinstance(self.projection, ProjectionConfig)
        _expect(is_projection, "projection", "a ProjectionConfig", self.projection)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON-native mapping."""
        return {k: _listed(v) for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> ShieldConfig:
        """Return the settings in a mapping; what it leaves out takes its default.

        Raises:
            InvalidInputError: A setting is unknown or its value is not valid.
        """
        values = _known("shield setting", settings, cls)
        if "projection" in values and not isinstance(values["projection"], ProjectionConfig):
            values["projection"] = ProjectionConfig(
                **_known("projection setting", values["projection"], ProjectionConfig)
            )
        return cls(**values)

    def to_json(self) -> str:
        """Return the settings as JSON text."""
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ShieldConfig:
        """Return the settings that `to_json` wrote.

        Raises:
            InvalidInputError: The text is not JSON, or a setting is unknown or not valid.
        """
        try:
            settings = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(
                f"Expected shield settings as JSON, got text that does not parse: {error}."
            ) from error
        return cls.from_dict(settings)


def _known(kind: str, settings: Any, cls: type) -> dict[str, Any]:
    if not isinstance(settings, Mapping):
        raise InvalidInputError(
            f"Expected each {kind} as an entry of a mapping, got {type(settings).__name__}."
        )
    names = [f.name for f in fields(cls)]
    for name in settings:
        if name not in names:
            raise unknown_name(kind, str(name), names)
    return dict(settings)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _is_int(value: Any, minimum: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum


def _index_tuple(name: str, value: Any) -> tuple[int, ...]:
    indices = tuple(value) if isinstance(value, list | tuple) else (-1,)
    valid = all(_is_int(i, 0) for i in indices) and len(set(indices)) == len(indices)
    _expect(valid, name, "a list of distinct indices >= 0", value)
    return indices


def _expect_float(name: str, value: Any, low: float, high: float = math.inf) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    _expect(number and low <= value <= high, name, f"a finite number in [{low}, {high}]", value)


def _expect(holds: bool, name: str, expected: str, got: Any) -> None:
    if not holds:
        raise InvalidInputError(f"Expected the shield setting {name!r} to be {expected}, got {got!r}.")
