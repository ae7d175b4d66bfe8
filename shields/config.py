"""The settings of a shield; the defaults are the paper's where it gives them.

`ShieldConfig` covers features, labels, split, training and calibration, `ProjectionConfig` what an
intervention does to an action. Both are validated when they are made and round-trip through JSON.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from roep_gym.arguments import plain, read_integer, read_number
from roep_gym.error import InvalidInputError, shown
from roep_gym.mapping_reader import check_fields

__all__ = ["ProjectionConfig", "ShieldConfig"]


@dataclass(frozen=True)
class ProjectionConfig:
    """How an intervention changes an action (protocol section 6, projection).

    Sizes are in units of relative control, where a zero translation and rotation holds still. In absolute control the
    translation is the way from the measured position to the commanded one, in the same units. The paper names the
    projection without its numbers; the defaults here are ours.

    Attributes:
        scale: Factor on the translational part, in [0, 1].
        lift: Added to the vertical translation, >= 0.
        max_translation_norm: Largest Euclidean norm of the translation after projection, > 0.
        min_risk_reduction: Fraction, in [0, 1], by which the risk must fall, unless it falls below the threshold.
        translation: Indices of the translational entries of the action.
        vertical: Index of the vertical one among them; None where there is none.
        gripper: Indices of entries that are kept exactly, also in a refusal.
        action_low: Lower bound of every action entry, <= 0; in absolute control of every entry of the way.
        action_high: Upper bound, >= 0, likewise.
        rotation: Indices of the axis-angle rotation in an action of absolute control, three.
        metres_per_unit: Way that a translation of 1 is, in metres, > 0; for absolute control.
        position_fields: Entries of the low-dimensional observation with the measured position (x, y, z) in metres; for
            absolute control.
        quaternion_fields: Those with the measured orientation as a quaternion (x, y, z, w); for absolute control.
        quaternion_offset: Quaternion (x, y, z, w) that turns the measured orientation into the commanded one of the
            same pose. The default is that of robosuite's Panda, whose observed hand and controlled grip site differ by
            a quarter of a turn.
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
    rotation: tuple[int, ...] = (3, 4, 5)
    metres_per_unit: float = 0.05
    position_fields: tuple[str, ...] = ("eef_pos_x", "eef_pos_y", "eef_pos_z")
    quaternion_fields: tuple[str, ...] = ("eef_quat_x", "eef_quat_y", "eef_quat_z", "eef_quat_w")
    quaternion_offset: tuple[float, ...] = (0.0, 0.0, -math.sqrt(0.5), math.sqrt(0.5))

    def __post_init__(self) -> None:
        check_fields(self, "projection")
        for name in ("translation", "gripper", "rotation"):
            indices = getattr(self, name)
            valid = min(indices, default=0) >= 0 and len(set(indices)) == len(indices)
            _expect(valid, f"projection.{name}", "a list of distinct indices >= 0", indices)
        # Scaling a translation down must not leave the bounds, so zero lies within them.
        ranges = {"scale": (0.0, 1.0), "lift": (0.0, math.inf), "min_risk_reduction": (0.0, 1.0)}
        ranges |= {"action_low": (-math.inf, 0.0), "action_high": (0.0, math.inf)}
        for name, limits in ranges.items():
            read_number(f"shield.projection.{name}", getattr(self, name), *limits)
        for name in ("max_translation_norm", "metres_per_unit"):
            _expect(getattr(self, name) > 0, f"projection.{name}", "> 0", getattr(self, name))
        _expect(len(self.translation) > 0, "projection.translation", "at least one index", self.translation)
        _expect(
            self.vertical is None or self.vertical in self.translation,
            "projection.vertical",
            f"None or one of the translational indices {list(self.translation)}",
            self.vertical,
        )
        shared = set(self.translation) & set(self.gripper)
        _expect(not shared, "projection.gripper", "disjoint from projection.translation", self.gripper)
        for name, size in (("rotation", 3), ("position_fields", 3), ("quaternion_fields", 4)):
            entries = getattr(self, name)
            _expect(
                len(set(entries)) == len(entries) == size, f"projection.{name}", f"{size} entries", entries
            )
        norm = math.hypot(*self.quaternion_offset)
        valid = len(self.quaternion_offset) == 4 and abs(norm - 1.0) < 1e-6
        _expect(valid, "projection.quaternion_offset", "a quaternion of norm 1", self.quaternion_offset)
        bounded = self.action_low < self.action_high
        _expect(bounded, "projection.action_high", "> action_low", self.action_high)


@dataclass(frozen=True)
class ShieldConfig:
    """The settings of a shield's training (protocol section 6).

    Attributes:
        fields: Entries of the low-dimensional observation that become features; None takes all.
        tail_horizon: Steps at the end of a risk episode that are risk, >= 1.
        prefix_support: How much of a risk episode's remainder is weak safe support in training: "all", "none", or
            the first n steps.
        min_risk_episodes: Risk episodes that the training part and the validation part must each have, >= 1.
        min_safe_episodes: Safe episodes that each of the three parts must have, >= 1.
        train_fraction: Share of the scenes in the training part, > 0.
        validation_fraction: Share in the validation part, > 0; the three shares sum to 1.
        calibration_fraction: Share in the calibration part, > 0.
        hidden_sizes: Widths of the hidden layers.
        learning_rate: Adam's learning rate.
        batch_size: Steps in a batch.
        max_epochs: Largest number of epochs.
        patience: Epochs without a lower validation loss before training stops.
        alpha: Share of safe calibration steps that may reach the threshold; tau is the (1 - alpha) quantile.
        seed: Seed of the initial weights and of the batch order.
        terminate_on_refusal: Whether a safe refusal ends the episode, for the reason `safe_refusal`.
        projection: What an intervention does.
    """

    fields: tuple[str, ...] | None = None
    tail_horizon: int = 5
    prefix_support: Literal["all", "none"] | int = "all"
    min_risk_episodes: int = 1
    min_safe_episodes: int = 1
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
    terminate_on_refusal: bool = False
    projection: ProjectionConfig = field(default_factory=ProjectionConfig)

    def __post_init__(self) -> None:
        check_fields(self, "shield")
        if self.fields is not None:
            valid = bool(self.fields) and len(set(self.fields)) == len(self.fields)
            _expect(valid, "fields", "null or a list of distinct field names", self.fields)
        counts = ("tail_horizon", "min_risk_episodes", "min_safe_episodes", "batch_size", "max_epochs")
        least = {**dict.fromkeys((*counts, "patience"), 1), "seed": 0}
        if not isinstance(self.prefix_support, str):
            least["prefix_support"] = 0
        for name, lowest in least.items():
            read_integer(f"shield.{name}", getattr(self, name), lowest)
        for name in ("train_fraction", "validation_fraction", "calibration_fraction"):
            fraction = read_number(f"shield.{name}", getattr(self, name), 0.0, 1.0)
            _expect(fraction > 0, name, "> 0, since every part is used", fraction)
        total = self.train_fraction + self.validation_fraction + self.calibration_fraction
        _expect(abs(total - 1.0) <= 1e-9, "train_fraction", "such that the three fractions sum to 1", total)
        _expect(min(self.hidden_sizes, default=1) >= 1, "hidden_sizes", "widths >= 1", self.hidden_sizes)
        _expect(self.learning_rate > 0, "learning_rate", "> 0", self.learning_rate)
        _expect(0 < self.alpha < 1, "alpha", "between 0 and 1, both excluded", self.alpha)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON-native mapping."""
        settings: dict[str, Any] = plain(asdict(self))
        return settings


def _expect(holds: bool, name: str, expected: str, got: Any) -> None:
    if not holds:
        raise InvalidInputError(f"Expected shield.{name} to be {expected}, got {shown(got)}.")
