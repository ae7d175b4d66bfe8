"""The learned shield at runtime: `Shield.assess` scores a proposed action and, from the threshold on, replaces it.

`pose_fields` are the observation entries that it needs to act in absolute control; `untrained_shield` has learned
nothing and shows, before there are episodes to learn from, whether a shield fits an environment.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from roep_gym.array_digest import arrays_digest
from roep_gym.error import InvalidInputError
from roep_gym.shields.base import Assessment
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.features import assemble, feature_names, field_indices
from roep_gym.shields.model import Layer, RiskModel, ZScore
from roep_gym.shields.projection import check_proposed_action, measured_pose, project
from roep_gym.typing import Array, IntArray

__all__ = ["CONTROL_MODES", "Shield", "pose_fields", "untrained_shield", "with_pose_fields"]

CONTROL_MODES = ("relative", "absolute")


def pose_fields(config: ShieldConfig, control_mode: str) -> tuple[str, ...]:
    """Return the observation entries of the measured pose that an intervention needs; none in relative control."""
    layout = config.projection
    return layout.position_fields + layout.quaternion_fields if control_mode == "absolute" else ()


def with_pose_fields(fields: tuple[str, ...], config: ShieldConfig, control_mode: str) -> tuple[str, ...]:
    """Return the fields of a model and those of `pose_fields` that are not among them."""
    return fields + tuple(name for name in pose_fields(config, control_mode) if name not in fields)


@dataclass(frozen=True, eq=False)
class Shield:
    """A trained shield with its threshold, fixed during a rollout.

    Attributes:
        model: The risk model.
        threshold: tau, finite.
        fields: Entries of the low-dimensional observation that `assess` takes: those of the model first, then what the
            measured pose needs beyond them.
        action_size: Number of entries of an action.
        config: The settings it was trained with; `config.projection` acts at runtime.
        control_mode: The control mode of its actions, "relative" or "absolute"; the latter needs the measured pose.
        metadata: What the training recorded, JSON-native.

    Raises:
        InvalidInputError: The threshold is not finite, fields and action do not make the model's input, the control
            mode is another, or the fields lack the measured pose in absolute control.
    """

    model: RiskModel
    threshold: float
    fields: tuple[str, ...]
    action_size: int
    config: ShieldConfig
    control_mode: str = "relative"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    _pose: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise InvalidInputError(f"Expected a shield with a finite threshold, got {self.threshold}.")
        layout, absolute = self.config.projection, self.control_mode == "absolute"
        if self.control_mode not in CONTROL_MODES:
            raise InvalidInputError(
                f"Expected a shield for one of the control modes {list(CONTROL_MODES)}, got {self.control_mode!r}."
            )
        features, pose = (
            len(self._model_fields) + self.action_size,
            pose_fields(self.config, self.control_mode),
        )
        pose_alone = set(self.fields[len(self._model_fields) :]) <= set(pose)
        if features != self.model.input_size or not pose_alone:
            raise InvalidInputError(
                f"Expected a risk model of {len(self.fields) + self.action_size} features ({len(self.fields)} fields "
                f"and {self.action_size} action entries), got one of {self.model.input_size}."
            )
        indices = layout.translation + layout.gripper + (layout.rotation if absolute else ())
        if max(indices) >= self.action_size or len(set(indices)) < len(indices):
            raise InvalidInputError(
                f"Expected distinct projection indices below the action size {self.action_size}, got {list(indices)}; "
                "set translation, gripper and, for absolute control, rotation in ProjectionConfig."
            )
        if absolute and len(layout.translation) != 3:
            raise InvalidInputError(
                f"Expected 3 translational indices for absolute control, got {list(layout.translation)}; set them in "
                "ProjectionConfig."
            )
        object.__setattr__(self, "_pose", field_indices(pose, self.fields))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return feature_names(self._model_fields, self.action_size)

    @property
    def action_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of every action entry, in relative control."""
        return self.config.projection.action_low, self.config.projection.action_high

    @property
    def _model_fields(self) -> tuple[str, ...]:
        return self.fields[: max(self.model.input_size - self.action_size, 0)]

    def risk(self, low: Array, action: Array) -> float:
        """Return the risk r_t in [0, 1] (Eq. 11); NaN when an input is not finite."""
        return self.model.risk(assemble(low[: len(self._model_fields)], action))

    def assess(self, low: Array, action: Array) -> Assessment:
        """Return the shield tuple of a proposed action.

        Below the threshold the action passes through as the very object it was. A risk that is not finite
        intervenes. In absolute control an intervention starts from the measured pose, so where that is not finite, the
        action is not either.

        Args:
            low: The entries named by `fields`, shape (fields,).
            action: Proposed action, shape (action size,).

        Raises:
            PolicyOutputError: The action is wrongly shaped or not finite; the shield never rescues it.
            InvalidInputError: The observation has another shape.
        """
        check_proposed_action(action, self.action_size)
        if np.shape(low) != (len(self.fields),):
            raise InvalidInputError(
                f"Expected a low-dimensional observation of shape ({len(self.fields)},), got {np.shape(low)}."
            )
        risk = self.risk(low, action)
        if risk < self.threshold:
            return Assessment(risk, self.threshold, False, "below_threshold", "none", action, False)
        reason = "threshold_reached" if math.isfinite(risk) else "risk_not_finite"
        settings, pose = self.config.projection, None
        if self.control_mode == "absolute":
            measured = np.asarray(low)[self._pose]
            pose = measured_pose(measured[:3], measured[3:], settings)
        projection = project(action, risk, self.threshold, lambda a: self.risk(low, a), settings, pose)
        refused = projection.kind != "projected"
        return Assessment(risk, self.threshold, True, reason, projection.kind, projection.action, refused)

    def description(self) -> str:
        """Return everything but the arrays as canonical JSON."""
        content = {
            "threshold": self.threshold,
            "fields": list(self.fields),
            "action_size": self.action_size,
            "config": self.config.to_dict(),
            "control_mode": self.control_mode,
            "metadata": dict(self.metadata),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """Content hash in 32 hexadecimal digits, of arrays and description alone: the same wherever it is stored."""
        return arrays_digest(self.model.arrays(), self.description())


def untrained_shield(
    fields: tuple[str, ...], action_size: int, config: ShieldConfig, control_mode: str
) -> Shield:
    """Return a shield as `train_shield` makes it, whose risk is 0.5 whatever it sees."""
    size = len(fields) + action_size
    layer = Layer(np.zeros((1, size), np.float32), np.zeros(1, np.float32))
    model = RiskModel(ZScore(np.zeros(size), np.ones(size)), (layer,))
    seen = with_pose_fields(fields, config, control_mode)
    return Shield(model, 1.0, seen, action_size, config, control_mode)
